# lenet_modelled.gp: modelled seconds of an epoch against the number of devices, a panel for each way to launch
# kernels; the part that is the exchange of gradients is pale.
#
#   gnuplot -c plots/lenet_modelled.gp CSV PNG
#
# CSV has the columns machine,launches,devices,modelled_seconds_per_epoch,exchange_seconds,launching_seconds,
# busy_seconds, with "program", "graph" and "framework" as launches.

csv = ARG1
# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,800 font "DejaVu Sans,20" linewidth 2
set output ARG2
set datafile separator comma
set datafile missing NaN

machine = ''
stats csv skip 1 using (machine = strcol(1), $4) nooutput
array ways[3] = ["program", "graph", "framework"]
array titles[3] = ["without CUDA graphs", "with CUDA graphs", "by a framework's launches"]

set grid y lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set style fill solid 0.9 noborder
set boxwidth 0.6
set xtics ("1" 0, "2" 1, "4" 2, "8" 3)
set xrange [-0.6:3.6]
set yrange [0:*]
set offsets 0, 0, graph 0.45, 0
set format y "%g"
set xlabel "devices"
set lmargin 9
set key left top reverse Left spacing 1.3 samplen 1
# Bars stand side by side, at 0, 1, 2 and 3; rows of other panels nowhere.
at(way) = strcol(2) eq way ? log(column(3)) / log(2) : NaN

set multiplot layout 1,3 title sprintf("LeNet on %s: modelled seconds of an epoch, not measured (each panel has its own scale)", machine) font ",24" noenhanced
do for [panel=1:3] {
    way = ways[panel]
    set title titles[panel]
    if (panel == 1) { set ylabel "modelled seconds" } else { unset ylabel }
    plot csv skip 1 using (at(way)):4 with boxes lc rgb "#f4a582" \
             title (panel == 1 ? "exchange of gradients" : ""), \
         csv skip 1 using (at(way)):($4 - $5) with boxes lc rgb "#2166ac" \
             title (panel == 1 ? "the rest of the step" : ""), \
         csv skip 1 using (at(way)):6 with points pt 9 ps 2 lc rgb "#1b1b1b" \
             title (panel == 1 ? "launches alone" : ""), \
         csv skip 1 using (at(way)):4:(sprintf("%.3f", $4)) with labels offset 0,0.8 font ",17" notitle
}
unset multiplot
