# memory_in_step.gp: what device 0 holds while each unit computes, forward and backward, in a step of ZeRO-3.
#
#   gnuplot -c plots/memory_in_step.gp CSV PNG
#
# CSV has the columns pass,unit,parameters,kept,gathered,gradients,received, in bytes and in the order of the step.
call ARG0[:strlen(ARG0) - strlen("memory_in_step.gp")]."style.gp" ARG1

parts = '"kept" "gathered parameters" "gradients not yet reduced" "received from other devices"'
stats csv skip 1 using (units = strcol(1) eq "forward" ? $0 + 1 : units, $4 + $5 + $6 + $7) nooutput
stats csv skip 1 using ($4 + $5 + $6 + $7) name "all" nooutput

set style data histograms
set style histogram rowstacked
set boxwidth 0.9
set xtics scale 0 rotate by 0
set xlabel "the unit that computes, in the order of the step"
set ylabel "MB on device 0"
set yrange [0:1.12 * all_max / 1e6]
set arrow from units - 0.5, graph 0 to units - 0.5, graph 1 nohead lt 8 dt 2
set label "forward" at units / 2 - 0.5, graph 0.95 center
set label "backward" at units * 1.5 - 0.5, graph 0.95 center
eval page(1, 1, 2, "A step of ZeRO-3 with ResNet-18", "without activations; 1.0 to 4.1: the residual blocks")
plot for [c=4:7] csv skip 1 using (column(c) / 1e6):xtic(2) lt c - 3 title word(parts, c - 3)
