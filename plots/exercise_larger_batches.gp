# exercise_larger_batches.gp: test accuracy on k devices with minibatches of k*b, against epochs and against
# updates.
#
#   gnuplot -c plots/exercise_larger_batches.gp CSV PNG
#
# CSV has the columns devices,lr,epoch,updates,test_acc. The first run is k = 1; runs with its lr are drawn
# with broken lines, those with lr times k with full ones; those in between are in the CSV only.

csv = ARG1
# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,860 font "DejaVu Sans,20" linewidth 2
set output ARG2
set datafile separator comma

stats csv skip 1 every ::0::0 using 2 nooutput name "LR"
lr = LR_min
set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
stats csv skip 1 using 3 nooutput name "EPOCH"
set xrange [0:*]
set yrange [0:1]
set format y "%.1f"

is(k, rate) = (int($1) == k && abs($2 - rate) < 1e-6)
array colors[4] = [0x2166ac, 0xe08214, 0, 0x1b7837]
title_of(k, rate) = sprintf("k = %d, lr %g", k, rate)

set multiplot layout 1,2 title "Minibatches of k·b images on k devices" font ",24" \
    margins 0.07,0.97,0.28,0.85 spacing 0.08
do for [panel=1:2] {
    set title (panel == 1 ? "the same number of epochs" : "the same number of updates")
    set xlabel (panel == 1 ? "epoch" : "updates")
    # Below both panels: nowhere among the curves is a place for five names.
    if (panel == 1) {
        set key at screen 0.52,screen 0.14 center top horizontal maxrows 3 samplen 3
        if (EPOCH_max <= 20) { set xtics 1 } # there are no parts of epochs
    } else {
        unset key
        set xtics autofreq
    }
    set ylabel (panel == 1 ? "test accuracy" : "")
    plot csv skip 1 using (column(panel + 2)):(is(1, lr) ? $5 : NaN) with linespoints \
             lw 3 lc rgb colors[1] pt 7 ps 1.3 title title_of(1, lr), \
         for [k in "2 4"] csv skip 1 using (column(panel + 2)):(is(int(k), lr) ? $5 : NaN) with linespoints \
             lw 1.7 dt 2 lc rgb colors[int(k)] pt 6 ps 1.3 title title_of(int(k), lr), \
         for [k in "2 4"] csv skip 1 using (column(panel + 2)):(is(int(k), k * lr) ? $5 : NaN) with linespoints \
             lw 1.7 lc rgb colors[int(k)] pt 7 ps 1.3 title title_of(int(k), k * lr)
}
unset multiplot
