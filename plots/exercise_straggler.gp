# exercise_straggler.gp: LeNet on workers of which one is always slow, or each now and then: accuracy over modelled
# time, and the time until an accuracy is reached, for ways to wait for each other.
#
#   gnuplot -c plots/exercise_straggler.gp CSV PNG
#
# CSV has the columns part,straggler,way,time,accuracy,smooth,times,dropped; part is "curve" or "goal", straggler 0
# (nobody is slow), 1 (always) or 2 (by chance).

csv = ARG1
# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,800 font "DejaVu Sans,20" linewidth 2
set output ARG2
set datafile separator comma

stats csv skip 1 using (strcol(1) eq "goal" ? $6 : NaN) nooutput name "GOAL"

set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
array ways[7] = ["synchronous", "SSP 1", "SSP 3", "SSP 8", "asynchronous", "1 backup", "2 backup"]
array colors[7] = ["#333333", "#92c5de", "#4393c3", "#2166ac", "#d6604d", "#7fbf7b", "#1b7837"]
array marks[7] = [5, 4, 9, 13, 7, 10, 11]
number(way) = (n = 0, sum [i=1:7] (n = ways[i] eq way ? i : n), n)

set multiplot layout 1,3 title "A straggler among eight workers: modelled time, in computations" font ",24"
set ytics 0.1
set xlabel "time"
do for [who=1:2] {
    set title (who == 1 ? "one is always slow" : "each is slow in one step of 16")
    set xtics 0, (who == 1 ? 100 : 50)
    if (who == 1) { set ylabel "test accuracy"; set key right bottom reverse Left samplen 1.5 spacing 1.2 } \
    else { set ylabel ""; unset key }
    set autoscale
    stats csv skip 1 using (strcol(1) eq "curve" && $2 == who ? $4 : NaN) nooutput name "TIME"
    set xrange [0:TIME_max]
    set yrange [0.3:0.8]
    plot GOAL_max with lines lw 1.5 dt 3 lc rgb "#444444" title "the goal", \
        for [w=1:7] csv skip 1 using (strcol(1) eq "curve" && $2 == who && strcol(3) eq ways[w] ? $4 : NaN):6 \
        with linespoints lw 1.5 pt marks[w] ps 1.1 lc rgb colors[w] title ways[w]
}
# Bars: always slow on the left of each pair, by chance on the right.
set title sprintf("until an accuracy of %.2f", GOAL_max)
set xrange [0.4:7.6]
set yrange [0:5]
set ytics 1
set xlabel ""
set ylabel "times as long as where nobody is slow"
set xtics rotate by 40 right
set xtics ("synchronous" 1, "SSP 1" 2, "SSP 3" 3, "SSP 8" 4, "asynchronous" 5, "1 backup" 6, "2 backup" 7)
set key at graph 0.98, graph 0.98 right top noreverse Right spacing 1.2
set style fill solid 1 noborder
set boxwidth 0.38
plot csv skip 1 using (strcol(1) eq "goal" && $2 == 1 ? number(strcol(3)) - 0.2 : NaN):7 with boxes lc rgb "#b2182b" \
    title "one is always slow", \
    csv skip 1 using (strcol(1) eq "goal" && $2 == 2 ? number(strcol(3)) + 0.2 : NaN):7 with boxes lc rgb "#f4a582" \
    title "each, by chance", \
    1 with lines lw 1.5 dt 3 lc rgb "#444444" notitle
unset multiplot
