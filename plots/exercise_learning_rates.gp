# exercise_learning_rates.gp: test accuracy against the learning rate, for k devices with minibatches of k*b.
#
#   gnuplot -c plots/exercise_learning_rates.gp CSV PNG
#
# CSV has the columns devices,batch,lr,mean,spread,run1,run2,..; one curve per number of devices, with its
# spread as bars and the single runs as dots.

csv = ARG1
# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1400,900 font "DejaVu Sans,20" linewidth 2
set output ARG2
set datafile separator comma

stats csv skip 1 nooutput
runs = STATS_columns - 5
stats csv skip 1 using 3 nooutput name "LR"
set logscale x 2
set xrange [LR_min / 1.4:LR_max * 1.4]
set xtics () # one for each learning rate, and no others
set for [j=0:12] xtics add (sprintf("%g", LR_min * 2**j) LR_min * 2**j)
set yrange [0:1]
set format y "%.1f"
set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set key left top spacing 1.3 samplen 2.5
set xlabel "learning rate"
set ylabel "test accuracy"
set title "Accuracy against learning rate: k devices, minibatches of k·b images" font ",22"
set label "guessing" at graph 0.01,first 0.1 offset 0,-0.7 tc rgb "#777777"
set arrow from graph 0,first 0.1 to graph 1,first 0.1 nohead lc rgb "#999999" dt 3

array colors[4] = [0x2166ac, 0xe08214, 0, 0x1b7837]
array marks[4] = [7, 5, 0, 9]
# Bars at the same lr would hide each other: a little to the left for k = 1, to the right for k = 4.
shift(k) = k == 1 ? 0.95 : k == 4 ? 1.05 : 1
x(k) = int($1) == k ? $3 * shift(k) : NaN

plot for [c=6:5+runs] for [k in "1 2 4"] csv skip 1 using (x(int(k))):(column(c)) with points \
         pt 6 ps 1 lw 0.6 lc rgb colors[int(k)] notitle, \
     for [k in "1 2 4"] csv skip 1 using (x(int(k))):4:($4 > $5 ? $4 - $5 : 0):($4 + $5) with yerrorbars \
         pt marks[int(k)] ps 0 lw 1 lc rgb colors[int(k)] notitle, \
     for [k in "1 2 4"] csv skip 1 using (x(int(k))):4 with linespoints \
         pt marks[int(k)] ps 1.6 lw 2 lc rgb colors[int(k)] title sprintf("k = %s", k)
