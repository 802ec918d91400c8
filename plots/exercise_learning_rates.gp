# exercise_learning_rates.gp: test accuracy against the learning rate, for k devices with minibatches of k*b.
#
#   gnuplot -c plots/exercise_learning_rates.gp CSV PNG
#
# CSV has the columns devices,batch,lr,mean,spread,run1,run2,..; one curve per number of devices, with its
# spread as bars and the single runs as dots.
call ARG0[:strlen(ARG0) - strlen("exercise_learning_rates.gp")]."style.gp" ARG1

stats csv skip 1 nooutput
runs = STATS_columns - 5
stats csv skip 1 using 3 nooutput name "LR"
set logscale x 2
set xrange [LR_min / 1.4:LR_max * 1.4]
set xtics () # one for each learning rate, and no others
set for [j=0:12] xtics add (sprintf("%g", LR_min * 2**j) LR_min * 2**j)
set yrange [0:1]
set xlabel "learning rate"
set ylabel "test accuracy"
eval page(1, 1, 1, "LeNet on k devices, minibatches of k·b images", \
    "lines: the mean of all seeds; bars: their spread; small rings: each of them")

# Bars at the same lr would hide each other: a little to the left for k = 1, to the right for k = 4.
shift(k) = k == 1 ? 0.95 : k == 4 ? 1.05 : 1
x(k) = int($1) == k ? $3 * shift(k) : NaN

plot for [c=6:5+runs] for [k in "1 2 4"] csv skip 1 using (x(int(k))):(column(c)) with points \
         lt int(k) pt 6 ps 1 lw 0.6 notitle, \
     for [k in "1 2 4"] csv skip 1 using (x(int(k))):4:($4 > $5 ? $4 - $5 : 0):($4 + $5) with yerrorbars \
         lt int(k) lw 1 ps 0 notitle, \
     for [k in "1 2 4"] csv skip 1 using (x(int(k))):4 with linespoints lt int(k) title "k = ".k, \
     0.1 with lines lt 8 dt 3 title "guessing"
