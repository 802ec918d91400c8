# exercise_ring_of_ranks.gp: how long a ring of messages, a star and MPI_Allreduce take, against the size of the
# vector, with 2 and with 4 ranks.
#
#   gnuplot -c plots/exercise_ring_of_ranks.gp CSV PNG
#
# CSV has the columns ranks,bytes,way,low_seconds,median_seconds,high_seconds,most_sent; a block of rows for each way.
call ARG0[:strlen(ARG0) - strlen("exercise_ring_of_ranks.gp")]."style.gp" ARG1

stats csv skip 1 using 4 nooutput name "LOW"
stats csv skip 1 using 6 nooutput name "HIGH"
array ways[3] = ["your ring", "star", "MPI_Allreduce"]
x(k, way) = strcol(1) eq k && strcol(3) eq way ? $2 : NaN

set logscale x 4
set logscale y 10
set xrange [2.5:27e6]
set yrange [down(LOW_min):up(HIGH_max)]
set xtics ("4 B" 4, "1 KiB" 1024, "64 KiB" 65536, "4 MiB" 4194304)
eval "set ytics ".times
set xlabel "vector"
eval page(1, 2, 1, "Sums over ranks of this machine", "measured here: medians; bars: quartiles")
do for [k in "2 4"] {
    set title k." ranks"
    plot for [w=1:3] csv skip 1 using (x(k, ways[w])):5:4:6 with yerrorbars lt w lw 1 pt 0 notitle, \
         for [w=1:3] csv skip 1 using (x(k, ways[w])):5 with linespoints lt w title plain(ways[w])
    unset key
}
