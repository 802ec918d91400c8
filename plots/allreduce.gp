# allreduce.gp: time of an allreduce against the size of the vector, a panel for this computer (measured) and for
# each machine (modelled); below, the same as a part of the star's time.
#
#   gnuplot -c plots/allreduce.gp CSV PNG
#
# CSV has the columns time,machine,algorithm,devices,bytes,seconds,algbw,busbw,about. Drawn are the rows of the
# largest number of devices for which there are vectors of 1 KB: those with more are for allreduce_devices.gp.

csv = ARG1
set datafile separator comma
set datafile missing NaN # rows of the other algorithms are left out, and lines go on

# The sizes of these panels: 1 KB, 4 KB, 16 KB, ...
is_size(bytes) = abs(log(bytes / 1024.0) / log(4) - floor(log(bytes / 1024.0) / log(4) + 0.5)) < 1e-9

stats csv skip 1 using (int($5) == 1024 ? $4 : NaN) nooutput
k = int(STATS_max)

# The machines in the order in which they appear, the measured one as "here".
machines = ''
array abouts[9]
stats csv skip 1 using (name = ' '.strcol(2).' ', (int($4) == k && int($5) == 1024 && !strstrt(machines, name)) ? \
    (machines = machines.name, abouts[words(machines)] = strcol(9)) : 0, $4) nooutput
n = words(machines)

# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 150 + 620 * n,1300 font "DejaVu Sans,20" linewidth 2
set output ARG2

names = "star sharded ring tree"
# Where devices share a memory, curves lie close together. So the star, which the others are compared with,
# is drawn broad and pale, and the others thinner on top of it.
array widths[4] = [6, 3.5, 2, 2]
array colors[4] = [0xf4a582, 0x2166ac, 0x1b7837, 0x762a83]
array marks[4] = [7, 5, 9, 13]
array sizes[4] = [2.2, 1.8, 1.5, 1.8]

set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set logscale xy
set xtics ("1 KB" 2**10, "32 KB" 2**15, "1 MB" 2**20, "32 MB" 2**25) font ",17"
unset mytics
set key at screen 0.5,0.035 center center horizontal maxrows 1 reverse Left samplen 2 width 2 spacing 1.2
set xrange [2**9.6:2**26.4]

# The same range in all panels of a row; of the times, whole powers of ten.
stats csv skip 1 using (int($4) == k && is_size($5) ? $6 : NaN) nooutput name "TIME"
most_ratio = 1
least_ratio = 1
seconds_of_star = NaN
stats csv skip 1 using (strcol(3) eq "star" ? (seconds_of_star = $6) : 0, \
    ratio = $6 / seconds_of_star, (int($4) == k && is_size($5)) ? \
    (most_ratio = ratio > most_ratio ? ratio : most_ratio, least_ratio = ratio < least_ratio ? ratio : least_ratio) : 0, $4) nooutput

left(panel) = 0.1 * 2.7 / n + (panel - 1) * (1 - 0.11 * 2.7 / n) / n
kinds = strstrt(machines, ' here ') ? "measured on this computer".(n > 1 ? ", modelled on others" : "") : "modelled, not measured"
set multiplot title sprintf("Time of one allreduce on %d devices: ", k).kinds font ",24"
do for [panel=1:n] {
    machine = word(machines, panel)
    set lmargin at screen left(panel); set rmargin at screen left(panel) + 0.82 / n
    set tmargin at screen 0.85; set bmargin at screen 0.51
    set yrange [10**floor(log10(TIME_min)):10**ceil(log10(TIME_max))]
    set logscale y
    set format y (panel == 1 ? "%g" : "")
    if (panel == 1) {
        set ytics ("1 µs" 1e-6, "10 µs" 1e-5, "100 µs" 1e-4, "1 ms" 1e-3, "10 ms" 1e-2, "100 ms" 1e-1, "1 s" 1, "10 s" 10)
    } else {
        set ytics ("" 1e-6, "" 1e-5, "" 1e-4, "" 1e-3, "" 1e-2, "" 1e-1, "" 1, "" 10)
    }
    set xlabel ""
    set ylabel (panel == 1 ? "time" : "") offset 2,0
    set title (machine eq "here" ? "measured here" : "modelled: ".machine) noenhanced font ",22" offset 0,1
    set label 1 abouts[panel] at graph 0.5,1.06 center noenhanced font ",14" textcolor rgb "#555555"
    if (panel == 1) { set key } else { unset key }
    plot for [a=1:4] csv skip 1 \
        using 5:(int($4) == k && is_size($5) && strcol(2) eq machine && strcol(3) eq word(names, a) ? $6 : NaN) \
        with linespoints lw widths[a] lc rgb colors[a] pt marks[a] ps sizes[a] title word(names, a)

    # Over so many decades differences of a third cannot be seen: so once more, against the star, whose row comes
    # before those of the others.
    set tmargin at screen 0.45; set bmargin at screen 0.135
    set yrange [least_ratio / 1.2:most_ratio * 1.2]
    set format y (panel == 1 ? "%g" : "")
    if (panel == 1) { set ytics (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20) } else { set ytics ("" 0.01, "" 0.02, "" 0.05, "" 0.1, "" 0.2, "" 0.5, "" 1, "" 2, "" 5, "" 10, "" 20) }
    set xlabel "size of the vector"
    set ylabel (panel == 1 ? "time / time of the star" : "") offset 0,0
    set title ""
    unset label 1
    unset key
    plot for [a=1:4] csv skip 1 \
        using 5:(strcol(3) eq "star" ? (seconds_of_star = $6) : 0, \
            int($4) == k && is_size($5) && strcol(2) eq machine && strcol(3) eq word(names, a) ? $6 / seconds_of_star : NaN) \
        with linespoints lw widths[a] lc rgb colors[a] pt marks[a] ps sizes[a] notitle
}
unset multiplot
