# lenet_modelled.gp: modelled seconds of an epoch against the number of devices, a panel for each way to launch
# kernels; the part that is the exchange of gradients is pale.
#
#   gnuplot -c plots/lenet_modelled.gp CSV PNG
#
# CSV has the columns machine,launches,devices,modelled_seconds_per_epoch,exchange_seconds,launching_seconds,
# busy_seconds, with "program", "graph" and "framework" as launches.
call ARG0[:strlen(ARG0) - strlen("lenet_modelled.gp")]."style.gp" ARG1

stats csv skip 1 using (machine = strcol(1), $4) nooutput
array ways[3] = ["program", "graph", "framework"]
array titles[3] = ["without CUDA graphs", "with CUDA graphs", "a framework's launches"]
# Bars stand side by side, at 0, 1, 2 and 3; rows of other panels nowhere.
at(way) = strcol(2) eq way ? log($3) / log(2) : NaN

set boxwidth 0.7
set xtics ("1" 0, "2" 1, "4" 2, "8" 3) scale 0
set xrange [-0.6:3.6]
set yrange [0:1.15 * STATS_max] # one scale: so that what is short looks short
set xlabel "devices"
eval page(1, 3, 1, "LeNet on ".plain(machine).": seconds of an epoch", "modelled, not measured")
set ylabel "modelled seconds"
do for [panel=1:3] {
    way = ways[panel]
    set title titles[panel]
    plot csv skip 1 using (at(way)):4 with boxes lt 5 title "exchange of gradients", \
         csv skip 1 using (at(way)):($4 - $5) with boxes lt 1 title "the rest of the step", \
         csv skip 1 using (at(way)):6 with points lt 7 pt 9 ps 2 title "launches alone", \
         csv skip 1 using (at(way)):4:(sprintf("%.2f", $4)) with labels offset 0,0.8 notitle
    unset key
    unset ylabel
}
