# exercise_more_devices.gp: ResNet-18 on 1 to 16 devices: what is learned, and what it costs.
#
#   gnuplot -c plots/exercise_more_devices.gp CSV PNG
#
# CSV has the columns part,devices,bn,batch,lr,epoch,loss,accuracy,averaged_at_end,step_s,step_mb,device_mb,
# all_mb,modelled_s,copies,machine; part is learning, settings (both a row per epoch), costs, "same minibatch" or
# "minibatch for each" (both modelled epochs; none without a machine). modelled_s of costs is of a step, of the
# last two of an epoch.

csv = ARG1
# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,1500 font "DejaVu Sans,20" linewidth 2
set output ARG2
set datafile separator comma

stats csv skip 1 using (strcol(1) eq "learning" ? $6 : NaN) nooutput name "EPOCH"
stats csv skip 1 using (strcol(1) eq "settings" ? $4 : NaN) nooutput name "BATCH"
stats csv skip 1 using (strcol(1) eq "settings" ? $5 : NaN) nooutput name "LR"
stats csv skip 1 using (strcol(1) eq "same minibatch" ? $14 : 0) nooutput name "MODELLED"
stats csv skip 1 using (strcol(1) eq "costs" ? $11 : NaN) nooutput name "MOVED"
machine = ""
stats csv skip 1 using (machine = strcol(1) eq "same minibatch" ? strcol(16) : machine, 0) nooutput

set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set lmargin 10
is(part, k, bn) = (strcol(1) eq part && int($2) == k && strcol(3) eq bn)

set multiplot layout 2,2 title "ResNet-18 on up to 16 devices" font ",24"

set xrange [0.8:EPOCH_max + 0.2]
set xtics 1
set xlabel "epoch"
# The names stand above the curves, which may end high or low.
set yrange [0:*]
set offsets 0, 0, graph 0.45, 0
set format y "%.1f"
set title "mean loss of training (a quarter of the channels)"
set key right top spacing 1.2 samplen 2
plot csv skip 1 using 6:(is("learning", 1, "local") ? $7 : NaN) with linespoints lw 4 pt 7 ps 1.6 \
         lc rgb "#aaaaaa" title "1 device", \
     csv skip 1 using 6:(is("learning", 16, "sync") ? $7 : NaN) with linespoints lw 1.6 dt 2 pt 6 ps 1.4 \
         lc rgb "#2166ac" title "16, synchronised batch norm", \
     csv skip 1 using 6:(is("learning", 4, "local") ? $7 : NaN) with linespoints lw 1.6 pt 9 ps 1.6 \
         lc rgb "#fdae61" title "4, local statistics", \
     csv skip 1 using 6:(is("learning", 16, "local") ? $7 : NaN) with linespoints lw 1.6 pt 5 ps 1.4 \
         lc rgb "#d73027" title "16, local statistics"

set title "test accuracy (a quarter of the channels, 1 device)"
unset offsets
set yrange [0:1.4]
set ytics 0,0.2,1
with(b, l) = (strcol(1) eq "settings" && int($4) == b && abs($5 - l) < 1e-6) ? $8 : NaN
array colors[4] = [0x2166ac, 0x92c5de, 0xb35806, 0xfdb863]
array batches[4] = [BATCH_min, BATCH_min, BATCH_max, BATCH_max]
array rates[4] = [LR_min, LR_max, LR_min, LR_max]
plot for [i=1:4] csv skip 1 using 6:(with(int(batches[i]), rates[i])) with linespoints lw 1.8 pt 4 + i ps 1.4 \
    lc rgb colors[i] title sprintf("batch %d, lr %g", int(batches[i]), rates[i])

# Of devices: 1, 2, 4, 8, 16 from left to right.
set logscale x 2
set xrange [0.8:20]
set xtics (1, 2, 4, 8, 16)
set xlabel "devices"
set title "memory of ResNet-18 (MB)"
set ytics autofreq
set logscale y 10
set yrange [50:*]
set format y "%.0f"
set key left top
plot csv skip 1 using (is("costs", int($2), "local") ? $2 : NaN):13 with linespoints lw 1.8 pt 7 ps 1.6 \
         lc rgb "#b35806" title "all devices together", \
     csv skip 1 using (is("costs", int($2), "local") ? $2 : NaN):12 with linespoints lw 1.8 pt 6 ps 1.6 \
         lc rgb "#2166ac" title "device 0"

if (MODELLED_max > 0) {
    set title "an epoch of 60,000 images, modelled on ".machine noenhanced
    set ylabel "seconds"
    set yrange [0.7:2 * MODELLED_max]
    set format y "%g"
    set key right top
    plot MODELLED_max / x with lines lw 1 dt 3 lc rgb "#888888" title "k times as fast", \
         csv skip 1 using (strcol(1) eq "same minibatch" ? $2 : NaN):14 with linespoints lw 1.8 pt 6 ps 1.6 \
             lc rgb "#d73027" title "256 images for all devices", \
         csv skip 1 using (strcol(1) eq "minibatch for each" ? $2 : NaN):14 with linespoints lw 1.8 pt 7 ps 1.6 \
             lc rgb "#2166ac" title "256 images for each"
    unset multiplot
    exit
}

set title "a step of ResNet-18, measured"
unset logscale y
set yrange [0:*]
set offsets 0, 0, graph 0.3, 0
set format y "%.1f"
set ylabel "seconds"
set y2label "MB between devices"
set y2range [0:1.35 * MOVED_max]
set y2tics
set border 11
set rmargin 11
plot csv skip 1 using (is("costs", int($2), "local") ? $2 : NaN):10 with linespoints lw 1.8 pt 7 ps 1.6 \
         lc rgb "#2166ac" title "seconds, local statistics", \
     csv skip 1 using (is("costs", int($2), "sync") ? $2 : NaN):10 with points pt 2 ps 2 lw 2 \
         lc rgb "#2166ac" title "seconds, synchronised", \
     csv skip 1 using (is("costs", int($2), "local") ? $2 : NaN):11 axes x1y2 with linespoints lw 1.8 dt 2 pt 6 ps 1.6 \
         lc rgb "#888888" title "MB between devices (right)"
unset multiplot
