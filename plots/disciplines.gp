# disciplines.gp: test accuracy of a training with parameter servers, over pushes and over modelled time.
#
#   gnuplot -c plots/disciplines.gp CSV PNG
#
# CSV has the columns machine,workers,servers,seeds,slow,way,pushes,seconds,accuracy,least,most. `slow`: how many times
# as long the slowest worker takes; accuracy: the mean over the seeds.

csv = ARG1
set datafile separator comma
set datafile missing NaN

machine = ''; ways = ''; W = 0; S = 0; seeds = 0; slow = 0
stats csv skip 1 using (machine = strcol(1), W = $2, S = $3, seeds = $4, slow = $5, \
    ways = strstrt(ways, '"'.strcol(6).'"') ? ways : ways.'"'.strcol(6).'" ', 0) nooutput
pace = slow > 1 ? sprintf("one of them takes %g times as long", slow) : "equally fast"

# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,900 font "DejaVu Sans,20" linewidth 2
set output ARG2

array colors[5] = [0x333333, 0xd6604d, 0x92c5de, 0x2166ac, 0x1b7837]
array marks[5] = [5, 7, 9, 13, 11]

set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set yrange [0:1]
set ylabel sprintf("test accuracy, mean of %d seeds", seeds) offset 1
set key bottom right reverse Left spacing 1.3 samplen 2 noenhanced
set multiplot layout 1,2 margins 0.075,0.98,0.13,0.80 spacing 0.08
set label 1 sprintf("%d workers, %s", W, pace) at screen 0.5,0.955 center font ",24"
set label 2 sprintf("%d server%s; times as on %s; bars: the seeds with the least and the most", S, S > 1 ? "s" : "", machine) at screen 0.5,0.905 center noenhanced
set title "over pushes: all ways are trained with as many"
set xlabel "pushes applied"
set xrange [0:*]
plot for [w=1:words(ways)] csv skip 1 using (strcol(6) eq word(ways, w) ? $7 : NaN):9:10:11 \
         with yerrorbars lw 0.6 lc rgb colors[w] pt 0 ps 0 notitle, \
     for [w=1:words(ways)] csv skip 1 using (strcol(6) eq word(ways, w) ? $7 : NaN):9 \
         with linespoints lw 2 lc rgb colors[w] pt marks[w] ps 1.2 title word(ways, w)
unset label
unset key
unset ylabel
set title "the same over time: how soon"
set xlabel "modelled seconds, not measured"
plot for [w=1:words(ways)] csv skip 1 using (strcol(6) eq word(ways, w) ? $8 : NaN):9:10:11 \
         with yerrorbars lw 0.6 lc rgb colors[w] pt 0 ps 0 notitle, \
     for [w=1:words(ways)] csv skip 1 using (strcol(6) eq word(ways, w) ? $8 : NaN):9 \
         with linespoints lw 2 lc rgb colors[w] pt marks[w] ps 1.2 notitle
unset multiplot
