# exercise_overlap.gp: how much of LeNet's exchange is hidden under backward, against the size of the minibatch; a
# column of panels for each machine, a row for each way to sum.
#
#   gnuplot -c plots/exercise_overlap.gp CSV PNG
#
# CSV has the columns machine,allreduce,devices,images,chapter_4_ms,overlapped_ms,no_exchange_ms,launches_ms,
# hidden_percent.
call ARG0[:strlen(ARG0) - strlen("exercise_overlap.gp")]."style.gp" ARG1

set datafile missing # there may be no labels, of which gnuplot would warn
machines = ''
stats csv skip 1 using (machines = with_new(machines, strcol(1)), $3) nooutput
is(machine, way) = strcol(1) eq machine && strcol(2) eq way

set logscale x 2
set xrange [48:5500]
set xtics (64, 256, 1024, 4096)
set yrange [-25:100]
set ytics 0,20,100 # what is far below stands at the bottom, with its number
below_row = 122
eval page(words(machines), 2, 1, "The part of LeNet's exchange that backward hides", \
    "modelled, not measured; left: summed by the star, right: by the ring")
set ylabel "percent hidden"
do for [machine in machines] { do for [way in "star ring"] {
    set title machine.", ".way noenhanced
    set xlabel (machine eq word(machines, words(machines)) ? "images in a minibatch" : "")
    plot for [j=1:3] csv skip 1 using (is(machine, way) && $3 == 2**j ? $4 : NaN):($9 < -20 ? -20 : $9) \
            with linespoints lt j title sprintf("%d devices", 2**j), \
        csv skip 1 using (is(machine, way) && $9 < -10 ? $4 : NaN):(-17):(sprintf("%.0f", $9)) \
            with labels left offset 0.7,0 notitle
    unset key
} }
