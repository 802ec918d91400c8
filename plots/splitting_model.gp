# splitting_model.gp: modelled seconds per step against the number of devices; one panel for each
# network and machine.
#
#   gnuplot -c plots/splitting_model.gp CSV OUTPUT
#
# CSV has the columns network,machine,strategy,devices,modelled_seconds. OUTPUT is the name of a PNG.

csv = ARG1
# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 2400,1500 font "DejaVu Sans,20" linewidth 2
set output ARG2
set datafile separator comma

array networks[2] = ["AlexNet", "ResNet-18"]
array machines[3] = ["dgx-a100", "p100-25gbe", "laptops-1gbe"]
array about[3] = ["DGX A100: 8 a host, NVLink", "P100: 4 a host, 25 Gb/s network", "laptops, 1 Gb/s network"]

array names[3] = ["across layers", "within layers", "across data"]
array titles[3] = ["across layers, as long as there are layers", "within layers", \
    "across data, summed on device 0"]
array colors[3] = [0xe69f00, 0x009e73, 0x0571b0]
array marks[3] = [5, 9, 7]

set logscale xy
set border 3
set tics nomirror
unset mytics
set grid xtics ytics lc rgb "#dddddd" lw 0.7
set xrange [0.9:150]
set format y "10^{%L}"
unset key
one_device = NaN

# A row of panels for each network, a column for each link. All sizes are shares of the picture.
left(b) = 0.062 + (b - 1) * 0.315
top(a) = 0.87 - (a - 1) * 0.385
width = 0.285; height = 0.275

set multiplot title "Modelled, not measured: time of one step of 256 images on k devices of three machines\n\
{/*0.72 the chapter's own steps on devices that compute nothing; a point is missing where a device has too little memory}" font ",28"
do for [a=1:2] {
    # One range for the three machines of a network, so that they can be compared.
    stats csv skip 1 using (strcol(1) eq networks[a] ? $5 : NaN) nooutput
    set yrange [STATS_min / 2 : STATS_max * 2]
    do for [b=1:3] {
        one_device = NaN
        stats csv skip 1 using (strcol(1) eq networks[a] && strcol(2) eq machines[b] && strcol(3) eq "across data" && int($4) == 1 ? (one_device = $5, 1) : 1) nooutput
        set title networks[a].", ".about[b] font ",21"
        set lmargin at screen left(b); set rmargin at screen left(b) + width
        set tmargin at screen top(a); set bmargin at screen top(a) - height
        set xtics (1, 2, 4, 8, 16, 32, 64, 128) font ",15"
        set ytics 1e-5, 10, 1e5
        set xlabel (a == 2 ? "devices" : "")
        set ylabel (b == 1 ? "modelled seconds per step" : "")
        plot for [i=1:3] csv skip 1 using 4:(strcol(1) eq networks[a] && strcol(2) eq machines[b] && strcol(3) eq names[i] ? $5 : NaN) \
                with linespoints lw 2.5 lc rgb colors[i] pt marks[i] ps 1.5, \
            one_device / x with lines dt 2 lw 1.5 lc rgb "#777777"
    }
}

# The key, in a panel of its own without anything else.
unset title; unset xlabel; unset ylabel; unset border; unset tics; unset grid; unset logscale
set lmargin at screen 0.03; set rmargin at screen 0.99
set bmargin at screen 0.0; set tmargin at screen 0.12
set xrange [0:1]; set yrange [0:1]
set key at screen 0.5, 0.098 center top vertical maxrows 3 Left reverse samplen 2.5 spacing 1.5 font ",20" width 2
plot for [i=1:3] NaN with linespoints lw 2.5 lc rgb colors[i] pt marks[i] ps 1.5 title titles[i], \
    NaN with lines dt 2 lw 1.5 lc rgb "#777777" title "time of one device / k"
unset multiplot
