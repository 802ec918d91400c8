# resnet18_effects.gp: what single changes do to the test accuracy, each with an interval.
#
#   gnuplot -c plots/resnet18_effects.gp CSV PNG
#
# CSV has the columns change,accuracy,margin.
call ARG0[:strlen(ARG0) - strlen("resnet18_effects.gp")]."style.gp" ARG1

stats csv skip 1 using 2 nooutput name "ROW"
fixed_height = 80 * ROW_records
page_left = 0.3
eval page(1, 1, 0, "What a change does to the test accuracy", "points: mean of the seeds' differences; bars: 95 % intervals for all rows together")
set yrange [ROW_records - 0.4:-0.6]
set ytics scale 0
set grid noytics
set xlabel "difference in test accuracy"
set arrow from first 0, graph 0 to first 0, graph 1 nohead lt 7 lw 1.5 back
plot csv skip 1 using 2:0:3:ytic(1) with xerrorbars lt 1 lw 2 notitle
