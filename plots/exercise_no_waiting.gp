# exercise_no_waiting.gp: time of a step when the host may be 0, 1, 2 or any number of steps ahead of the
# devices.
#
#   gnuplot -c plots/exercise_no_waiting.gp CSV PNG
#
# CSV has the columns network,work,ahead,work_number,ahead_number,ms,said_ms,most_ahead,host_mb,arena_mb.
call ARG0[:strlen(ARG0) - strlen("exercise_no_waiting.gp")]."style.gp" ARG1

set boxwidth 0.9
set xrange [-0.8:13.8]
set yrange [0:*]
set xtics scale 0 ("none" 1.5, "half a step\nin each" 6.5, "as much, each\nfourth step" 11.5)
array names[4] = ["waits each step", "1 step ahead", "2 steps ahead", "no limit"]
at(network, a) = strcol(1) eq network && int($5) == a ? 5 * $4 + $5 : NaN

eval page(1, 2, 2, "How far may the host run ahead of the devices?", "measured here; below each group: work that the host has of its own")
set ylabel "milliseconds per step"
do for [network in "LeNet ResNet-18"] {
    set title network
    plot for [a=0:3] csv skip 1 using (at(network, a)):6 with boxes lt a + 1 title names[a + 1], \
         csv skip 1 using (strcol(1) eq network ? 5 * $4 + $5 : NaN):7 \
         with points lt 7 pt 2 ps 1.6 title "predicted"
    unset key
    unset ylabel
}
