# exercise_ring_of_ranks.gp: how long a ring of messages, a star and MPI_Allreduce take, against the size of the
# vector, with 2 and with 4 ranks.
#
#   gnuplot -c plots/exercise_ring_of_ranks.gp CSV PNG
#
# CSV has the columns ranks,bytes,way,low_seconds,median_seconds,high_seconds,most_sent; a block of rows for each way.

csv = ARG1
# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,860 font "DejaVu Sans,20" linewidth 2 noenhanced
set output ARG2
set datafile separator comma

stats csv skip 1 using ($4 * 1e6) nooutput name "LOW"
stats csv skip 1 using ($6 * 1e6) nooutput name "HIGH"
array ways[3] = ["your ring", "star", "MPI_Allreduce"]
array colors[3] = ["#2166ac", "#fdae61", "#777777"]
array marks[3] = [7, 5, 9]

set grid lc rgb "#cccccc" lw 0.5
set border 3
set tics nomirror
set logscale x 4
set logscale y 10
set xrange [2.5:27e6]
set yrange [0.7 * LOW_min:1.6 * HIGH_max]
set xtics ("4 B" 4, "64 B" 64, "1 KiB" 1024, "16 KiB" 16384, "256 KiB" 262144, "4 MiB" 4194304) font ",18"
set xlabel "vector"
set key left top reverse Left spacing 1.3 samplen 2

x(k, way) = strcol(1) eq k && strcol(3) eq way ? $2 : NaN
set multiplot layout 1,2 title "Sums over ranks of this machine: measured (medians; bars: quartiles)" font ",24"
do for [k in "2 4"] {
    set title k." ranks"
    set ylabel k eq "2" ? "microseconds" : ""
    if (k ne "2") { unset key }
    plot for [w=1:3] csv skip 1 using (x(k, ways[w])):($5 * 1e6):($4 * 1e6):($6 * 1e6) \
             with yerrorbars lw 1 pt 0 lc rgb colors[w] notitle, \
         for [w=1:3] csv skip 1 using (x(k, ways[w])):($5 * 1e6) \
             with linespoints lw 1.7 pt marks[w] ps 1.5 lc rgb colors[w] title ways[w]
}
unset multiplot
