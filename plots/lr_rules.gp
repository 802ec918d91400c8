# lr_rules.gp: test accuracy over the size of the minibatch, a line for each rule for the learning rate.
#
#   gnuplot -c plots/lr_rules.gp CSV PNG
#
# CSV has the columns batch,rule,accuracy,lowest,highest,seeds.
call ARG0[:strlen(ARG0) - strlen("lr_rules.gp")]."style.gp" ARG1

rules = ''
stats csv skip 1 using (rules = with_new(rules, strcol(2)), 0) nooutput
stats csv skip 1 using 6 nooutput name "SEEDS"

set logscale x 2
set xrange [50:1300]
set yrange [0:0.95]
set xtics (64, 256, 1024)
set xlabel "images in a minibatch"
set ylabel "test accuracy"
set key left bottom
eval page(1, 1, 2, "LeNet, the same number of epochs, four rules for the learning rate", \
    sprintf("points: mean; bars: lowest to highest of %.0f seeds", SEEDS_max))
# Rules beside each other, so that their bars do not cover each other.
plot for [r=1:words(rules)] csv skip 1 \
    using (strcol(2) eq word(rules, r) ? $1 * 2**(0.07 * (r - 2.5)) : NaN):3:4:5 \
    with yerrorlines lt r title word(rules, r)
