# exercise_averages.gp: how wrong a gradient is that k devices sum, and one of which each averages its part.
#
#   gnuplot -c plots/exercise_averages.gp CSV PNG
#
# CSV has the columns devices,minibatch,rows,error_of_sum,error_of_averages; minibatch is the number of the one that
# was computed, or "none", which is number 0.
call ARG0[:strlen(ARG0) - strlen("exercise_averages.gp")]."style.gp" ARG1

set style data histograms
set style histogram clustered gap 1
set logscale y
set yrange [1e-9:1]
set format y "10^{%L}"
set xtics scale 0
set x2tics scale 0
set grid noxtics
set xlabel "devices"
set ylabel "error of the gradient"
eval page(1, 1, 1, "Gradients of k devices, compared with one device's", \
    "the largest difference, divided by the largest number of the gradient; above: the first wrong minibatch, as your part names it")
# What no bar can show stands in its place.
odd(c) = strcol(c) eq "nan" ? "nan" : column(c) == 0 ? "0" : ""
plot csv skip 1 using 4:xtic(1):x2tic(2) lt 1 title "sum, divided once", \
     csv skip 1 using 5 lt 2 title "average of averages", \
     for [c=4:5] csv skip 1 using ($0 + (c - 4.5) / 3):(1.7e-9):(odd(c)) \
         with labels font ",16" notitle
