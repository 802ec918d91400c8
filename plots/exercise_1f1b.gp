# exercise_1f1b.gp: a pipeline with two orders of work: how much of a step its devices are idle, and the activations
# that its stages keep, against the number of microbatches.
#
#   gnuplot -c plots/exercise_1f1b.gp CSV PNG
#
# CSV has the columns machine,order,stages,m,modelled_ms,idle,formula,stage0_mb,stage1_mb,..
call ARG0[:strlen(ARG0) - strlen("exercise_1f1b.gp")]."style.gp" ARG1

stats csv skip 1 using (machine = strcol(1), $3) nooutput
stages = int(STATS_max)
m(order) = strcol(2) eq order ? $4 : NaN

set logscale x 2
set xrange [0.85:19]
set xtics (1, 2, 4, 8, 16)
set yrange [0:*]
set xlabel "microbatches"
eval page(1, 2, (stages + 2) / 2 + 1, sprintf("A pipeline of %d stages, fill-drain and 1F1B", stages), \
    "modelled, not measured: ".plain(machine))
eval names(1)
set title "idle share of a step"
set ylabel "percent"
plot csv skip 1 using (m("fill-drain")):(100 * $7) with lines lt 8 dt 3 title "(k-1) / (m+k-1)", \
     csv skip 1 using (m("fill-drain")):(100 * $6) with points lt 9 title "fill-drain", \
     csv skip 1 using (m("1F1B")):(100 * $6) with points lt 1 ps 1 title "1F1B"
eval names(2)
set title "activations that a stage keeps, at most"
set ylabel "MB"
plot csv skip 1 using (m("fill-drain")):8 with linespoints lt 9 lw 3 dt 2 title "fill-drain, stage 0", \
     for [i=1:stages] csv skip 1 using (m("1F1B")):(column(7 + i)) with linespoints lt i title sprintf("1F1B, stage %d", i - 1)
