# exercise_four_mistakes.gp: trainings on 2-D meshes beside one that is not divided: losses, norms, Adam's averages, bytes.
#
#   gnuplot -c plots/exercise_four_mistakes.gp CSV PNG
#
# CSV has the columns devices,step,loss,norm,length,apart,inside,across: 12 steps of each training, the undivided one first.
call ARG0[:strlen(ARG0) - strlen("exercise_four_mistakes.gp")]."style.gp" ARG1

array of[3 * 12] # of the undivided training: losses, norms, lengths
do for [i=0:2] { stats csv skip 1 every ::0::11 using (of[12 * i + int($2)] = column(3 + i)) nooutput }
mesh(r) = word("'1 x 2' '2 x 1' '2 x 2' '2 x 4' '4 x 2'", r)
eval page(2, 2, 3, "A network on dp x tp devices, beside undivided training", "")
set xrange [0.8:12.2]
set title "difference of losses"
set yrange [*<-0.001:0.001<*] # (Rounding is not magnified.)
plot for [r=1:5] csv skip 1 every ::12*r::12*r+11 using 2:($3 - of[int($2)]) with linespoints lt r title mesh(r)
unset key
set title "norm of the gradient / undivided"
set yrange [*<0.98:1.02<*]
plot for [r=1:5] csv skip 1 every ::12*r::12*r+11 using 2:($4 / of[12 + int($2)]) with linespoints lt r
set xlabel "step"
set title "length of Adam's averages / undivided"
set yrange [0:1.1<*]
plot for [r=1:5] csv skip 1 every ::12*r::12*r+11 using 2:($5 / of[24 + int($2)]) with linespoints lt r
eval names(2)
set title "bytes of a step"
set xlabel "devices"
set yrange [0:*]
set xrange [0.4:5.6]
set xtics ("1 x 2" 1, "2 x 1" 2, "2 x 2" 3, "2 x 4" 4, "4 x 2" 5)
set ylabel "MB"
set boxwidth 0.35
plot csv skip 1 every 12::12 using ($0 + 0.8):($7 / 1e6) with boxes lt 6 title "inside hosts", \
    csv skip 1 every 12::12 using ($0 + 1.2):($8 / 1e6) with boxes lt 5 title "across hosts"
