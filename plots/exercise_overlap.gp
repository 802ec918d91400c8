# exercise_overlap.gp: how much of LeNet's exchange is hidden under backward, against the size of the minibatch; a
# column of panels for each machine, a row for each way to sum.
#
#   gnuplot -c plots/exercise_overlap.gp CSV PNG
#
# CSV has the columns machine,allreduce,devices,images,chapter_4_ms,overlapped_ms,no_exchange_ms,launches_ms,
# hidden_percent.

csv = ARG1
# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,960 font "DejaVu Sans,18" linewidth 2
set output ARG2
set datafile separator comma

# Names may have spaces in them, so they are separated by bars.
machines = '|'
stats csv skip 1 using (machines = strstrt(machines, '|'.strcol(1).'|') ? machines : machines.strcol(1).'|', $3) nooutput
array names[8]
n = 0
while (strlen(machines) > 1) {
    machines = machines[2:*]
    n = n + 1
    end = strstrt(machines, '|')
    names[n] = machines[1:end - 1]
    machines = machines[end:*]
}

set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set logscale x 2
set xrange [48:5500]
set xtics (64, "" 128, 256, "" 512, 1024, "" 2048, 4096) font ",16"
set yrange [-25:100]
set ytics 0,20,100 # what is far below stands at the bottom, with its number
array colors[3] = ["#67a9cf", "#2166ac", "#d73027"]
array marks[3] = [7, 5, 9]

set multiplot layout 2,n title "The part of LeNet's exchange that backward hides: modelled" font ",24" \
    margins 0.07,0.985,0.11,0.86 spacing 0.025,0.12
do for [way in "star ring"] {
    do for [m=1:n] {
        if (way eq "star") { set title names[m] noenhanced; set xlabel "" } \
        else { set title ""; set xlabel "images in a minibatch" }
        if (m == 1) { set ylabel way."\npercent hidden"; set format y "%g" } else { set ylabel ""; set format y "" }
        if (m == 2 && way eq "star") { set key left top reverse Left samplen 1.5 spacing 1.2 } else { unset key }
        plot for [j=1:3] csv skip 1 \
            using (strcol(1) eq names[m] && strcol(2) eq way && $3 == 2**j ? $4 : NaN):($9 < -20 ? -20 : $9) \
            with linespoints lw 1.5 pt marks[j] ps 1.4 lc rgb colors[j] title sprintf("%d devices", 2**j), \
            csv skip 1 using (strcol(1) eq names[m] && strcol(2) eq way && $9 < -10 ? $4 : NaN):(-17):(sprintf("%.0f", $9)) \
            with labels left offset 0.7,0 font ",15" notitle
    }
}
unset multiplot
