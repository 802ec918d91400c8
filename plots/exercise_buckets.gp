# exercise_buckets.gp: how long backward takes with the exchange of gradients under it, against the size of the
# buckets: predicted and modelled.
#
#   gnuplot -c plots/exercise_buckets.gp CSV PNG
#
# CSV has the columns machine,devices,network,cap_bytes,buckets,predicted_ms,modelled_ms,modelled_one_host_ms,
# backward_ms,exchange_ms; a block of rows for each network. A cap of 1 byte is a bucket for each gradient, one of
# inf bytes a bucket of everything, and one of 0 the buckets that were chosen.
call ARG0[:strlen(ARG0) - strlen("exercise_buckets.gp")]."style.gp" ARG1

networks = ''
stats csv skip 1 using (machine = strcol(1), networks = with_new(networks, strcol(3)), $2) nooutput
devices = int(STATS_max)

set yrange [0:*]
set logscale x 2
set xlabel "cap of a bucket"

# The first of the rows (a bucket for each gradient) and the last (one of everything) stand beside the others.
x(network) = strcol(3) ne network || $4 == 0 ? NaN : strcol(4) eq "inf" ? 2 * last : $4 == 1 ? first / 2.0 : $4
size(b) = b < 1048576 ? sprintf("%d K", b / 1024) : sprintf("%d M", b / 1048576)

eval page(1, 2, 3, "Backward with the exchange under it, by the size of buckets", \
    sprintf("modelled, not measured: %d devices of %s", devices, plain(machine)))
set ylabel "milliseconds"
do for [network in networks] {
    set xrange [*:*]
    stats csv skip 1 using (strcol(3) eq network && $4 > 1 && strcol(4) ne "inf" ? $4 : NaN) nooutput name "CAP"
    first = CAP_min
    last = CAP_max
    stats csv skip 1 using (strcol(3) eq network ? $9 : NaN) nooutput name "BACKWARD"
    stats csv skip 1 using (strcol(3) eq network && $4 == 0 ? $6 : NaN) nooutput name "YOURS"
    stats csv skip 1 using (strcol(3) eq network ? $10 : NaN) nooutput name "EXCHANGE"
    set xrange [first / 3:last * 3]
    set xtics ("each" first / 2, "all" last * 2)
    do for [b=1:19:3] { if (first * 2**b < last) { set xtics add (size(first * 2**b) first * 2**b) } }
    set title network
    plot BACKWARD_max with lines lt 8 dt 3 title "backward alone", \
         BACKWARD_max + EXCHANGE_max with lines lt 8 dt 2 title "backward, then the exchange", \
         YOURS_max with lines lt 3 title "your buckets, predicted", \
         csv skip 1 using (x(network)):6 with lines lt 1 title "predicted", \
         csv skip 1 using (x(network)):7 with points lt 1 title "DDP, a host for each rank", \
         csv skip 1 using (x(network)):8 with points lt 2 pt 8 ps 1.9 title "DDP, one host for all"
    unset key
    unset ylabel
}
