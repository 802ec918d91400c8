# exercise_allreduce.gp: what each device has to receive (and send), and the modelled time on several machines, for
# ways to sum gradients.
#
#   gnuplot -c plots/exercise_allreduce.gp CSV PNG
#
# CSV has the columns machine,method,devices,modelled_gradients_ms,modelled_step_ms,modelled_large_ms,device0_bytes,
# device1_bytes,..; a block of rows for each machine, the star first.

csv = ARG1
# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,1000 font "DejaVu Sans,18" linewidth 2
set output ARG2
set datafile separator comma

machines = ''
stats csv skip 1 using (m = ' '.strcol(1).' ', machines = strstrt(machines, m) ? machines : machines.m, $3) nooutput
devices = int(STATS_max)
methods = STATS_records / words(machines)
array colors[8] = [0x0072b2, 0xe69f00, 0x009e73, 0xcc79a7, 0x56b4e9, 0xd55e00, 0x787878, 0xf0e442]
array shades[5] = [0xf4a582, 0xfddbc7, 0xd1e5f0, 0x67a9cf, 0x2166ac]

set grid y lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set style fill solid 0.9 noborder
set boxwidth 0.9 relative
set yrange [0:*]
set lmargin 11
set style data histograms
set style histogram clustered gap 1.5

set multiplot title sprintf("Summing the gradients of LeNet on %d devices", devices) font ",24"
set size 0.5,0.94
set origin 0,0
set bmargin 8
set xtics rotate by 22 right font ",16"
set title "bytes that each device receives, and sends"
set ylabel "MB"
set format y "%.1f"
set key right top spacing 1.2 samplen 1
shown = devices > 8 ? 8 : devices
plot for [d=0:shown-1] csv skip 1 every ::0::(methods-1) using (column(7 + d) / 1e6):xtic(2) \
    lc rgb colors[d + 1] title sprintf("device %d", d)

# Times differ by a factor of a thousand from machine to machine, so each as a part of the star's.
set style data boxes
set boxwidth 0.16 absolute
set size 0.5,0.47
set bmargin 3
set xtics norotate center font ",16" (word(machines, 1) 0)
do for [m=2:words(machines)] { set xtics add (word(machines, m) m - 1) }
set xrange [-0.6:words(machines) - 0.4]
set ylabel "time / time of the star"
array titles[2] = ["LeNet's gradients, 0.5 MB: modelled time", "a vector of 16 MB: modelled time"]
array columns[2] = [4, 6]
array names[5] = ["star", "parameter p on p mod k", "largest first", "k parts each", "chapter 2, sharded"]
do for [panel=1:2] {
    set origin 0.5, 0.47 * (2 - panel)
    set title titles[panel]
    if (panel == 1) { set key left top reverse Left samplen 1 maxrows 3 spacing 1.1 font ",15"; set offsets 0,0,graph 0.45,0 } \
    else { unset key; set offsets 0,0,graph 0.1,0 }
    star = NaN
    plot for [i=0:methods-1] csv skip 1 \
        using (int($0) % methods == i ? int($0) / methods + 0.17 * (i - (methods - 1) / 2.0) : NaN): \
              (int($0) % methods == 0 ? (star = column(columns[panel])) : 0, column(columns[panel]) / star) \
        lc rgb shades[i % 5 + 1] title names[i + 1]
}
unset multiplot
