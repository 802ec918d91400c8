# exercise_staleness.gp: LeNet with stale pushes: loss against learning rate, without and with a factor for staleness,
# and the largest learning rate with which it learns.
#
#   gnuplot -c plots/exercise_staleness.gp CSV PNG
#
# CSV has the columns part,factor,staleness,lr,loss,limit,parabola; part is "loss" or "limit", factor 0 or 1.

csv = ARG1
# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,800 font "DejaVu Sans,20" linewidth 2
set output ARG2
set datafile separator comma

set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
array stale[5] = [0, 1, 3, 7, 15]
array colors[5] = ["#444444", "#2166ac", "#67a9cf", "#fdae61", "#d73027"]
array marks[5] = [4, 7, 5, 9, 11]

set multiplot layout 1,3 title "LeNet with stale pushes" font ",24"
set logscale x 2
set xrange [0.008:1.6]
set yrange [0:2.6]
set format y "%g"
set xtics ("0.01" 0.01, "" 0.02, "0.04" 0.04, "" 0.08, "0.16" 0.16, "" 0.32, "0.64" 0.64, "" 1.28)
set xlabel "learning rate"
do for [with=0:1] {
    set title (with ? "with the factor 1/t" : "without a factor")
    if (with) { set ylabel ""; unset key } \
    else { set ylabel "loss, last quarter of the pushes"; set key left bottom reverse Left samplen 1.5 spacing 1.2 maxrows 2 title "staleness" left }
    plot for [j=1:5] csv skip 1 using (strcol(1) eq "loss" && $2 == with && $3 == stale[j] ? $4 : NaN):($5 > 2.55 ? 2.55 : $5) \
        with linespoints lw 1.5 pt marks[j] ps 1.4 lc rgb colors[j] title sprintf("%d", stale[j])
}
# Staleness 0 stands where 1/2 would.
set title "the largest learning rate that learns"
set logscale y 2
set xrange [0.4:20]
set yrange [*:1]
set xtics ("0" 0.5, "1" 1, "3" 3, "7" 7, "15" 15)
set ytics (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64)
set xlabel "staleness"
set ylabel ""
set key notitle maxrows auto left bottom reverse Left samplen 1.5 spacing 1.2
x(t) = t == 0 ? 0.5 : t
plot csv skip 1 using (strcol(1) eq "limit" && $2 == 0 ? x($3) : NaN):7 with lines lw 1.5 dt 3 lc rgb "#444444" title "a parabola's", \
    csv skip 1 using (strcol(1) eq "limit" && $2 == 1 ? x($3) : NaN):6 with linespoints lw 1.5 pt 7 ps 1.6 lc rgb "#2166ac" \
    title "with 1/t", \
    csv skip 1 using (strcol(1) eq "limit" && $2 == 0 ? x($3) : NaN):6 with linespoints lw 1.5 pt 9 ps 1.6 lc rgb "#d73027" \
    title "without"
unset multiplot
