# memory.gp: what one device needs in each stage, without and with recomputation, and how long a step is.
#
#   gnuplot -c plots/memory.gp CSV PNG
#
# CSV has the columns network,devices,rows,recompute,stage,parameters,gradients,moments,temporary,activations,all,seconds,
# with bytes. The figure to move in the page (run.js) begins with the same devices, rows and limit.
call ARG0[:strlen(ARG0) - strlen("memory.gp")]."style.gp" ARG1

limit = 440 # MB
parts = "parameters gradients moments temporary activations"
stats csv skip 1 using (devices = strcol(2), rows = strcol(3), 0) nooutput

set style data histograms
set style histogram rowstacked
set boxwidth 0.7
set xtics scale 0
set yrange [0:600]
set ylabel "MB on each device"
set arrow from graph 0, first limit to graph 1, first limit nohead lt 7 lw 1.5 dt 2 front
eval page(1, 2, 2, "ResNet-18, ".rows." images on each of ".devices." devices", \
    sprintf("dashed: a limit of %d MB; below each name: a step, modelled, not measured", limit))
do for [recompute in "no yes"] {
    set title (recompute eq "no" ? "without" : "with")." recomputation"
    begin = recompute eq "no" ? 1 : 5
    plot for [c=6:10] csv skip begin every ::0::3 using (column(c) / 1e6):xtic(strcol(5).sprintf("\n%.1f ms", 1e3 * $12)) \
        lt c - 5 title word(parts, c - 5)
    unset key
    unset ylabel
}
