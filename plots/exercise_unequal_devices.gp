# exercise_unequal_devices.gp: a step on two devices of unequal speed, with equal shards and with shards in
# proportion to the speeds.
#
#   gnuplot -c plots/exercise_unequal_devices.gp CSV PNG
#
# CSV has the columns part,slowdown,batch,rows0,rows1,speed0,speed1,exchange,equal,said_equal,proportional,
# said_proportional,alone,machine; part is slowdown or batch, times are seconds, said_ is predicted. Rows whose part is
# "modelled slowdown" or "modelled batch" have modelled times, the others measured ones. Drawn are the modelled
# ones, if there are any.

csv = ARG1
# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,860 font "DejaVu Sans,20" linewidth 2
set output ARG2
set datafile separator comma

stats csv skip 1 using (strcol(1) eq "modelled batch" ? 1 : 0) nooutput name "MODELLED"
kind = MODELLED_max > 0 ? "modelled " : ""
machine = ""
stats csv skip 1 using (machine = strcol(1) eq kind."batch" ? strcol(14) : machine, 0) nooutput
stats csv skip 1 using (strcol(1) eq kind."batch" ? $2 : NaN) nooutput name "SLOW"
stats csv skip 1 using (strcol(1) eq kind."batch" ? $3 : NaN) nooutput name "BATCH"
of(part) = strcol(1) eq kind.part ? 1 : NaN

set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set yrange [0:*]
set format y "%g"
set ylabel "seconds per step"
set key left top spacing 1.3 samplen 2

times = (MODELLED_max > 0 ? "modelled on " : "measured ").machine
set multiplot layout 1,2 title "ResNet-18 on two devices of unequal speed (points: ".times.", lines: predicted)" \
    font ",24" noenhanced
set title "the second device slower and slower"
set xlabel "times that the second device is slower"
set xrange [0.9:*]
plot csv skip 1 using (of("slowdown") * $2):10 with lines lw 1.5 lc rgb "#d73027" notitle, \
     csv skip 1 using (of("slowdown") * $2):9 with points pt 7 ps 1.8 lc rgb "#d73027" title "equal shards", \
     csv skip 1 using (of("slowdown") * $2):12 with lines lw 1.5 lc rgb "#2166ac" notitle, \
     csv skip 1 using (of("slowdown") * $2):11 with points pt 5 ps 1.8 lc rgb "#2166ac" title "in proportion to the speeds", \
     csv skip 1 using (of("slowdown") * $2):13 with points pt 8 ps 1.8 lc rgb "#777777" title "first device alone"

set title sprintf("the second device %g times slower", SLOW_min)
set xlabel "images in a minibatch"
set logscale x 2
set xtics ()
set xrange [BATCH_min / 1.15:BATCH_max * 1.15]
set for [j=0:10] xtics add (sprintf("%d", BATCH_min * 2**j) BATCH_min * 2**j)
set ylabel ""
plot csv skip 1 using (of("batch") * $3):10 with lines lw 1.5 lc rgb "#d73027" notitle, \
     csv skip 1 using (of("batch") * $3):9 with points pt 7 ps 1.8 lc rgb "#d73027" title "equal shards", \
     csv skip 1 using (of("batch") * $3):12 with lines lw 1.5 lc rgb "#2166ac" notitle, \
     csv skip 1 using (of("batch") * $3):11 with points pt 5 ps 1.8 lc rgb "#2166ac" title "in proportion to the speeds", \
     csv skip 1 using (of("batch") * $3):13 with points pt 8 ps 1.8 lc rgb "#777777" title "first device alone", \
     csv skip 1 using (of("batch") * $3):8 with lines lw 1.5 dt 3 lc rgb "#444444" title "exchange alone"
unset multiplot
