# exercise_clipped_step.gp: trainings on 1, 4 and 8 devices that clip the gradient, and that clip each device's part of it
# by its own norm: losses, and how long gradients are after that.
#
#   gnuplot -c plots/exercise_clipped_step.gp CSV PNG
#
# CSV has the columns step,devices,clip,loss,norm,length,angle.
call ARG0[:strlen(ARG0) - strlen("exercise_clipped_step.gp")]."style.gp" ARG1

set xlabel "step"
set yrange [0:*]
eval page(1, 2, 4, "ZeRO-1 with a clipped gradient", "")
k(j) = int(word("1 4 8", j))
is(j, clip) = $2 == k(j) && strcol(3) eq clip
set title "loss"
yours(j, column) = is(j, "yours") && (j == 1 || int($1) % 4 == 2 * (j - 2)) ? column : NaN
plot csv skip 1 using 1:(yours(1, $4)) with lines lt 9 title "yours, k = 1", \
    for [j=2:3] csv skip 1 using 1:(yours(j, $4)) with points lt 8 pt (j == 2 ? 6 : 4) title sprintf("yours, k = %d", k(j)), \
    for [j=1:3] csv skip 1 using (is(j, "by parts") ? $1 : NaN):4 with lines lt j title sprintf("by parts, k = %d", k(j))
unset key
set title "norm of the mean gradient after clipping"
plot csv skip 1 using 1:(yours(1, $6)) with lines lt 9, \
    for [j=2:3] csv skip 1 using 1:(yours(j, $6)) with points lt 8 pt (j == 2 ? 6 : 4), \
    for [j=1:3] csv skip 1 using (is(j, "by parts") ? $1 : NaN):6 with lines lt j
