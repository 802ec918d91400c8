# exercise_allreduce.gp: what each device has to receive (and send), and the time, for ways to sum gradients.
#
#   gnuplot -c plots/exercise_allreduce.gp CSV PNG
#
# CSV has the columns method,devices,allreduce_ms,step_ms,large_ms,saved_ms,saved_low,saved_high,device0_bytes,
# device1_bytes,..; times are medians.

csv = ARG1
# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,860 font "DejaVu Sans,20" linewidth 2
set output ARG2
set datafile separator comma

stats csv skip 1 using 2 nooutput
devices = int(STATS_max)
array colors[8] = [0x0072b2, 0xe69f00, 0x009e73, 0xcc79a7, 0x56b4e9, 0xd55e00, 0x787878, 0xf0e442]

set grid y lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set style fill solid 0.9 noborder
set boxwidth 0.9 relative
set xtics rotate by 22 right font ",17"
set yrange [0:*]
set bmargin 6.5
set lmargin 11
set style data histograms
set style histogram clustered gap 1.5

set multiplot layout 1,2 title sprintf("Summing the gradients of LeNet on %d devices", devices) font ",24"
set title "bytes that each device receives, and sends"
set ylabel "MB"
set format y "%.1f"
set key right top spacing 1.2 samplen 1
plot for [d=0:devices-1] csv skip 1 using (column(9 + d) / 1e6):xtic(1) \
    lc rgb colors[d % 8 + 1] title sprintf("device %d", d)

set title "time of an allreduce, as a part of the star's"
stats csv skip 1 every ::0::0 using 3 nooutput name "LENET"
stats csv skip 1 every ::0::0 using 5 nooutput name "LARGE"
set ylabel "time / time of the star"
set key left top samplen 1
set offsets 0, 0, graph 0.2, 0
plot csv skip 1 using ($3 / LENET_min):xtic(1) lc rgb "#2166ac" \
         title sprintf("LeNet, 0.5 MB (star: %.1f ms)", LENET_min), \
     csv skip 1 using ($5 / LARGE_min):xtic(1) lc rgb "#fdae61" title sprintf("a vector of 16 MB (star: %.0f ms)", LARGE_min)
unset multiplot
