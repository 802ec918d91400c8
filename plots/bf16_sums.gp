# bf16_sums.gp: the error of a sum of gradients in bfloat16 against the number of devices, for three ways to add.
#
#   gnuplot -c plots/bf16_sums.gp CSV PNG
#
# CSV has the columns devices,ring,tree,float32: |sum - exact| / |exact|.
call ARG0[:strlen(ARG0) - strlen("bf16_sums.gp")]."style.gp" ARG1

ways = '"along a ring" "up a tree" "in float32, rounded once"'
set logscale x 2
set logscale y
set xlabel "devices"
set ylabel "error / length of the sum"
set xrange [2:*] # the "sum" of one device is exact
set xtics (2, 8, 32, 128, 512, 1024)
stats csv skip 1 using 2 nooutput
set yrange [0.001:up(STATS_max)]
set ytics ("0.1 %%" 0.001, "0.2 %%" 0.002, "0.5 %%" 0.005, "1 %%" 0.01, "2 %%" 0.02, "5 %%" 0.05, "10 %%" 0.1, "20 %%" 0.2, "50 %%" 0.5)
page_left = 0.12; page_right = 0.96
eval page(1, 1, 1, "The sum of gradients in bfloat16", "one image on each device")
plot for [w=1:3] csv skip 1 using 1:(column(w + 1)) with linespoints lt w title word(ways, w)
