# exercise_three_mistakes.gp: how far the losses of divided trainings are from the losses of one that is not divided.
#
#   gnuplot -c plots/exercise_three_mistakes.gp CSV PNG
#
# CSV has the columns step,undivided,k1,k2,k4,loaded.
call ARG0[:strlen(ARG0) - strlen("exercise_three_mistakes.gp")]."style.gp" ARG1

array names[4] = ["k = 1", "k = 2", "k = 4", "k = 4, and from step 6 on k = 2"]
set xlabel "step"
set ylabel "difference from the training that is not divided"
eval page(1, 1, 2, "A small FSDP: mean losses", "")
# (Rounding is not magnified.)
set yrange [*<-0.001:0.001<*]
plot [-0.2:11.2] for [r=1:4] csv skip 1 using 1:(column(2 + r) - $2) with linespoints lt r title names[r]
