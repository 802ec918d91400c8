# training_curves.gp: training loss and test accuracy against the epoch, one curve per number of devices.
#
#   gnuplot -c plots/training_curves.gp CSV OUTPUT
#
# CSV has the columns devices,epoch,train_loss,test_acc,seconds. OUTPUT is the name of a PNG, or "window",
# or "dumb COLUMNS ROWS" for a drawing in letters.

csv = ARG1
output_to = ARG2
is_text = (output_to[1:5] eq "dumb " && strstrt(output_to, "/") == 0) # a PNG has a folder, maybe of that name
is_window = (output_to eq "window")

if (is_text) {
    eval sprintf("set terminal %s", output_to)
} else { if (!is_window) {
    # Drawn at twice the size that it is read at, for print.
    set terminal pngcairo size 1800,800 font "DejaVu Sans,20" linewidth 2
    set output output_to
} }

set datafile separator comma
set datafile missing NaN

# The numbers of devices in the file, in the order in which they appear: " 1  2 "
devices = ''
stats csv skip 1 using (k = sprintf(' %d ', int($1)), devices = strstrt(devices, k) ? devices : devices.k, $1) nooutput

# Curves lie on top of each other if all is well. So the first is drawn broad and pale, and each later one
# thinner and darker on top of it.
array widths[4] = [7, 2.5, 1.5, 1]
array colors[4] = [0xf4a582, 0x2166ac, 0x1b7837, 0x762a83]
array marks[4] = [7, 7, 5, 9]
nth(i) = i > 4 ? 4 : i
name(k) = (k eq "1") ? "1 device" : k." devices"

set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set xlabel "epoch"
stats csv skip 1 using 2 nooutput name "EPOCH"
if (EPOCH_max <= 20) { set xtics 1 } # there are no parts of epochs
set xrange [0:EPOCH_max * 1.03]
set yrange [0:*]

# Curves end on a plateau, high or low: nowhere among them is a place for their names.
if (is_text) {
    set key outside top center horizontal
    set ylabel "test accuracy"
    set yrange [0:1]
    plot for [i=1:words(devices)] csv skip 1 using 2:(int($1) == int(word(devices, i)) ? $4 : NaN) \
        with linespoints title name(word(devices, i))
} else {
    rows = (words(devices) + 3) / 4 # of names, below both panels
    set multiplot layout 1,2 title "Training on Fashion-MNIST" font ",24" \
        margins 0.06,0.985,0.17 + 0.06 * rows,0.84 spacing 0.08
    do for [panel=1:2] {
        set title (panel == 1 ? "training loss" : "test accuracy")
        set format y "%.1f"
        if (panel == 1) {
            set key at screen 0.52,screen 0.04 + 0.06 * rows center top horizontal maxrows rows samplen 2
        } else {
            unset key
            set yrange [0:1]
        }
        plot for [i=1:words(devices)] csv skip 1 \
            using 2:(int($1) == int(word(devices, i)) ? column(panel + 2) : NaN) \
            with linespoints lw widths[nth(i)] lc rgb colors[nth(i)] pt marks[nth(i)] ps 1.4 \
            title name(word(devices, i))
    }
    unset multiplot
}
