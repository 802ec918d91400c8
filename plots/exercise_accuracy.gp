# exercise_accuracy.gp: time to compute the test accuracy on one of k devices, and on all.
#
#   gnuplot -c plots/exercise_accuracy.gp CSV PNG
#
# CSV has the columns devices,one,one_median,all,all_median,accuracy; times in seconds, of the fastest round
# and of the one in the middle.
call ARG0[:strlen(ARG0) - strlen("exercise_accuracy.gp")]."style.gp" ARG1

set style data histograms
set style histogram errorbars gap 1.5 lw 1.2
set errorbars 0.6 linecolor rgb "#333333"
set yrange [0:*]
set xlabel "devices"
set ylabel "seconds"
eval page(1, 1, 1, "The time that LeNet's test accuracy takes", "measured: the fastest round; bars: up to the median")
plot csv skip 1 using 2:2:3:xtic(1) lt 5 title "on device 0, the others idle", \
     csv skip 1 using 4:4:5 lt 1 title "on all devices"
