# exercise_accumulation.gp: gradients of a minibatch in m parts: how far they are from those of the whole one, without
# and with batch norm, and what is saved.
#
#   gnuplot -c plots/exercise_accumulation.gp CSV PNG
#
# CSV has the columns part,devices,images,m,differ_in_first_layer,differ_in_others,apart,from_ranks,bytes_once,
# bytes_each,activation_bytes.

csv = ARG1
# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,800 font "DejaVu Sans,20" linewidth 2
set output ARG2
set datafile separator comma

stats csv skip 1 using (strcol(1) eq "saved" && $4 == 1 ? $9 : NaN) nooutput name "ONCE"
stats csv skip 1 using (strcol(1) eq "saved" && $4 == 1 ? $11 : NaN) nooutput name "WHOLE"
stats csv skip 1 using (strcol(1) eq "saved" ? $2 : NaN) nooutput name "RANKS"

set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
array colors[3] = ["#2166ac", "#fdae61", "#d73027"]
array marks[3] = [7, 5, 9]

# What is equal to the bit stands on a line of its own, at the bottom.
equal = 1e-9
apart(part) = strcol(1) ne part ? NaN : $6 == 0 ? equal : $7

set multiplot layout 1,3 title "Gradients of a minibatch in m parts" font ",24"
set logscale xy
set xrange [26:720]
set yrange [4e-10:6e-6]
set xtics (32, 64, 128, 256, 576)
set ytics ("equal" equal, "10^{-8}" 1e-8, "10^{-7}" 1e-7, "10^{-6}" 1e-6)
set xlabel "images in the minibatch"
set title "LeNet, one device:\ndifference from the whole minibatch"
set key left top reverse Left spacing 1.3 samplen 1.5
# Side by side where two would lie on each other; hollow where the first layer is not equal.
x(j) = $3 * (1 + 0.07 * (j - 2))
plot for [j=1:3] csv skip 1 using ($2 == 1 && $4 == 2**j && ($6 > 0 || $5 == 0) ? x(j) : NaN):(apart("lenet")) \
    with points pt marks[j] ps 1.7 lc rgb colors[j] title sprintf("m = %d", 2**j), \
    csv skip 1 using ($2 == 1 && $6 == 0 && $5 > 0 ? x(1) : NaN):(apart("lenet")) \
    with points pt 6 ps 1.7 lc rgb colors[1] title "m = 2, but for the first layer"

set xrange [1.5:11]
set yrange [1e-9:30]
set xtics (2, 4, 8)
set ytics ("equal" 2e-9, "10^{-8}" 1e-8, "10^{-6}" 1e-6, "10^{-4}" 1e-4, "0.01" 1e-2, "1" 1)
set xlabel "m"
set title "64 images, one device:\ndifference from the whole minibatch"
set key left top
plot csv skip 1 using (strcol(1) eq "batch norm" ? $4 : NaN):7 with points pt 9 ps 1.9 lc rgb "#d73027" \
         title "small ResNet, batch norm", \
     csv skip 1 using (strcol(1) eq "no batch norm" ? $4 : NaN):($7 > 0 ? $7 : 2e-9) with points pt 7 ps 1.7 \
         lc rgb "#2166ac" title "LeNet"

unset logscale y
set xrange [0.8:10]
set yrange [0:*]
set xtics (1, 2, 4, 8)
set ytics auto
set title sprintf("LeNet, %d devices: what an update takes,\nas a multiple of m = 1", RANKS_max)
plot csv skip 1 using (strcol(1) eq "saved" ? $4 : NaN):($10 / ONCE_max) with linespoints lw 1.5 pt 9 ps 1.9 lc rgb "#d73027" \
         title "bytes, m exchanges", \
     csv skip 1 using (strcol(1) eq "saved" ? $4 : NaN):($9 / ONCE_max) with linespoints lw 1.5 pt 7 ps 1.7 lc rgb "#2166ac" \
         title "bytes, one exchange", \
     csv skip 1 using (strcol(1) eq "saved" ? $4 : NaN):($11 / WHOLE_max) with linespoints lw 1.5 pt 5 ps 1.7 lc rgb "#67a9cf" \
         title "activations"
unset multiplot
