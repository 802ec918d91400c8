# exercise_accumulation.gp: gradients of a minibatch in m parts: how far they are from those of the whole one, without
# and with batch norm, and what is saved.
#
#   gnuplot -c plots/exercise_accumulation.gp CSV PNG
#
# CSV has the columns part,devices,images,m,differ_in_first_layer,differ_in_others,apart,from_ranks,bytes_once,
# bytes_each,activation_bytes.
call ARG0[:strlen(ARG0) - strlen("exercise_accumulation.gp")]."style.gp" ARG1

stats csv skip 1 using (strcol(1) eq "saved" && $4 == 1 ? $9 : NaN) nooutput name "ONCE"
stats csv skip 1 using (strcol(1) eq "saved" && $4 == 1 ? $11 : NaN) nooutput name "WHOLE"
stats csv skip 1 using (strcol(1) eq "saved" ? $2 : NaN) nooutput name "RANKS"

# What is equal to the bit stands on a line of its own, at the bottom.
apart = '(strcol(1) ne "lenet" ? NaN : $6 == 0 ? 1e-9 : $7)'
m(part) = strcol(1) eq part ? $4 : NaN

eval page(1, 3, 4, "Gradients of a minibatch in m parts", "how far they are from those of the whole minibatch, and what is saved")
set logscale xy
set xrange [26:720]
set yrange [4e-10:2e-6]
set xtics (32, 64, 128, 256, 576)
set ytics ("equal" 1e-9, "10^{-8}" 1e-8, "10^{-7}" 1e-7, "10^{-6}" 1e-6)
set xlabel "images in the minibatch"
set title "LeNet: difference"
eval names(1)
# Side by side where two would lie on each other; hollow where the first layer is not equal.
x(j) = $3 * (1 + 0.07 * (j - 2))
plot for [j=1:3] csv skip 1 using ($2 == 1 && $4 == 2**j && ($6 > 0 || $5 == 0) ? x(j) : NaN):@apart \
    with points lt j title sprintf("m = %d", 2**j), \
    csv skip 1 using ($2 == 1 && $6 == 0 && $5 > 0 ? x(1) : NaN):@apart \
    with points lt 1 pt 6 title "m = 2, but for layer 1"

set xrange [1.5:11]
set yrange [1e-9:5]
set xtics (2, 4, 8)
set ytics ("equal" 2e-9, "10^{-8}" 1e-8, "10^{-6}" 1e-6, "10^{-4}" 1e-4, "0.01" 1e-2, "1" 1)
set xlabel "m"
set title "64 images: difference"
eval names(2)
plot csv skip 1 using (m("batch norm")):7 with points lt 2 title "ResNet, batch norm", \
     csv skip 1 using (m("no batch norm")):($7 > 0 ? $7 : 2e-9) with points lt 1 title "LeNet"

unset logscale y
set xrange [0.8:10]
set yrange [0:*]
set xtics (1, 2, 4, 8)
set ytics auto
set title sprintf("LeNet, %d devices: an update", RANKS_max)
set ylabel "times as much as m = 1"
eval names(3)
plot csv skip 1 using (m("saved")):($10 / ONCE_max) with linespoints lt 2 title "bytes, m exchanges", \
     csv skip 1 using (m("saved")):($9 / ONCE_max) with linespoints lt 1 title "bytes, one exchange", \
     csv skip 1 using (m("saved")):($11 / WHOLE_max) with linespoints lt 3 title "activations"
