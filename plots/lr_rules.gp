# lr_rules.gp: test accuracy over the size of the batch, a line for each rule for the learning rate, a panel for each
# network.
#
#   gnuplot -c plots/lr_rules.gp CSV PNG
#
# CSV has the columns network,optimizer,rule,times,batch,seeds,diverged,mean,low,high,updates,lr,lr_sum.

csv = ARG1
set datafile separator comma
set datafile missing NaN

networks = ''
stats csv skip 1 using (networks = strstrt(networks, '"'.strcol(1).'"') ? networks : networks.'"'.strcol(1).'" ', 0) nooutput
rules = ''
stats csv skip 1 using (rules = strstrt(rules, '"'.strcol(3).'"') ? rules : rules.'"'.strcol(3).'" ', 0) nooutput
optimizer = ''
stats csv skip 1 using (optimizer = strcol(2), 0) nooutput
stats csv skip 1 using 6 nooutput name "SEEDS"
stats csv skip 1 using 7 nooutput name "DIVERGED"

# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,960 font "DejaVu Sans,20" linewidth 2
set output ARG2

array colors[4] = [0x333333, 0xd6604d, 0x2166ac, 0x1b7837]
array marks[4] = [5, 9, 7, 11]

set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set logscale x 2
set xrange [0.8:20]
set yrange [0:0.8]
set xtics ("1" 1, "4" 4, "16" 16)
set xlabel "times the base batch"
set ylabel "test accuracy"
set key bottom left reverse Left spacing 1.3 samplen 2 noenhanced title "rule for the learning rate"
set multiplot layout 1,2 margins 0.075,0.985,0.19,0.83 spacing 0.08
set label 1 sprintf("Larger batches, the same number of epochs, %s", optimizer) at screen 0.5,0.955 center font ",24"
set label 2 sprintf("points: mean, bars: lowest to highest of %.0f seeds%s", SEEDS_max, \
    DIVERGED_max > 0 ? "; what diverged counts as guessing, 0.1" : "") at screen 0.5,0.04 center font ",17"
do for [p=1:words(networks)] {
    network = word(networks, p)
    base = 0
    stats csv skip 1 using (strcol(1) eq network && $4 == 1 ? (base = $5) : 0) nooutput
    set title sprintf("%s, base batch %d", network, base) noenhanced
    # Rules beside each other, so that their bars do not lie on each other.
    plot for [r=1:words(rules)] csv skip 1 \
        using (strcol(1) eq network && strcol(3) eq word(rules, r) ? $4 * 2**(0.07 * (r - 2.5)) : NaN):8:9:10 \
        with yerrorlines lw 2 lc rgb colors[r] pt marks[r] ps 1.3 title word(rules, r)
    unset key
    unset label 1
    unset label 2
    unset ylabel
}
unset multiplot
