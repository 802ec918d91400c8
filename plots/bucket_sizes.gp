# bucket_sizes.gp: modelled time of a step of DDP against the size of its buckets, a panel for each network.
#
#   gnuplot -c plots/bucket_sizes.gp CSV PNG
#
# CSV has the columns network,machine,devices,rows,bucket_bytes,buckets,seconds,without,best: `without` is the time of
# a step without any exchange. One bucket of everything has the bucket_bytes nan.

csv = ARG1
set datafile separator comma
set datafile missing NaN

networks = ''; machines = ''; devices = ''
stats csv skip 1 using (\
    (networks = strstrt(networks, ' '.strcol(1).' ') ? networks : networks.' '.strcol(1).' '), \
    (machines = strstrt(machines, ' '.strcol(2).' ') ? machines : machines.' '.strcol(2).' '), \
    (devices = strcol(3)), (rows = strcol(4)), 0) nooutput

# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,900 font "DejaVu Sans,20" linewidth 2
set output ARG2

one = 2**28 # where "one bucket" stands on the axis
size(column) = valid(column) ? column(column) : one
array colors[2] = [0x2166ac, 0xd6604d]
array marks[2] = [5, 7]

set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set logscale x 2
set xrange [2**11.5:2**28.6]
set xtics ("4 KiB" 2**12, "16" 2**14, "64" 2**16, "256" 2**18, "1 MiB" 2**20, "4" 2**22, "25" 25*2**20, "one" one) font ",17"
set xlabel "size of a bucket"
set ylabel "step, times as long as without exchange"
set yrange [1:*]
set key top center reverse Left spacing 1.3 samplen 2 noenhanced
set multiplot layout 1,2 margins 0.08,0.98,0.13,0.80 spacing 0.09
set label 1 "Modelled, not measured: a step of DDP, ".rows." rows on each device" at screen 0.5,0.95 center font ",24"
set label 2 "Large: the best size. At 1 the exchange would be completely hidden under backward." at screen 0.5,0.895 center font ",16" textcolor rgb "#555555"
do for [panel=1:words(networks)] {
    network = word(networks, panel)
    set title network noenhanced
    plot for [m=1:words(machines)] csv skip 1 \
            using (strcol(1) eq network && strcol(2) eq word(machines, m) ? size(5) : NaN):($7 / $8) \
            with linespoints lw 2 lc rgb colors[m] pt marks[m] ps 1.4 title word(machines, m).", ".devices." devices", \
        for [m=1:words(machines)] csv skip 1 \
            using (strcol(1) eq network && strcol(2) eq word(machines, m) && $9 == 1 ? size(5) : NaN):($7 / $8) \
            with points lc rgb colors[m] pt marks[m] ps 3.4 notitle
    unset ylabel
    unset label 1
    unset label 2
}
unset multiplot
