# exercise_towers.gp: towers with the update on the CPU and on device 0: bytes over the links, and the time of an
# exchange on some machines.
#
#   gnuplot -c plots/exercise_towers.gp CSV PNG
#
# CSV has the columns machine,network,devices,way,host,device_0,ms; way is "CPU" or "GPU", bytes are in P, the bytes
# of all variables.

csv = ARG1
set datafile separator comma
set datafile missing NaN
machines = ''
networks = ''
stats csv skip 1 using (machines = strstrt(machines.' ', ' '.strcol(1).' ') ? machines : machines.' '.strcol(1), \
    networks = strstrt(networks.' ', ' '.strcol(2).' ') ? networks : networks.' '.strcol(2), $7) nooutput name "MS"
stats csv skip 1 using ($7 > 0 ? $7 : NaN) nooutput name "MS"

# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 600 * (1 + words(machines)),800 font "DejaVu Sans,20" linewidth 2
set output ARG2

set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set logscale x 2
set xrange [0.9:8.9]
set xtics (1, 2, 4, 8)
set xlabel "towers"
red = "#d73027"
blue = "#2166ac"

set multiplot layout 1,1+words(machines) title "Towers: the update on the CPU, or on device 0" font ",24"
set title "what moves in a step"
set ylabel "bytes, in P: those of all variables"
set yrange [-0.5:23]
set key left top reverse Left samplen 2 spacing 1.2
first(machine, network, way) = strcol(1) eq word(machines, machine) && strcol(2) eq word(networks, network) && strcol(4) eq way
plot csv skip 1 using (first(1, 1, "CPU") ? $3 : NaN):5 with linespoints lw 2 pt 9 ps 1.6 lc rgb red title "CPU: the host's links", \
     csv skip 1 using (first(1, 1, "GPU") ? $3 : NaN):6 with linespoints lw 2 pt 7 ps 1.4 lc rgb blue title "GPU: device 0's link", \
     csv skip 1 using (first(1, 1, "CPU") ? $3 : NaN):6 with linespoints lw 2 dt 2 pt 8 ps 1.6 lc rgb red title "CPU: device 0's link", \
     csv skip 1 using (first(1, 1, "GPU") ? $3 : NaN):5 with linespoints lw 2 dt 2 pt 6 ps 1.4 lc rgb blue title "GPU: the host's links"
set logscale y
set format y "%g"
set yrange [0.6 * MS_min:30 * MS_max]
do for [m=1:words(machines)] {
    set title word(machines, m) noenhanced
    if (m == 1) { set ylabel "modelled ms of an exchange" } else { set ylabel ""; unset key }
    plot csv skip 1 using (first(m, 2, "CPU") && $7 > 0 ? $3 : NaN):7 with linespoints lw 2 pt 9 ps 1.6 lc rgb red \
             title word(networks, 2).", CPU, copies", \
         csv skip 1 using (first(m, 2, "GPU") && $7 > 0 ? $3 : NaN):7 with linespoints lw 2 pt 7 ps 1.4 lc rgb blue \
             title word(networks, 2).", GPU", \
         csv skip 1 using (first(m, 1, "CPU") && $7 > 0 ? $3 : NaN):7 with linespoints lw 2 dt 2 pt 8 ps 1.6 lc rgb red \
             title word(networks, 1).", CPU, copies", \
         csv skip 1 using (first(m, 1, "GPU") && $7 > 0 ? $3 : NaN):7 with linespoints lw 2 dt 2 pt 6 ps 1.4 lc rgb blue \
             title word(networks, 1).", GPU"
}
unset multiplot
