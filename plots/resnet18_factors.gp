# resnet18_factors.gp: test accuracies of a small ResNet-18, trained in several ways, each from several seeds.
#
#   gnuplot -c plots/resnet18_factors.gp CSV PNG
#
# CSV has the columns way,devices,batch_size,lr,seed,test_acc,test_acc_averaged.
call ARG0[:strlen(ARG0) - strlen("resnet18_factors.gp")]."style.gp" ARG1

ways = ''
stats csv skip 1 using (ways = with_new(ways, strcol(1)), $6) nooutput name "ACC"
number(way) = int(sum [w=1:words(ways)] (word(ways, w) eq way ? w : 0))
what(way, k) = way eq "d2l's second run" ? ", leftovers" : k == 1 ? "" : strstrt(way, "sync") ? ", sync" : ", rank0"
array least[words(ways)]; array most[words(ways)]; array middle[words(ways)]; array about[words(ways)]
seeds = 0
do for [w=1:words(ways)] {
    stats csv skip 1 using (strcol(1) eq word(ways, w) ? $6 : NaN) nooutput name "WAY"
    stats csv skip 1 using (strcol(1) eq word(ways, w) ? (k = $2, b = $3, r = $4, $6) : NaN) nooutput
    least[w] = WAY_min; most[w] = WAY_max; middle[w] = WAY_mean; seeds = WAY_records
    about[w] = sprintf("%s\n{/*0.8 %d device%s, batch %d, lr %g%s}", plain(word(ways, w)), k, k > 1 ? "s" : "", b, r, \
        what(word(ways, w), k))
}

fixed_height = 90 * words(ways)
page_left = 0.3
eval page(1, 1, 2, "Test accuracy of a small ResNet-18", sprintf("%d ways to train, %d seeds each", words(ways), seeds))
set yrange [words(ways) + 0.6:0.4]
set for [w=1:words(ways)] ytics (about[w] w)
set ytics scale 0
set xlabel "test accuracy"
room = 0.05 * (ACC_max - ACC_min)
set xrange [ACC_min - room:ACC_max + room]
plot for [w=1:words(ways)] "+" every ::0::0 using (least[w]):(w):(most[w] - least[w]):(0) with vectors nohead lt 8 lw 1.5 \
        title (w == 1 ? "from the lowest to the highest" : ""), \
    csv skip 1 using 6:(number(strcol(1))) with points lt 6 pt 7 ps 1.3 title "one training", \
    for [w=1:words(ways)] "+" every ::0::0 using (middle[w]):(w) with points lt 2 pt 13 ps 2.6 \
        title (w == 1 ? "mean" : "")
