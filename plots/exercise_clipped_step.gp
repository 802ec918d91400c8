# exercise_clipped_step.gp: a training with clipped gradients: the norm of the gradient and of each device's parts of
# it, and the losses on one device and on several.
#
#   gnuplot -c plots/exercise_clipped_step.gp CSV PNG
#
# CSV has the columns step,loss_of_one,loss,max_norm,norm,norm0,norm1,..
call ARG0[:strlen(ARG0) - strlen("exercise_clipped_step.gp")]."style.gp" ARG1

stats csv skip 1 matrix nooutput
k = int(STATS_size_x) - 5

set xlabel "step"
set yrange [0:*]
eval page(1, 2, (k + 4) / 2, sprintf("ZeRO-1 with a clipped gradient, %d devices", k), "")
eval names(1)
set title "norm of the mean gradient, before it is clipped"
plot csv skip 1 using 1:4 with lines lt 8 dt 3 title "max\\_norm", \
     csv skip 1 using 1:5 with lines lt 7 lw 4 title "all of it", \
     for [j=1:k] csv skip 1 using 1:(column(5 + j)) with lines lt j title sprintf("parts of device %d", j - 1)
eval names(2)
set title "loss"
plot csv skip 1 using 1:2 with lines lt 9 title "one device", \
     csv skip 1 using 1:3 with lines lt 1 title sprintf("%d devices", k)
