# lr_rules.gp: test accuracy over the size of the batch, a line for each rule for the learning rate, a panel for each
# network.
#
#   gnuplot -c plots/lr_rules.gp CSV PNG
#
# CSV has the columns network,optimizer,rule,times,batch,seeds,diverged,mean,low,high,updates,lr,lr_sum.
call ARG0[:strlen(ARG0) - strlen("lr_rules.gp")]."style.gp" ARG1

networks = ''; rules = ''
stats csv skip 1 using (networks = with_new(networks, strcol(1)), optimizer = strcol(2), \
    rules = with_new(rules, strcol(3)), 0) nooutput
stats csv skip 1 using 6 nooutput name "SEEDS"
stats csv skip 1 using 7 nooutput name "DIVERGED"

set logscale x 2
set xrange [0.8:20]
set yrange [0:0.8]
set xtics (1, 4, 16)
set xlabel "times the base batch"
eval page(1, 2, 2, "Rules for the learning rate of larger batches: as many epochs, ".optimizer, \
    sprintf("points: mean; bars: lowest to highest of %.0f seeds%s", SEEDS_max, \
        DIVERGED_max > 0 ? "; what diverged counts as guessing, 0.1" : ""))
set ylabel "test accuracy"
do for [network in networks] {
    base = 0
    stats csv skip 1 using (strcol(1) eq network && $4 == 1 ? (base = $5) : 0) nooutput
    set title sprintf("%s, base batch %d", network, base) noenhanced
    # Rules beside each other, so that their bars do not lie on each other.
    plot for [r=1:words(rules)] csv skip 1 \
        using (strcol(1) eq network && strcol(3) eq word(rules, r) ? $4 * 2**(0.07 * (r - 2.5)) : NaN):8:9:10 \
        with yerrorlines lt r title word(rules, r)
    unset key
    unset ylabel
}
