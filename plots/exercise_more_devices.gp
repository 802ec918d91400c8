# exercise_more_devices.gp: ResNet-18 on 1 to 16 devices: what is learned, and what it costs.
#
#   gnuplot -c plots/exercise_more_devices.gp CSV PNG
#
# CSV has the columns part,devices,bn,batch,epoch,loss,accuracy,step_s,step_mb,device_mb,modelled_s,copies,machine; part
# is learning (a row per epoch), costs, "same minibatch" or "minibatch for each" (both modelled epochs; none without a
# machine). modelled_s of costs is of a step, of the last two of an epoch.
call ARG0[:strlen(ARG0) - strlen("exercise_more_devices.gp")]."style.gp" ARG1

stats csv skip 1 using (strcol(1) eq "learning" ? $5 : NaN) nooutput name "EPOCH"
stats csv skip 1 using (strcol(1) eq "same minibatch" ? $11 : 0) nooutput name "MODELLED"
machine = ""
stats csv skip 1 using (machine = strcol(1) eq "same minibatch" ? strcol(13) : machine, 0) nooutput
costs(bn) = strcol(1) eq "costs" && strcol(3) eq bn ? $2 : NaN
is(i) = strcol(1) eq "learning" && int($2) == devices[i] && strcol(3) eq bns[i]
array devices[4] = [1, 16, 4, 16]
array bns[4] = ["local", "sync", "local", "local"]
array colours[4] = [9, 1, 5, 2]
array curves[4] = ["1 device", "16, synchronised batch norm", "4, local statistics", "16, local statistics"]

below_row = 330
eval page(2, 2, 4, "ResNet-18 on up to 16 devices", \
    "above: a quarter of the channels, training; below: all channels".(MODELLED_max > 0 ? ", time modelled on ".plain(machine) : ""))
set xrange [0.8:EPOCH_max + 0.2]
set xtics 1
set xlabel "epoch"
eval names_below(1, 0)
do for [c=6:7] {
    if (c == 6) { set yrange [0:*] } else { set yrange [0:1] }
    set title (c == 6 ? "mean loss of training" : "test accuracy")
    plot for [i=1:4] csv skip 1 using 5:(is(i) ? column(c) : NaN) with linespoints lt colours[i] title curves[i]
    unset key
}

set logscale x 2
set xrange [0.8:20]
set xtics (1, 2, 4, 8, 16)
set xlabel "devices"
set title "memory of device 0 (MB)"
set yrange [0:*]
plot csv skip 1 using (costs("local")):10 with linespoints lt 1

eval names(2)
set ylabel "seconds"
if (MODELLED_max > 0) {
    set logscale y 10
    set title "modelled: an epoch of 60,000 images"
    set yrange [0.7:2 * MODELLED_max]
    plot MODELLED_max / x with lines lt 8 dt 3 title "k times as fast", \
         csv skip 1 using (strcol(1) eq "same minibatch" ? $2 : NaN):11 with linespoints lt 2 \
             title "256 images for all devices", \
         csv skip 1 using (strcol(1) eq "minibatch for each" ? $2 : NaN):11 with linespoints lt 1 title "256 images for each"
} else {
    set title "measured here: a step"
    plot csv skip 1 using (costs("local")):8 with linespoints lt 1 title "local statistics", \
         csv skip 1 using (costs("sync")):8 with points lt 2 title "synchronised"
}
