# exercise_optimizers.gp: test accuracy with a larger batch, by the rule for the learning rate, for gradient descent and
# for Adam; beside it what the linear rule has more than the square root, seed by seed. A row for each network and batch.
#
#   gnuplot -c plots/exercise_optimizers.gp CSV PNG
#
# CSV has the columns network,optimizer,rule,times,batch,diverged,mean,low,high,lr,lr_sum; rule is one of the four, "base"
# (the base batch) or "pair N" (seed N; mean is the difference then).

csv = ARG1
set datafile separator comma
networks = ''
stats csv skip 1 using (networks = strstrt(networks, '"'.strcol(1).'"') ? networks : networks.'"'.strcol(1).'" ', 0) nooutput
stats csv skip 1 using 4 nooutput name "TIMES"
batches = TIMES_max > 4 ? 2 : 1
rows = batches * words(networks)

# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,140 + 680 * rows font "DejaVu Sans,20" linewidth 2
set output ARG2

array optimizers[2] = ["gradient descent", "Adam"]
array colors[2] = ["#2166ac", "#d73027"]
array marks[2] = [7, 9]
array shift[2] = [-0.1, 0.1]
array rules[4] = ["none", "square root", "linear", "linear with warm-up"]
place(rule) = rule eq rules[1] ? 1 : rule eq rules[2] ? 2 : rule eq rules[3] ? 3 : rule eq rules[4] ? 4 : NaN
seed(rule) = substr(rule, 1, 5) eq "pair " ? int(substr(rule, 6, 7)) : NaN
of(network, o, times, c) = strcol(1) eq network && strcol(2) eq optimizers[o] && $4 == times ? column(c) : NaN
rule_of(c) = place(strcol(3)) > 0 ? c : NaN
pair_of(c) = seed(strcol(3)) > 0 ? c : NaN

set border 3
set tics nomirror
set multiplot layout rows,2 title "Larger batches: which rule for the learning rate, with which optimizer?" font ",24"
do for [n=1:words(networks)] {
    network = word(networks, n)
    do for [b=1:batches] {
        times = b == 1 ? 4 : 16
        array base[2]
        do for [o=1:2] {
            unset xrange
            set yrange [*:*]
            stats csv skip 1 using (of(network, o, 1, 7)) nooutput name "BASE"
            base[o] = BASE_mean
        }
        set title sprintf("%s, batch x%d: six seeds, mean and range", network, times)
        set grid y lc rgb "#dddddd" lw 0.5
        set xrange [0.5:4.5]
        set xtics ("none" 1, "square root" 2, "linear" 3, "with warm-up" 4)
        set yrange [0:0.85]
        set xlabel "rule for the learning rate"
        set ylabel "test accuracy"
        if (n == 1 && b == 1) { set key right bottom reverse Left spacing 1.3 samplen 2 } else { unset key }
        plot for [o=1:2] csv skip 1 using (place(strcol(3)) + shift[o]):(rule_of(of(network, o, times, 7))):(rule_of(of(network, o, times, 8))):(rule_of(of(network, o, times, 9))) \
                with yerrorbars lw 2 pt marks[o] ps 1.8 lc rgb colors[o] title optimizers[o], \
             for [o=1:2] base[o] with lines lw 1.5 dt 2 lc rgb colors[o] title (o == 1 ? "dashed: the base batch" : "")
        set title "linear minus square root, seed by seed"
        set xrange [0.5:6.5]
        set xtics 1
        set yrange [*:*]
        set xlabel "seed"
        set ylabel "above 0: linear is better"
        unset key
        plot 0 with lines lw 1.5 lc rgb "#888888", \
             for [o=1:2] csv skip 1 using (seed(strcol(3)) + shift[o]):(pair_of(of(network, o, times, 7))) \
                with impulses lw 3 lc rgb colors[o], \
             for [o=1:2] csv skip 1 using (seed(strcol(3)) + shift[o]):(pair_of(of(network, o, times, 7))) \
                with points pt marks[o] ps 1.8 lc rgb colors[o]
    }
}
unset multiplot
