# splitting_model.gp: modelled seconds per step against the number of devices; one panel for each
# network and machine.
#
#   gnuplot -c plots/splitting_model.gp CSV OUTPUT
#
# CSV has the columns network,machine,strategy,devices,modelled_seconds. OUTPUT is the name of a PNG.
call ARG0[:strlen(ARG0) - strlen("splitting_model.gp")]."style.gp" ARG1

set datafile missing # a way that nobody's memory suffices for has no rows, and gnuplot would warn
networks = "AlexNet ResNet-18"
machines = "dgx-a100 p100-25gbe laptops-1gbe"
names = '"across data" "across layers" "within layers" "across data (ring)"'
titles = '"across data (star)" "across layers" "within layers" "across data (ring)"'

set logscale xy
set xrange [0.9:150]
set xtics (1, 2, 8, 32, 128)
set format y "10^{%L}"
eval page(2, 3, 2, "Modelled, not measured: one step of 256 images on k devices of three machines", \
    "a point is missing where a device has too little memory; across layers ends where the layers do")
do for [network in networks] { do for [machine in machines] {
    # One range for the three machines of a network, so that they can be compared.
    set yrange [*:*]
    stats csv skip 1 using (strcol(1) eq network ? $5 : NaN) nooutput
    set yrange [down(STATS_min):up(STATS_max)]
    one_device = NaN
    stats csv skip 1 using (strcol(1) eq network && strcol(2) eq machine && strcol(3) eq "across data" && \
        int($4) == 1 ? (one_device = $5, 1) : 1) nooutput
    set title network.", ".machine
    set xlabel (network eq "ResNet-18" ? "devices" : "")
    set ylabel (machine eq "dgx-a100" ? "seconds per step" : "")
    plot for [i=1:4] csv skip 1 using 4:(strcol(1) eq network && strcol(2) eq machine && strcol(3) eq word(names, i) ? $5 : NaN) \
            with linespoints lt i title word(titles, i), \
        one_device / x with lines lt 8 dt 2 title "time of one device / k"
    unset key
} }
