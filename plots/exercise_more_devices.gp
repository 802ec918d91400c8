# exercise_more_devices.gp: ResNet-18 on 1 to 16 devices: what is learned, and what it costs.
#
#   gnuplot -c plots/exercise_more_devices.gp CSV PNG
#
# CSV has the columns part,devices,bn,batch,lr,epoch,loss,accuracy,averaged_at_end,step_s,step_mb,device_mb,
# all_mb,modelled_s,copies,machine; part is learning, settings (both a row per epoch), costs, "same minibatch" or
# "minibatch for each" (both modelled epochs; none without a machine). modelled_s of costs is of a step, of the
# last two of an epoch.
call ARG0[:strlen(ARG0) - strlen("exercise_more_devices.gp")]."style.gp" ARG1

stats csv skip 1 using (strcol(1) eq "learning" ? $6 : NaN) nooutput name "EPOCH"
stats csv skip 1 using (strcol(1) eq "settings" ? $4 : NaN) nooutput name "BATCH"
stats csv skip 1 using (strcol(1) eq "settings" ? $5 : NaN) nooutput name "LR"
stats csv skip 1 using (strcol(1) eq "same minibatch" ? $14 : 0) nooutput name "MODELLED"
machine = ""
stats csv skip 1 using (machine = strcol(1) eq "same minibatch" ? strcol(16) : machine, 0) nooutput
is(part, k, bn) = (strcol(1) eq part && int($2) == k && strcol(3) eq bn)
with(b, l) = (strcol(1) eq "settings" && int($4) == b && abs($5 - l) < 1e-6) ? $8 : NaN
costs(bn) = strcol(1) eq "costs" && strcol(3) eq bn ? $2 : NaN

below_row = 330
eval page(2, 2, 4, "ResNet-18 on up to 16 devices", \
    "above: a quarter of the channels, training; below: all channels".(MODELLED_max > 0 ? ", time modelled on ".plain(machine) : ""))
set xrange [0.8:EPOCH_max + 0.2]
set xtics 1
set xlabel "epoch"
set yrange [0:*]
set title "mean loss of training"
eval names_below(1, 1)
plot csv skip 1 using 6:(is("learning", 1, "local") ? $7 : NaN) with linespoints lt 9 title "1 device", \
     csv skip 1 using 6:(is("learning", 16, "sync") ? $7 : NaN) with linespoints lt 1 dt 2 title "16, synchronised batch norm", \
     csv skip 1 using 6:(is("learning", 4, "local") ? $7 : NaN) with linespoints lt 5 title "4, local statistics", \
     csv skip 1 using 6:(is("learning", 16, "local") ? $7 : NaN) with linespoints lt 2 title "16, local statistics"

set title "test accuracy, 1 device"
set yrange [0:1]
array batches[4] = [BATCH_min, BATCH_min, BATCH_max, BATCH_max]
array rates[4] = [LR_min, LR_max, LR_min, LR_max]
eval names_below(1, 2)
plot for [i=1:4] csv skip 1 using 6:(with(int(batches[i]), rates[i])) with linespoints lt i \
    title sprintf("batch %d, lr %g", int(batches[i]), rates[i])

set logscale x 2
set xrange [0.8:20]
set xtics (1, 2, 4, 8, 16)
set xlabel "devices"
set title "memory (MB)"
set logscale y 10
set yrange [50:*]
eval names(1)
plot csv skip 1 using (costs("local")):13 with linespoints lt 2 title "all devices together", \
     csv skip 1 using (costs("local")):12 with linespoints lt 1 title "device 0"

eval names(2)
set ylabel "seconds"
if (MODELLED_max > 0) {
    set title "modelled: an epoch of 60,000 images"
    set yrange [0.7:2 * MODELLED_max]
    plot MODELLED_max / x with lines lt 8 dt 3 title "k times as fast", \
         csv skip 1 using (strcol(1) eq "same minibatch" ? $2 : NaN):14 with linespoints lt 2 \
             title "256 images for all devices", \
         csv skip 1 using (strcol(1) eq "minibatch for each" ? $2 : NaN):14 with linespoints lt 1 title "256 images for each"
} else {
    set title "measured here: a step"
    unset logscale y
    set yrange [0:*]
    plot csv skip 1 using (costs("local")):10 with linespoints lt 1 title "local statistics", \
         csv skip 1 using (costs("sync")):10 with points lt 2 title "synchronised"
}
