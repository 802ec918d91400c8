# exercise_1f1b.gp: a pipeline with two orders of work: how much of a step its devices are idle, and the activations
# that its stages keep, against the number of microbatches.
#
#   gnuplot -c plots/exercise_1f1b.gp CSV PNG
#
# CSV has the columns machine,order,stages,m,modelled_ms,idle,formula,stage0_mb,stage1_mb,..

csv = ARG1
# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,800 font "DejaVu Sans,20" linewidth 2
set output ARG2
set datafile separator comma

machine = ''
stats csv skip 1 using (machine = strcol(1), $3) nooutput
stages = int(STATS_max)
array blues[8] = ["#08306b", "#2166ac", "#4393c3", "#92c5de", "#a6dba0", "#5aae61", "#1b7837", "#00441b"]
array marks[8] = [7, 5, 9, 11, 13, 6, 4, 8]

set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set logscale x 2
set xrange [0.85:19]
set xtics (1, 2, 4, 8, 16)
set yrange [0:*]
set xlabel "microbatches"

set multiplot layout 1,2 title sprintf("A pipeline of %d stages, fill-drain and 1F1B: modelled on %s", stages, machine) \
    font ",24" noenhanced
set title "idle share of a step"
set ylabel "percent"
set key right top spacing 1.3 samplen 2
plot csv skip 1 using (strcol(2) eq "fill-drain" ? $4 : NaN):(100 * $7) with lines lw 1.5 dt 3 lc rgb "#444444" \
         title "(k-1) / (m+k-1)", \
     csv skip 1 using (strcol(2) eq "fill-drain" ? $4 : NaN):(100 * $6) with points pt 5 ps 2.2 lc rgb "#f4a582" \
         title "fill-drain", \
     csv skip 1 using (strcol(2) eq "1F1B" ? $4 : NaN):(100 * $6) with points pt 7 ps 1.5 lc rgb "#2166ac" title "1F1B"

set title "activations that a stage keeps, at most"
set ylabel "MB"
set key right top maxrows 5 font ",17" samplen 1.5
set offsets 0, 0, graph 0.6, 0
plot csv skip 1 using (strcol(2) eq "fill-drain" ? $4 : NaN):8 with linespoints lw 1.5 dt 2 pt 5 ps 1.7 lc rgb "#f4a582" \
         title "fill-drain, stage 0", \
     for [i=0:stages-1] csv skip 1 using (strcol(2) eq "1F1B" ? $4 : NaN):(column(8 + i)) with linespoints lw 1.5 \
         pt marks[i + 1] ps 1.5 lc rgb blues[i + 1] title sprintf("1F1B, stage %d", i)
unset multiplot
