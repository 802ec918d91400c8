# scaling.gp: modelled efficiency of training on up to 512 ranks: three networks beside published figures, and three
# ways to exchange gradients.
#
#   gnuplot -c plots/scaling.gp CSV PNG
#
# CSV has the columns network,way,sent,speed,ranks,images_per_second,efficiency. Rows of the way "published" are
# measurements of others. The ways are compared for the network that has rows of "hierarchical".

csv = ARG1
set datafile separator comma
set datafile missing NaN

array networks[8]
count = 0; names = ''; compared = ''
stats csv skip 1 using (\
    (strstrt(names, '"'.strcol(1).'"') ? 0 : (count = count + 1, networks[count] = strcol(1), names = names.'"'.strcol(1).'"')), \
    (compared = strcol(2) eq "hierarchical" ? strcol(1) : compared), 0) nooutput

# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,900 font "DejaVu Sans,20" linewidth 2
set output ARG2

array colors[3] = [0x2166ac, 0x1b7837, 0xd6604d]
array way_colors[3] = [0x762a83, 0x01665e, 0xbf812d]
array marks[3] = [5, 9, 7]
array open_marks[3] = [4, 8, 6]
ways = "ring hierarchical servers"

is(n, way, sent, speed) = strcol(1) eq n && strcol(2) eq way && strcol(3) eq sent && strcol(4) eq speed ? 100 * $7 : NaN

set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set logscale x 2
set xrange [0.9:700]
set xtics (1, 4, 8, 16, 32, 64, 128, 256, 512) font ",17"
set xlabel "ranks, 4 on each machine"
set ylabel "efficiency, %"
set key bottom left reverse Left spacing 1.2 samplen 2.5 noenhanced font ",16"
set multiplot layout 1,2 margins 0.075,0.975,0.13,0.80 spacing 0.07
set label 1 "Modelled: training on up to 512 P100, 4 on each machine with a card of 25 Gb/s" at screen 0.5,0.95 center font ",24"
set label 2 "Efficiency: images per second on k ranks, divided by k times those of one. Only the open marks were measured. Both axes begin at 30 %." at screen 0.5,0.895 center font ",16" textcolor rgb "#555555"
set title "ring, a message for each 64 MiB, and published figures"
set yrange [30:102]
set ytics 10
plot for [n=1:count] csv skip 1 using 5:(is(networks[n], "ring", "64 MiB", "modelled")) \
        with linespoints lw 2 lc rgb colors[n] pt marks[n] ps 1 title networks[n], \
    for [n=1:count] csv skip 1 using 5:(is(networks[n], "ring", "64 MiB", "measured")) \
        with lines lw 2 dt (7,5) lc rgb colors[n] notitle, \
    for [n=1:count] csv skip 1 using 5:(strcol(1) eq networks[n] && strcol(2) eq "published" && $5 > 1 ? 100 * $7 : NaN) \
        with points lw 2 lc rgb colors[n] pt open_marks[n] ps 3 notitle, \
    NaN with lines lw 2 dt (7,5) lc rgb "#555555" title "modelled, with one GPU as fast as measured", \
    NaN with points lw 2 pt 6 ps 2.5 lc rgb "#555555" title "published, on 16 and on 512 GPUs"
unset label 1
unset label 2
unset ylabel
set title compared.": three ways, messages by two rules"
plot for [w=1:3] csv skip 1 using 5:(is(compared, word(ways, w), "64 MiB", "modelled")) \
        with linespoints lw 2 lc rgb way_colors[w] pt marks[w] ps 1 title word(ways, w), \
    for [w=1:3] csv skip 1 using 5:(is(compared, word(ways, w), "5 ms", "modelled")) \
        with lines lw 2 dt (7,5) lc rgb way_colors[w] notitle, \
    NaN with lines lw 2 lc rgb "#555555" title "a message for each 64 MiB", \
    NaN with lines lw 2 dt (7,5) lc rgb "#555555" title "a message every 5 ms"
unset multiplot
