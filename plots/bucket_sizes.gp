# bucket_sizes.gp: modelled time of a step of DDP against the size of its buckets, a panel for each network.
#
#   gnuplot -c plots/bucket_sizes.gp CSV PNG
#
# CSV has the columns network,machine,devices,rows,bucket_bytes,buckets,seconds,without,best,exchange: `without` is the
# time of a step without any exchange. One bucket of everything has the bucket_bytes nan.
call ARG0[:strlen(ARG0) - strlen("bucket_sizes.gp")]."style.gp" ARG1

many(unused) = strcol(2).", ".strcol(3)." devices" # not each network has a curve for all of them
networks = ''; machines = ''; curves = ''
stats csv skip 1 using (networks = with_new(networks, strcol(1)), machines = with_new(machines, many(0)), \
    curves = with_new(curves, strcol(1)."/".many(0)), rows = strcol(4), 0) nooutput

one = 2**28 # where "one bucket" stands on the axis
size(column) = valid(column) ? column(column) : one
x(network, m) = strcol(1) eq network && many(0) eq word(machines, m) ? size(5) : NaN

set logscale x 2
set xrange [2**11.5:2**28.6]
set xtics ("4 KiB" 2**12, "64" 2**16, "1 MiB" 2**20, "25" 25*2**20, "one" one)
set xlabel "size of a bucket"
set ylabel "step / step without exchange"
set yrange [1:*]
eval page(1, 2, 1, "Modelled, not measured: a step of DDP, ".rows." rows on each device", \
    "large: the best size; at 1 the exchange would be completely hidden under backward")
do for [network in networks] {
    set title network noenhanced
    drawn = ''
    do for [m=1:words(machines)] {
        if (strstrt(curves, '"'.network."/".word(machines, m).'"')) { drawn = drawn." ".m }
    }
    plot for [m in drawn] csv skip 1 using (x(network, m + 0)):($7 / $8) with linespoints lt (m + 0) notitle, \
        for [m in drawn] csv skip 1 using ($9 == 1 ? x(network, m + 0) : NaN):($7 / $8) with points lt (m + 0) ps 3.4 notitle, \
        for [m=1:words(machines)] keyentry with linespoints lt m title plain(word(machines, m))
    unset key
    unset ylabel
}
