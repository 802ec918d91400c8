# exercise_fusion.gp: how long it takes to sum all gradients, against the threshold of the fusion buffer: predicted and
# measured on this machine (if there were ranks), predicted and modelled on many ranks.
#
#   gnuplot -c plots/exercise_fusion.gp CSV PNG
#
# CSV has the columns part,ranks,network,threshold,messages,predicted_ms,ms,low_ms,high_ms; part is "measured" or
# "modelled". A threshold of 0 sends each gradient alone.

csv = ARG1
set datafile separator comma
ranks = 0
stats csv skip 1 using (ranks = strcol(1) eq "measured" ? $2 : ranks, 0) nooutput
there = ranks > 0

# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,(there ? 1400 : 780) font "DejaVu Sans,20" linewidth 2
set output ARG2

set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set logscale x 2
set xrange [600:300000000]
set xtics ("0" 1024, "4K" 4096, "16K" 16384, "64K" 65536, "256K" 262144, "1M" 1048576, "4M" 4194304, "16M" 16777216, \
    "" 67108864, "128M" 134217728) font ",16"
x(bytes) = bytes == 0 ? 1024 : bytes
# Of rows that belong to another curve neither x nor y counts.
here(c) = strcol(1) eq "measured" && strcol(3) eq network ? column(c) : NaN
there_on(ranks, c) = strcol(1) eq "modelled" && strcol(3) eq network && $2 == ranks ? column(c) : NaN
networks = "LeNet ResNet-18"
array worlds[3] = [16, 128, 512]
array colors[3] = ["#2166ac", "#b8860b", "#d73027"]

set multiplot layout (there ? 2 : 1),2 title "All gradients summed, by the threshold of the fusion buffer" font ",24"
set yrange [0:*]
do for [i=1:(there ? 2 : 0)] {
    network = word(networks, i)
    set title sprintf("%s, %.0f ranks on this machine, measured", network, ranks)
    set ylabel (i == 1 ? "milliseconds" : "")
    if (i == 2) { set key left top reverse Left spacing 1.3 samplen 2 } else { unset key }
    plot csv skip 1 using (x(here(4))):(here(7)):(here(8)):(here(9)) with yerrorbars \
            pt 7 ps 1.4 lc rgb "#d73027" title "measured: median, middle half", \
         csv skip 1 using (x(here(4))):(here(6)) with lines lw 2 lc rgb "#2166ac" title "predicted from single messages"
}
set logscale y 10
set yrange [*:*]
set format y "%g"
set xlabel "threshold, bytes (0: each gradient alone)"
do for [i=1:2] {
    network = word(networks, i)
    set title sprintf("%s, GPUs of p100-25gbe, modelled", network)
    set ylabel (i == 1 ? "milliseconds" : "")
    if (i == 2) { set key right top reverse Left spacing 1.3 samplen 2 } else { unset key }
    plot for [w=1:3] csv skip 1 using (x(there_on(worlds[w], 4))):(there_on(worlds[w], 6)) \
            with lines lw 2 lc rgb colors[w] title sprintf("%d ranks, predicted", worlds[w]), \
         for [w=1:3] csv skip 1 using (x(there_on(worlds[w], 4))):(there_on(worlds[w], 7)) \
            with points pt 7 ps 1.3 lc rgb colors[w] title (w == 3 ? "points: the model itself" : "")
}
unset multiplot
