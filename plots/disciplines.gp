# disciplines.gp: test accuracy of a training with parameter servers, over pushes and over modelled time.
#
#   gnuplot -c plots/disciplines.gp CSV PNG
#
# CSV has the columns way,pushes,seconds,accuracy.

csv = ARG1
set datafile separator comma
set datafile missing NaN

ways = ''
stats csv skip 1 using (ways = strstrt(ways, '"'.strcol(1).'"') ? ways : ways.'"'.strcol(1).'" ', 0) nooutput

# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,900 font "DejaVu Sans,20" linewidth 2
set output ARG2

array colors[5] = [0x333333, 0xd6604d, 0x92c5de, 0x2166ac, 0x1b7837]
array marks[5] = [5, 7, 9, 13, 11]

set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set yrange [0:1]
set ylabel "test accuracy"
set key bottom right reverse Left spacing 1.3 samplen 2 noenhanced
set multiplot layout 1,2 margins 0.07,0.98,0.13,0.84 spacing 0.08
set label 1 "Workers that wait for each other in five ways, one of them slow" at screen 0.5,0.95 center font ",24"
set title "over updates: how much is learned of each push"
set xlabel "pushes applied"
plot for [w=1:words(ways)] csv skip 1 using (strcol(1) eq word(ways, w) ? $2 : NaN):4 \
    with linespoints lw 2 lc rgb colors[w] pt marks[w] ps 1 title word(ways, w)
unset label 1
unset key
unset ylabel
set title "over time: how soon"
set xlabel "modelled seconds, not measured"
plot for [w=1:words(ways)] csv skip 1 using (strcol(1) eq word(ways, w) ? $3 : NaN):4 \
    with linespoints lw 2 lc rgb colors[w] pt marks[w] ps 1 notitle
unset multiplot
