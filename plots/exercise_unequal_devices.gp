# exercise_unequal_devices.gp: a step on two devices of unequal speed, with equal shards and with shards in
# proportion to the speeds.
#
#   gnuplot -c plots/exercise_unequal_devices.gp CSV PNG
#
# CSV has the columns part,slowdown,batch,rows0,rows1,speed0,speed1,exchange,equal,said_equal,proportional,
# said_proportional,alone,machine; part is slowdown or batch, times are seconds, said_ is predicted. Rows whose part is
# "modelled slowdown" or "modelled batch" have modelled times, the others measured ones. Drawn are the modelled
# ones, if there are any.
call ARG0[:strlen(ARG0) - strlen("exercise_unequal_devices.gp")]."style.gp" ARG1

stats csv skip 1 using (strcol(1) eq "modelled batch" ? 1 : 0) nooutput name "MODELLED"
kind = MODELLED_max > 0 ? "modelled " : ""
machine = ""
stats csv skip 1 using (machine = strcol(1) eq kind."batch" ? strcol(14) : machine, 0) nooutput
stats csv skip 1 using (strcol(1) eq kind."batch" ? $2 : NaN) nooutput name "SLOW"
stats csv skip 1 using (strcol(1) eq kind."batch" ? $3 : NaN) nooutput name "BATCH"
x(part, c) = strcol(1) eq kind.part ? column(c) : NaN

set yrange [0:*]
eval page(1, 2, 2, "ResNet-18 on two devices of unequal speed", \
    "points: ".(MODELLED_max > 0 ? "modelled on " : "measured ").plain(machine)."; lines: predicted")
set ylabel "seconds per step"
do for [part in "slowdown batch"] {
    c = part eq "batch" ? 3 : 2
    set title part eq "batch" ? sprintf("the second device %g times slower", SLOW_min) : "the second device slower and slower"
    set xlabel part eq "batch" ? "images in a minibatch" : "times that the second device is slower"
    set xrange [part eq "batch" ? BATCH_min / 1.15 : 0.9:part eq "batch" ? BATCH_max * 1.15 : 4.1]
    if (part eq "batch") {
        set logscale x 2
        set xtics ()
        set for [j=0:10] xtics add (sprintf("%d", BATCH_min * 2**j) BATCH_min * 2**j)
    }
    plot csv skip 1 using (x(part, c)):9 with points lt 2 title "equal shards", \
         csv skip 1 using (x(part, c)):10 with lines lt 2 notitle, \
         csv skip 1 using (x(part, c)):11 with points lt 1 title "in proportion to the speeds", \
         csv skip 1 using (x(part, c)):12 with lines lt 1 notitle, \
         csv skip 1 using (x(part, c)):13 with points lt 8 title "first device alone", \
         csv skip 1 using (x(part, c)):8 with lines lt 8 dt 3 title "exchange alone"
    unset key
    unset ylabel
}
