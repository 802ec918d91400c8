# exercise_allreduce.gp: what each device has to receive (and send), and the modelled time on several machines, for
# ways to sum gradients.
#
#   gnuplot -c plots/exercise_allreduce.gp CSV PNG
#
# CSV has the columns machine,method,devices,modelled_gradients_ms,modelled_step_ms,modelled_large_ms,device0_bytes,
# device1_bytes,..; a block of rows for each machine, the star first.
call ARG0[:strlen(ARG0) - strlen("exercise_allreduce.gp")]."style.gp" ARG1

machines = ''
stats csv skip 1 using (machines = with_new(machines, strcol(1)), $3) nooutput
shown = STATS_max > 8 ? 8 : int(STATS_max) # devices
methods = int(STATS_records / words(machines))
array names[5] = ["star", "parameter p on p mod k", "largest first", "k parts each", "chapter 2, sharded"]

set yrange [0:*]
set boxwidth 0.16
set xtics 1 scale 0
eval page(1, 3, 2, sprintf("Summing the gradients of LeNet on %d devices", STATS_max), \
    "time: modelled, not measured; machines differ by a factor of a thousand, so each as a multiple of the star's")
set title "MB that each receives, and sends"
set xlabel "device"
set xrange [-0.6:shown - 0.4]
plot for [d=0:shown-1] for [i=1:methods] csv skip 1 every ::i-1::i-1 using (d + 0.17 * (i - 3)):(column(7 + d) / 1e6) \
    with boxes lt i title d ? "" : names[i]
unset key
unset xlabel
set xrange [-0.6:words(machines) - 0.4]
set xtics ()
do for [m=1:words(machines)] { set xtics add (broken(word(machines, m)) m - 1) }
do for [part=4:6:2] {
    set title part == 4 ? "LeNet's gradients, 0.5 MB: time" : "a vector of 16 MB: time"
    star = NaN # its row is the first of each machine
    plot for [i=1:methods] csv skip 1 using (int($0) % methods == i - 1 ? int($0) / methods + 0.17 * (i - 3) : NaN): \
        (int($0) % methods == 0 ? (star = column(part)) : 0, column(part) / star) with boxes lt i
}
