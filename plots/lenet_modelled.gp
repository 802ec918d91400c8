# lenet_modelled.gp: modelled seconds of an epoch of LeNet against the number of devices, if the program
# launches kernels one by one, and as a CUDA graph; the part that is the exchange of gradients is orange.
#
#   gnuplot -c plots/lenet_modelled.gp CSV PNG
#
# CSV has the columns machine,launches,devices,modelled_seconds_per_epoch,exchange_seconds,launching_seconds.
call ARG0[:strlen(ARG0) - strlen("lenet_modelled.gp")]."style.gp" ARG1

array ways[2] = ["program", "graph"]
array titles[2] = ["launched one by one", "as a CUDA graph"]
stats csv skip 1 using (machine = strcol(1), strcol(2) eq ways[1] || strcol(2) eq ways[2] ? $4 : NaN) nooutput
# Bars stand side by side, at 0, 1, 2 and 3; rows of other panels nowhere.
at(way) = strcol(2) eq way ? log($3) / log(2) : NaN

set boxwidth 0.7
set xtics ("1" 0, "2" 1, "4" 2, "8" 3) scale 0
set xrange [-0.6:3.6]
set yrange [0:1.1 * STATS_max] # one scale: so that what is short looks short
set xlabel "devices"
eval page(1, 2, 1, "LeNet: seconds of an epoch on ".plain(machine), "modelled, not measured")
set ylabel "modelled seconds"
do for [panel=1:2] {
    way = ways[panel]
    set title titles[panel]
    plot csv skip 1 using (at(way)):4 with boxes lt 5 title "exchange of gradients", \
         csv skip 1 using (at(way)):($4 - $5) with boxes lt 1 title "the rest of the step", \
         csv skip 1 using (at(way)):6 with points lt 7 pt 9 ps 2 title "launches alone", \
         csv skip 1 using (at(way)):4:(sprintf("%.2f", $4)) with labels offset 0,0.8 notitle
    unset key
    unset ylabel
}
