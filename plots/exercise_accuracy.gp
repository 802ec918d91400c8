# exercise_accuracy.gp: time to compute the test accuracy on one of k devices, and on all.
#
#   gnuplot -c plots/exercise_accuracy.gp CSV PNG
#
# CSV has the columns devices,one,one_median,all,all_median,accuracy; times in seconds, of the fastest round
# and of the one in the middle.

csv = ARG1
# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1200,860 font "DejaVu Sans,20" linewidth 2
set output ARG2
set datafile separator comma

set grid y lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set style fill solid 0.9 noborder
set style data histograms
set style histogram errorbars gap 1.5 lw 1.2
set errorbars 0.6 linecolor rgb "#444444"
set yrange [0:*]
set offsets 0, 0, graph 0.25, 0
set format y "%.1f"
set ytics 0.2
set xlabel "number of devices"
set ylabel "seconds (fastest round; bars: up to the median)"
set key top left spacing 1.3 samplen 1.5
set title "Test accuracy of LeNet on the 10000 test images" font ",24"
plot csv skip 1 using 2:2:3:xtic(1) lc rgb "#fdae61" title "on device 0, the others idle", \
     csv skip 1 using 4:4:5 lc rgb "#2166ac" title "on all devices"
