# exercise_accumulation.gp: a text with short and long sentences, trained with the mean over all tokens and with a mean
# of means: the losses of both.
#
#   gnuplot -c plots/exercise_accumulation.gp CSV PNG
#
# CSV has the columns short_tokens,all,all_means,short,short_means,long,long_means.
call ARG0[:strlen(ARG0) - strlen("exercise_accumulation.gp")]."style.gp" ARG1

eval page(1, 2, 3, "A minibatch of sentences in parts", "the loss of a token after 100 steps, by your steps and by a mean of means")
set logscale x 2
set xrange [1.7:38]
set yrange [0:*]
set xtics (2, 4, 8, 16, 32)
set xlabel "tokens of a short sentence (long: 64 less these)"
set ylabel "loss of a token"
set title "all tokens"
eval names(1)
plot csv skip 1 using 1:2 with linespoints lt 8 title "all, yours", \
     csv skip 1 using 1:3 with linespoints lt 8 dt 2 title "all, means"
unset ylabel
set title "short and long sentences"
eval names(2)
plot csv skip 1 using 1:4 with linespoints lt 1 title "short, yours", \
     csv skip 1 using 1:5 with linespoints lt 1 dt 2 title "short, means", \
     csv skip 1 using 1:6 with linespoints lt 2 title "long, yours", \
     csv skip 1 using 1:7 with linespoints lt 2 dt 2 title "long, means"
