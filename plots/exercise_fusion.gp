# exercise_fusion.gp: how long it takes to sum all gradients, against the threshold of the fusion buffer: predicted and
# measured on this machine (if there were ranks), modelled on many ranks.
#
#   gnuplot -c plots/exercise_fusion.gp CSV PNG
#
# CSV has the columns part,ranks,network,threshold,messages,predicted_ms,ms,low_ms,high_ms; part is "measured" or
# "modelled", which has ms alone. A threshold of 0 sends each gradient alone.
call ARG0[:strlen(ARG0) - strlen("exercise_fusion.gp")]."style.gp" ARG1

ranks = 0
stats csv skip 1 using (ranks = strcol(1) eq "measured" ? $2 : ranks, 0) nooutput
there = ranks > 0

set logscale x 2
set xrange [600:300000000]
set xtics ("0" 1024, "16K" 16384, "256K" 262144, "4M" 4194304, "128M" 134217728)
x(bytes) = bytes == 0 ? 1024 : bytes
# Of rows that belong to another curve neither x nor y counts.
here(c) = strcol(1) eq "measured" && strcol(3) eq network ? column(c) : NaN
there_on(ranks, c) = strcol(1) eq "modelled" && strcol(3) eq network && $2 == ranks ? column(c) : NaN
networks = "LeNet ResNet-18"
array worlds[3] = [16, 128, 512]

eval page(there ? 2 : 1, 2, 1, "All gradients summed, by the threshold of the fusion buffer", there ? \
    "above: measured (bars: the middle half), and a line predicted from single messages; below: modelled on p100-25gbe" : \
    "modelled on p100-25gbe")
set yrange [0:*]
unset key
do for [i=1:(there ? 2 : 0)] {
    network = word(networks, i)
    set title sprintf("%s, %.0f ranks here, measured", network, ranks)
    set ylabel (i == 1 ? "milliseconds" : "")
    plot csv skip 1 using (x(here(4))):(here(7)):(here(8)):(here(9)) with yerrorbars lt 2, \
         csv skip 1 using (x(here(4))):(here(6)) with lines lt 1
}
set logscale y 10
set yrange [*:*]
set xlabel "threshold, bytes (0: each gradient alone)"
do for [i=1:2] {
    network = word(networks, i)
    set title network.", modelled"
    set ylabel (i == 1 ? "milliseconds" : "")
    if (i == 2) { eval names(0) }
    plot for [w=1:3] csv skip 1 using (x(there_on(worlds[w], 4))):(there_on(worlds[w], 7)) \
        with linespoints lt w title sprintf("%d ranks", worlds[w])
}
