# exercise_no_waiting.gp: time of a step when the host may be 0, 1, 2 or any number of steps ahead of the
# devices.
#
#   gnuplot -c plots/exercise_no_waiting.gp CSV PNG
#
# CSV has the columns network,work,ahead,work_number,ahead_number,ms,said_ms,most_ahead,host_mb,arena_mb.

csv = ARG1
# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,900 font "DejaVu Sans,20" linewidth 2
set output ARG2
set datafile separator comma

set grid y lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set style fill solid 0.9 noborder
set boxwidth 0.9
set xrange [-0.8:13.8]
set yrange [0:*]
set xtics scale 0 ("none" 1.5, "half a step in\neach step" 6.5, "as much, every\nfourth step" 11.5)
set xlabel "the host's own work" offset 0,-0.8
set bmargin 6
array colors[4] = [0xd73027, 0xfdae61, 0x74add1, 0x2166ac]
array names[4] = ["waits each step", "1 step ahead", "2 steps ahead", "no limit"]
at(network, a) = strcol(1) eq network && int($5) == a ? 5 * $4 + $5 : NaN

set multiplot layout 1,2 title "Milliseconds per step, by how far the host may run ahead" font ",24"
do for [network in "LeNet ResNet-18"] {
    set title network
    if (network eq "LeNet") { set key left top spacing 1.2 samplen 1; set ylabel "ms" } else { unset key; set ylabel "" }
    set offsets 0, 0, graph 0.45, 0
    plot for [a=0:3] csv skip 1 using (at(network, a)):6 with boxes lc rgb colors[a + 1] title names[a + 1], \
         csv skip 1 using (strcol(1) eq network ? 5 * $4 + $5 : NaN):7 with points pt 2 ps 1.6 lw 1.5 \
             lc rgb "#222222" title "predicted"
}
unset multiplot
