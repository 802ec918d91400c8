# exercise_optimizers.gp: test accuracy with a larger batch, by the rule for the learning rate, for gradient descent and
# for Adam; beside it what the linear rule has more than the square root, seed by seed. A row for each network and batch.
#
#   gnuplot -c plots/exercise_optimizers.gp CSV PNG
#
# CSV has the columns network,optimizer,rule,times,batch,diverged,mean,low,high,lr,lr_sum; rule is one of the four, "base"
# (the base batch) or "pair N" (seed N; mean is the difference then).
call ARG0[:strlen(ARG0) - strlen("exercise_optimizers.gp")]."style.gp" ARG1

networks = ''
stats csv skip 1 using (networks = with_new(networks, strcol(1)), 0) nooutput
stats csv skip 1 using 4 nooutput name "TIMES"
batches = TIMES_max > 4 ? 2 : 1

array optimizers[2] = ["gradient descent", "Adam"]
rules = '"none" "square root" "linear" "linear with warm-up"'
place(rule) = (p = NaN, sum [i=1:4] (word(rules, i) eq rule ? (p = i) : 0), p)
seed(rule) = substr(rule, 1, 5) eq "pair " ? int(substr(rule, 6, 7)) : NaN
aside(o) = 0.2 * o - 0.3
of(network, o, times, c) = strcol(1) eq network && strcol(2) eq optimizers[o] && $4 == times ? column(c) : NaN
rule_of(c) = place(strcol(3)) > 0 ? c : NaN
pair_of(c) = seed(strcol(3)) > 0 ? c : NaN

eval page(batches * words(networks), 2, 2, "Larger batches: which rule for the learning rate, with which optimizer?", \
    "left: mean and range of all seeds, dashed: the base batch; right: seed by seed")
do for [network in networks] { do for [b=1:batches] {
    times = b == 1 ? 4 : 16
    array base[2]
    do for [o=1:2] {
        unset xrange
        set yrange [*:*]
        stats csv skip 1 using (of(network, o, 1, 7)) nooutput name "BASE"
        base[o] = BASE_mean
    }
    set title sprintf("%s, batch x%d", network, times)
    set xrange [0.5:4.5]
    set xtics ("none" 1, "square root" 2, "linear" 3, "warm-up" 4)
    set yrange [0:0.85]
    set xlabel "rule for the learning rate"
    set ylabel "test accuracy"
    plot for [o=1:2] csv skip 1 using (place(strcol(3)) + aside(o)): \
            (rule_of(of(network, o, times, 7))):(rule_of(of(network, o, times, 8))):(rule_of(of(network, o, times, 9))) with yerrorbars lt o title optimizers[o], \
         for [o=1:2] base[o] with lines lt o dt 2 title optimizers[o].", base batch"
    unset key
    set title "the linear rule's lead over the square root"
    set xrange [0.5:6.5]
    set xtics 1
    set yrange [*:*]
    set xlabel "seed"
    unset ylabel
    plot 0 with lines lt 8, \
         for [o=1:2] csv skip 1 using (seed(strcol(3)) + aside(o)):(pair_of(of(network, o, times, 7))) with impulses lt o lw 3, \
         for [o=1:2] csv skip 1 using (seed(strcol(3)) + aside(o)):(pair_of(of(network, o, times, 7))) with points lt o
} }
