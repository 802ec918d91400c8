# exercise_keys.gp: how long a push of all workers takes, against the number of servers, for four ways to place the
# keys of a network; and against the size of pieces.
#
#   gnuplot -c plots/exercise_keys.gp CSV PNG
#
# CSV has the columns machine,workers,network,part,way,servers,pieces,piece_kb,busiest_kb,ms,bound_ms; part is
# "servers" or "sizes".

csv = ARG1
# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,800 font "DejaVu Sans,20" linewidth 2
set output ARG2
set datafile separator comma

machine = ''
networks = ''
stats csv skip 1 using (machine = strcol(1), \
    networks = strstrt(networks, strcol(3)) ? networks : networks.' '.strcol(3), $2) nooutput
workers = int(STATS_max)
stats csv skip 1 using (strcol(4) eq "sizes" ? $6 : NaN) nooutput name "AT"

set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set logscale xy
set format y "%g"
array ways[4] = ["round robin", "ranges of keys", "largest first", "cut"]
array colors[4] = ["#fdae61", "#d73027", "#67a9cf", "#2166ac"]
array marks[4] = [9, 11, 5, 7]

set multiplot layout 1,3 title sprintf("A push of %d workers, by where the keys are: %s, modelled", workers, machine) \
    font ",24" noenhanced
set xtics (1, 2, 4, 8, 16, 32)
set xrange [0.9:36]
set xlabel "servers"
set ytics (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
do for [network in networks] {
    set title network
    if (network eq word(networks, 1)) { set ylabel "milliseconds"; set key right top spacing 1.2 samplen 2 } \
    else { set ylabel ""; unset key }
    set yrange [*:*]
    stats csv skip 1 using (strcol(3) eq network ? $11 : NaN) nooutput name "BOUND"
    stats csv skip 1 using (strcol(3) eq network ? $10 : NaN) nooutput name "MS"
    set yrange [0.8 * BOUND_max:1.5 * MS_max]
    plot BOUND_max with lines lw 1.5 dt 3 lc rgb "#444444" title "a worker's link", \
        for [w=1:4] csv skip 1 using (strcol(3) eq network && strcol(4) eq "servers" && strcol(5) eq ways[w] ? $6 : NaN):10 \
        with linespoints lw 1.5 pt marks[w] ps 1.3 lc rgb colors[w] title ways[w]
}
# Both networks in one panel: as multiples of what a worker's link needs.
set title sprintf("cut, on %d servers", int(AT_max))
set xlabel "largest piece"
set ylabel "times what a worker's link needs"
set xtics ("1 KB" 1, "" 10, "100 KB" 100, "" 1000, "10 MB" 10000)
set xrange [0.3:60000]
set yrange [0.8:*]
set format x "%g"
set key at graph 0.98, graph 0.98 right top
plot for [n=1:words(networks)] csv skip 1 \
    using (strcol(3) eq word(networks, n) && strcol(4) eq "sizes" ? $8 : NaN):($10 / $11) \
    with linespoints lw 1.5 pt (n == 1 ? 9 : 7) ps 1.5 lc rgb (n == 1 ? "#d73027" : "#2166ac") title word(networks, n)
unset multiplot
