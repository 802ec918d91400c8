# exercise_straggler.gp: softmax regression on workers of which one is always slow, or each now and then: accuracy over modelled
# time, and the time until an accuracy is reached, for ways to wait for each other.
#
#   gnuplot -c plots/exercise_straggler.gp CSV PNG
#
# CSV has the columns part,straggler,way,time,accuracy,smooth,times,dropped; part is "curve" or "goal", straggler 0
# (nobody is slow), 1 (always) or 2 (by chance).
call ARG0[:strlen(ARG0) - strlen("exercise_straggler.gp")]."style.gp" ARG1

stats csv skip 1 using (strcol(1) eq "goal" ? $6 : NaN) nooutput name "GOAL"
ways = '"synchronous" "SSP 1" "SSP 3" "SSP 8" "asynchronous" "1 backup" "2 backup"'

eval page(1, 3, 3, "Eight workers with a straggler", \
    "modelled time, in computations; bars: as a multiple of the time where nobody is slow")
set xlabel "time"
set ylabel "test accuracy"
do for [who=1:2] {
    set title (who == 1 ? "one is always slow" : "each, in one step of 16")
    set xtics 0, (who == 1 ? 100 : 50)
    set autoscale
    stats csv skip 1 using (strcol(1) eq "curve" && $2 == who ? $4 : NaN) nooutput name "TIME"
    set xrange [0:TIME_max * 1.03]
    set yrange [0.3:0.8]
    plot GOAL_max with lines lt 8 dt 3 title sprintf("the goal, %.2f", GOAL_max), \
        for [w=1:7] csv skip 1 using (strcol(1) eq "curve" && $2 == who && strcol(3) eq word(ways, w) ? $4 : NaN):6 \
        with linespoints lt w ps 1.1 title word(ways, w)
    unset key
    unset ylabel
}
set title sprintf("until %.2f: times as long", GOAL_max)
set xrange [0.4:2.6]
set yrange [0:*]
set xlabel ""
set xtics ("always slow" 1, "by chance" 2) scale 0
set boxwidth 0.11
plot for [w=1:7] csv skip 1 using (strcol(1) eq "goal" && strcol(3) eq word(ways, w) ? $2 + 0.12 * (w - 4) : NaN):7 \
    with boxes lt w, 1 with lines lt 8 dt 3
