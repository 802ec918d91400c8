# splitting_model.gp: seconds per step against the number of devices, as a model predicts them; one panel
# for each network and link.
#
#   gnuplot -c plots/splitting_model.gp CSV OUTPUT
#
# CSV has the columns network,link,strategy,devices,seconds. OUTPUT is the name of a PNG.

csv = ARG1
# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 2400,1500 font "DejaVu Sans,20" linewidth 2
set output ARG2
set datafile separator comma

array networks[2] = ["AlexNet", "ResNet-18"]
array links[3] = ["", "", ""]
n = 0
# The links in the order in which they appear.
stats csv skip 1 using (known = 0, link = strcol(2), \
    sum [i=1:3] (links[i] eq link ? (known = 1, 0) : 0), \
    (known == 0 && n < 3) ? (n = n + 1, links[n] = link) : 0, $4) nooutput

array names[4] = ["across layers", "within layers", "across data", "across data (ring)"]
array titles[4] = ["across layers, as long as there are layers", "within layers", \
    "across data, summed on device 0", "across data, summed in a ring (chapter 2)"]
array colors[4] = [0xe69f00, 0x009e73, 0x92c5de, 0x0571b0]
array marks[4] = [5, 9, 6, 7]

set logscale xy
set border 3
set tics nomirror
unset mytics
set grid xtics ytics lc rgb "#dddddd" lw 0.7
set xrange [0.9:1200]
set format y "10^{%L}"
unset key
one_device = NaN

# A row of panels for each network, a column for each link. All sizes are shares of the picture.
left(b) = 0.062 + (b - 1) * 0.315
top(a) = 0.87 - (a - 1) * 0.385
width = 0.285; height = 0.275

set multiplot title "A model, not measured: time of one step of 1024 images on k devices\n\
{/*0.72 a device does 10^{13} operations per second; a message of b bytes takes α + b/β seconds, for the β and α of a panel; nothing overlaps}" font ",28"
do for [a=1:2] {
    # One range for the three links of a network, so that they can be compared.
    stats csv skip 1 using (strcol(1) eq networks[a] ? $5 : NaN) nooutput
    set yrange [STATS_min / 2 : STATS_max * 2]
    stats csv skip 1 using (strcol(1) eq networks[a] && int($4) == 1 ? $5 : NaN) nooutput
    one_device = STATS_max
    do for [b=1:3] {
        set title networks[a].", ".links[b] font ",21"
        set lmargin at screen left(b); set rmargin at screen left(b) + width
        set tmargin at screen top(a); set bmargin at screen top(a) - height
        set xtics (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024) font ",15"
        set ytics 1e-5, 10, 1e5
        set xlabel (a == 2 ? "devices" : "")
        set ylabel (b == 1 ? "seconds per step" : "")
        plot for [i=1:4] csv skip 1 using 4:(strcol(1) eq networks[a] && strcol(2) eq links[b] && strcol(3) eq names[i] ? $5 : NaN) \
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
plot for [i=1:4] NaN with linespoints lw 2.5 lc rgb colors[i] pt marks[i] ps 1.5 title titles[i], \
    NaN with lines dt 2 lw 1.5 lc rgb "#777777" title "time of one device / k"
unset multiplot
