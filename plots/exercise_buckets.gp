# exercise_buckets.gp: how long backward takes with the exchange of gradients under it, against the size of the
# buckets: predicted and modelled.
#
#   gnuplot -c plots/exercise_buckets.gp CSV PNG
#
# CSV has the columns machine,devices,network,cap_bytes,buckets,predicted_ms,modelled_ms,modelled_one_host_ms,
# backward_ms,exchange_ms; a block of rows for each network. A cap of 1 byte is a bucket for each gradient, one of
# inf bytes a bucket of everything.

csv = ARG1
# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,860 font "DejaVu Sans,20" linewidth 2
set output ARG2
set datafile separator comma

machine = ''
networks = ''
stats csv skip 1 using (machine = strcol(1), \
    networks = strstrt(networks, strcol(3)) ? networks : networks.' '.strcol(3), $2) nooutput
devices = int(STATS_max)

set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set yrange [0:*]
set format y "%g"
set logscale x 2
set xlabel "cap of a bucket"
set xtics rotate by 35 right font ",17"
set bmargin 6

# The first of the rows (a bucket for each gradient) and the last (one of everything) stand beside the others.
x(network) = strcol(3) ne network ? NaN : strcol(4) eq "inf" ? 2 * last : $4 == 1 ? first / 2.0 : $4
size(b) = b < 1048576 ? sprintf("%d KiB", b / 1024) : sprintf("%d MiB", b / 1048576)

set multiplot layout 1,2 title sprintf("Backward with the exchange under it, by the size of buckets: %d devices of %s, modelled", \
    devices, machine) font ",24" noenhanced
do for [network in networks] {
    set xrange [*:*]
    stats csv skip 1 using (strcol(3) eq network && $4 > 1 && strcol(4) ne "inf" ? $4 : NaN) nooutput name "CAP"
    first = CAP_min
    last = CAP_max
    stats csv skip 1 using (strcol(3) eq network ? $9 : NaN) nooutput name "BACKWARD"
    stats csv skip 1 using (strcol(3) eq network ? $10 : NaN) nooutput name "EXCHANGE"
    set xrange [first / 3:last * 3]
    set xtics ("each" first / 2, "all" last * 2)
    do for [b=0:20:2] { if (first * 2**b <= last) { set xtics add (size(first * 2**b) first * 2**b) } }
    set title network
    if (network eq word(networks, 1)) { set ylabel "milliseconds"; unset key } \
    else { set ylabel ""; set key at graph 0.97, graph 0.6 right top spacing 1.4 samplen 2 }
    plot BACKWARD_max with lines lw 1.5 dt 3 lc rgb "#444444" title "backward alone", \
         BACKWARD_max + EXCHANGE_max with lines lw 1.5 dt (12,6) lc rgb "#777777" title "backward, then the exchange", \
         csv skip 1 using (x(network)):6 with lines lw 2 lc rgb "#2166ac" title "predicted", \
         csv skip 1 using (x(network)):7 with points pt 7 ps 1.5 lc rgb "#2166ac" title "DDP, a host for each rank", \
         csv skip 1 using (x(network)):8 with points pt 8 ps 1.9 lc rgb "#d73027" title "DDP, one host for all"
}
unset multiplot
