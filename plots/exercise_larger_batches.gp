# exercise_larger_batches.gp: test accuracy on k devices with minibatches of k*b, against epochs and against
# updates.
#
#   gnuplot -c plots/exercise_larger_batches.gp CSV PNG
#
# CSV has the columns devices,lr,epoch,updates,test_acc. The first run is k = 1; runs with its lr are drawn
# with broken lines, those with lr times k with full ones; those in between are in the CSV only.
call ARG0[:strlen(ARG0) - strlen("exercise_larger_batches.gp")]."style.gp" ARG1

stats csv skip 1 every ::0::0 using 2 nooutput name "LR"
lr = LR_min
stats csv skip 1 using 3 nooutput name "EPOCH"
stats csv skip 1 using 4 nooutput name "UPDATE"
is(k, rate) = (int($1) == k && abs($2 - rate) < 1e-6)
title_of(k, rate) = sprintf("k = %d, lr %g", k, rate)

set yrange [0:1]
eval page(1, 2, 3, "LeNet: minibatches of k·b images on k devices", "broken: the lr of one device; full: k times as much")
set ylabel "test accuracy"
do for [panel=3:4] {
    set title (panel == 3 ? "the same number of epochs" : "the same number of updates")
    set xlabel (panel == 3 ? "epoch" : "updates")
    each = panel == 4 ? up(UPDATE_max / 6) : EPOCH_max <= 20 ? 1 : 10 # there are no parts of epochs
    set xtics each
    set xrange [panel == 4 ? 0 : 0.9:1.03 * (panel == 4 ? UPDATE_max : EPOCH_max)]
    plot csv skip 1 using panel:(is(1, lr) ? $5 : NaN) with linespoints lt 1 lw 3 title title_of(1, lr), \
         for [k in "2 4"] csv skip 1 using panel:(is(int(k), lr) ? $5 : NaN) with linespoints \
             lt int(k) pt 6 dt 2 title title_of(int(k), lr), \
         for [k in "2 4"] csv skip 1 using panel:(is(int(k), k * lr) ? $5 : NaN) with linespoints \
             lt int(k) pt 7 title title_of(int(k), k * lr)
    unset key
    unset ylabel
}
