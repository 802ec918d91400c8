# exercise_towers.gp: towers with the update on the CPU and on device 0: bytes over the links, and the time of an
# exchange on some machines.
#
#   gnuplot -c plots/exercise_towers.gp CSV PNG
#
# CSV has the columns machine,network,devices,way,host,device_0,ms; way is "CPU" or "GPU", bytes are in P, the bytes
# of all variables.
call ARG0[:strlen(ARG0) - strlen("exercise_towers.gp")]."style.gp" ARG1

machines = ''; networks = ''
stats csv skip 1 using (machines = with_new(machines, strcol(1)), networks = with_new(networks, strcol(2)), $7) nooutput
stats csv skip 1 using ($7 > 0 ? $7 : NaN) nooutput name "MS"
x(m, n, way) = strcol(1) eq word(machines, m) && strcol(2) eq word(networks, n) && strcol(4) eq way ? $3 : NaN

set logscale x 2
set xrange [0.9:8.9]
set xtics (1, 2, 4, 8)
below_row = 330
eval page((words(machines) + 2) / 2, 2, words(machines) > 1 ? 0 : 4, "Towers: the update on the CPU, or on device 0", "time: modelled, not measured")
set title "what moves in a step"
set xlabel "towers"
set ylabel "times the bytes of all variables"
set yrange [-0.5:*]
eval names_below(1, 1)
plot csv skip 1 using (x(1, 1, "CPU")):5 with linespoints lt 2 title "CPU: the host's links", \
     csv skip 1 using (x(1, 1, "GPU")):6 with linespoints lt 1 title "GPU: device 0's link", \
     csv skip 1 using (x(1, 1, "CPU")):6 with linespoints lt 2 pt 4 dt 2 title "CPU: device 0's link", \
     csv skip 1 using (x(1, 1, "GPU")):5 with linespoints lt 1 pt 6 dt 2 title "GPU: the host's links"
set logscale y
eval "set ytics ".tics
set yrange [down(MS_min):up(MS_max)]
set ylabel "ms of an exchange"
eval names_below(1, 2)
do for [m=1:words(machines)] {
    set title word(machines, m) noenhanced
    plot for [n=2:1:-1] for [way in "CPU GPU"] csv skip 1 using ($7 > 0 ? x(m, n, way) : NaN):7 \
        with linespoints lt (way eq "CPU" ? 2 : 1) pt (n == 2 ? 5 : 4) dt 3 - n title (word(networks, n).", ".way)
    unset key
}
