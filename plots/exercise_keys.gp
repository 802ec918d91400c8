# exercise_keys.gp: how long a push of all workers takes, against the number of servers, for four ways to place the
# keys of a network; and against the size of pieces.
#
#   gnuplot -c plots/exercise_keys.gp CSV PNG
#
# CSV has the columns machine,workers,network,part,way,servers,pieces,piece_kb,busiest_kb,ms,bound_ms; part is
# "servers" or "sizes".
call ARG0[:strlen(ARG0) - strlen("exercise_keys.gp")]."style.gp" ARG1

networks = ''
stats csv skip 1 using (machine = strcol(1), networks = with_new(networks, strcol(3)), $2) nooutput
workers = int(STATS_max)
stats csv skip 1 using (strcol(4) eq "sizes" ? $6 : NaN) nooutput name "AT"
array ways[4] = ["round robin", "ranges of keys", "largest first", "cut"]

set logscale xy
set xtics (1, 2, 4, 8, 16, 32)
set xrange [0.9:36]
set xlabel "servers"
eval "set ytics ".tics
eval page(1, 3, 3, sprintf("A push of %d workers, by where the keys are", workers), "modelled, not measured: ".plain(machine))
set ylabel "milliseconds"
do for [network in networks] {
    set title network
    set yrange [*:*]
    stats csv skip 1 using (strcol(3) eq network ? $11 : NaN) nooutput name "BOUND"
    stats csv skip 1 using (strcol(3) eq network ? $10 : NaN) nooutput name "MS"
    set yrange [down(BOUND_max):up(MS_max)]
    plot BOUND_max with lines lt 8 dt 3 title "a worker's link", \
        for [w=1:4] csv skip 1 using (strcol(3) eq network && strcol(4) eq "servers" && strcol(5) eq ways[w] ? $6 : NaN):10 \
        with linespoints lt w ps 1.2 title ways[w]
    unset key
    unset ylabel
}
# Both networks in one panel: as multiples of what a worker's link needs.
set title sprintf("cut, on %d servers", int(AT_max))
set xlabel "largest piece"
set ylabel "times what a worker's link needs"
set xtics ("1 KB" 1, "" 10, "100 KB" 100, "" 1000, "10 MB" 10000)
set xrange [0.3:60000]
set yrange [0.8:100]
eval names(3)
plot for [n=1:words(networks)] csv skip 1 \
    using (strcol(3) eq word(networks, n) && strcol(4) eq "sizes" ? $8 : NaN):($10 / $11) \
    with linespoints lt 4 + n title word(networks, n)
