# allreduce.gp: time of an allreduce against the size of the vector, a panel for this computer (measured) and for
# each machine (modelled); below, the same as a part of the star's time.
#
#   gnuplot -c plots/allreduce.gp CSV PNG
#
# CSV has the columns time,machine,algorithm,devices,bytes,seconds,algbw,busbw,about. Drawn are the rows of the
# largest number of devices for which there are vectors of 1 KB: those with more are for allreduce_devices.gp.
call ARG0[:strlen(ARG0) - strlen("allreduce.gp")]."style.gp" ARG1

# The sizes of these panels: 1 KB, 4 KB, 16 KB, ...
is_size(bytes) = abs(log(bytes / 1024.0) / log(4) - floor(log(bytes / 1024.0) / log(4) + 0.5)) < 1e-9

stats csv skip 1 using (int($5) == 1024 ? $4 : NaN) nooutput
k = int(STATS_max)
is_shown(bytes) = int($4) == k && is_size(bytes)

# The machines in the order in which they appear, the measured one as "here".
machines = ''
array abouts[9]
stats csv skip 1 using (int($4) == k && int($5) == 1024 && !strstrt(machines, '"'.strcol(2).'"') ? \
    (machines = with_new(machines, strcol(2)), abouts[words(machines)] = strcol(9)) : 0, $4) nooutput

# The same range in all panels of a column. The star's row comes before those of the others.
stats csv skip 1 using (is_shown($5) ? $6 : NaN) nooutput name "TIME"
seconds_of_star = NaN
stats csv skip 1 using (strcol(3) eq "star" ? (seconds_of_star = $6) : 0, is_shown($5) ? $6 / seconds_of_star : NaN) \
    nooutput name "RATIO"

names = "star sharded ring tree"
of(machine, name) = is_shown($5) && strcol(2) eq machine && strcol(3) eq name
set logscale xy
set xrange [2**9.6:2**26.4]
set xtics ("1 KB" 2**10, "32 KB" 2**15, "1 MB" 2**20, "32 MB" 2**25)
below_row = 122
eval page(words(machines), 2, 1, sprintf("One allreduce on %d devices", k), \
    "left: its time; right: the same as a multiple of the star's, where small differences can be seen")
do for [m=1:words(machines)] {
    machine = word(machines, m)
    set xlabel (m == words(machines) ? "size of the vector" : "")
    set title machine eq "here" ? "measured on this computer" : "modelled, not measured: ".machine noenhanced font ",20"
    unset ylabel
    set yrange [down(TIME_min):up(TIME_max)]
    eval "set ytics ".times
    plot for [a=1:4] csv skip 1 using 5:(of(machine, word(names, a)) ? $6 : NaN) \
        with linespoints lt (a == 1 ? 9 : a) title word(names, a)
    unset key
    set title abouts[m] noenhanced font ",17"
    set ylabel "time / time of the star"
    set yrange [down(RATIO_min):up(RATIO_max)]
    eval "set ytics ".tics
    plot for [a=1:4] csv skip 1 using 5:(strcol(3) eq "star" ? (seconds_of_star = $6) : 0, \
        of(machine, word(names, a)) ? $6 / seconds_of_star : NaN) with linespoints lt (a == 1 ? 9 : a)
}
