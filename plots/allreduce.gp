# allreduce.gp: time of an allreduce against the size of the vector, a panel per number of devices; below, the
# same as a part of the star's time.
#
#   gnuplot -c plots/allreduce.gp CSV PNG
#
# CSV has the columns algorithm,devices,bytes,seconds,algbw,busbw.

csv = ARG1

# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,1300 font "DejaVu Sans,20" linewidth 2
set output ARG2

set datafile separator comma
set datafile missing NaN # rows of the other algorithms are left out, and lines go on

# The numbers of devices in the file, in the order in which they appear: " 2  4 "
devices = ''
stats csv skip 1 using (k = sprintf(' %d ', int($2)), devices = strstrt(devices, k) ? devices : devices.k, $2) nooutput

names = "star sharded ring tree"
# Where devices share a memory, curves lie close together. So the star, which the others are compared with,
# is drawn broad and pale, and the others thinner on top of it.
array widths[4] = [6, 2, 2, 2]
array colors[4] = [0xf4a582, 0x2166ac, 0x1b7837, 0x762a83]
array marks[4] = [7, 5, 9, 13]
array sizes[4] = [2.2, 1.4, 1.8, 1.8]

set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set logscale xy
set rmargin 5
set xtics ("1 KB" 2**10, "16 KB" 2**14, "256 KB" 2**18, "4 MB" 2**22, "64 MB" 2**26)
set ytics ("1 µs" 1e-6, "10 µs" 1e-5, "100 µs" 1e-4, "1 ms" 1e-3, "10 ms" 1e-2, "100 ms" 1e-1, "1 s" 1, "10 s" 10)
unset mytics
set key left top reverse Left spacing 1.3 samplen 2
set xrange [2**9.6:2**26.4]

# The same range in both panels, whole powers of ten.
stats csv skip 1 using 4 nooutput name "TIME"
set yrange [10**floor(log10(TIME_min)):10**ceil(log10(TIME_max))]

set multiplot layout 2,words(devices) title "Time of one allreduce" font ",24"
do for [panel=1:words(devices)] {
    k = int(word(devices, panel))
    set title sprintf("%d device%s", k, k == 1 ? "" : "s")
    plot for [a=1:4] csv skip 1 \
        using 3:(int($2) == k && strcol(1) eq word(names, a) ? $4 : NaN) \
        with linespoints lw widths[a] lc rgb colors[a] pt marks[a] ps sizes[a] title word(names, a)
}

# Over so many decades differences of a third cannot be seen: so once more, against the star, whose row comes
# before those of the others.
unset logscale y
set format y "%g"
set ytics 0.5
set yrange [0:*]
set xlabel "size of the vector"
set ylabel "time / time of the star"
unset key
seconds_of_star = NaN
do for [panel=1:words(devices)] {
    k = int(word(devices, panel))
    set title ""
    plot for [a=1:4] csv skip 1 \
        using 3:(strcol(1) eq "star" ? (seconds_of_star = $4) : 0, \
            int($2) == k && strcol(1) eq word(names, a) ? $4 / seconds_of_star : NaN) \
        with linespoints lw widths[a] lc rgb colors[a] pt marks[a] ps sizes[a] notitle
    unset ylabel
}
unset multiplot
