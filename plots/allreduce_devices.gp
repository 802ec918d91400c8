# allreduce_devices.gp: modelled time of an allreduce against the number of devices, a panel for a short vector
# and one for a long one.
#
#   gnuplot -c plots/allreduce_devices.gp CSV PNG
#
# CSV has the columns time,machine,algorithm,devices,bytes,seconds,algbw,busbw,about. Drawn are the rows of the two
# sizes for which there are 1024 devices.
call ARG0[:strlen(ARG0) - strlen("allreduce_devices.gp")]."style.gp" ARG1

bytes = ''
stats csv skip 1 using (int($4) == 1024 ? \
    (bytes = with_new(bytes, strcol(5)), machine = strcol(2), about = strcol(9)) : 0, $4) nooutput
size_text(b) = b < 1e6 ? sprintf("%d KB", b / 1024) : sprintf("%d MB", b / 1e6)

names = "star sharded ring tree"
set logscale xy
set xrange [1.7:1200]
set xtics (2, 8, 32, 128, 512)
eval "set ytics ".times
set xlabel "devices"
eval page(1, 2, 1, "Modelled, not measured: one allreduce on k devices of ".plain(machine), \
    plain(about)."; further devices are in further hosts, reached by network")
do for [b in bytes] {
    set title "a vector of ".size_text(b + 0.0)
    set yrange [*:*] # or stats would leave out what the panel before did not show
    stats csv skip 1 using (strcol(5) eq b && strcol(2) eq machine ? $6 : NaN) nooutput name "TIME"
    set yrange [down(TIME_min):up(TIME_max)]
    plot for [a=1:4] csv skip 1 using 4:(strcol(5) eq b && strcol(2) eq machine && strcol(3) eq word(names, a) ? $6 : NaN) \
        with linespoints lt (a == 1 ? 9 : a) title word(names, a)
    unset key
}
