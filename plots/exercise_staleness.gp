# exercise_staleness.gp: LeNet with stale pushes: loss against learning rate, without and with a factor for staleness,
# and the largest learning rate with which it learns.
#
#   gnuplot -c plots/exercise_staleness.gp CSV PNG
#
# CSV has the columns part,factor,staleness,lr,loss,limit,parabola; part is "loss" or "limit", factor 0 or 1.
call ARG0[:strlen(ARG0) - strlen("exercise_staleness.gp")]."style.gp" ARG1

array stale[5] = [0, 1, 3, 7, 15]
set logscale x 2
set xrange [0.008:1.6]
set yrange [0.5:2.6]
set xtics (0.01, 0.04, 0.16, 0.64)
set xlabel "learning rate"
eval page(1, 3, 3, "LeNet with stale pushes", "loss: of the last quarter of the pushes; what is more than 2.55 stands there")
set ylabel "loss"
do for [with=0:1] {
    set title (with ? "loss with the factor 1/t" : "loss without a factor")
    plot for [j=1:5] csv skip 1 using (strcol(1) eq "loss" && $2 == with && $3 == stale[j] ? $4 : NaN):($5 > 2.55 ? 2.55 : $5) \
        with linespoints lt j title sprintf("staleness %d", stale[j])
    unset key
    unset ylabel
}
# Staleness 0 stands where 1/2 would.
set title "largest rate that learns"
set logscale y 2
set xrange [0.4:20]
set yrange [*:1]
set xtics ("0" 0.5, "1" 1, "3" 3, "7" 7, "15" 15)
set ytics (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64)
set xlabel "staleness"
x(factor) = strcol(1) eq "limit" && $2 == factor ? ($3 == 0 ? 0.5 : $3) : NaN
eval names(3)
plot csv skip 1 using (x(0)):7 with lines lt 8 dt 3 title "a parabola's", \
    csv skip 1 using (x(1)):6 with linespoints lt 1 title "with 1/t", \
    csv skip 1 using (x(0)):6 with linespoints lt 2 title "without"
