# exercise_three_mistakes.gp: losses of trainings that are divided among devices, next to those of one that is not.
#
#   gnuplot -c plots/exercise_three_mistakes.gp CSV PNG
#
# CSV has the columns step,undivided,k1,k2,k4,loaded.
call ARG0[:strlen(ARG0) - strlen("exercise_three_mistakes.gp")]."style.gp" ARG1

array names[4] = ["k = 1", "k = 2", "k = 4", "k = 4, saved and loaded, then k = 2"]
set xlabel "step"
eval page(1, 2, 3, "A small FSDP", "")
eval names(1)
set title "mean loss"
set yrange [0:*]
plot csv skip 1 using 1:2 with lines lt 9 title "not divided", \
     for [r=1:4] csv skip 1 using 1:(column(2 + r)) with lines lt r title names[r]
eval names(2)
set title "difference from the training that is not divided"
set yrange [*:*]
plot for [r=1:4] csv skip 1 using 1:(column(2 + r) - $2) with linespoints lt r title names[r]
