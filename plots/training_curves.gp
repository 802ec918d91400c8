# training_curves.gp: training loss and test accuracy against the epoch, one curve per number of devices.
#
#   gnuplot -c plots/training_curves.gp CSV OUTPUT
#
# CSV has the columns devices,epoch,train_loss,test_acc,seconds. OUTPUT is the name of a PNG, or
# "dumb COLUMNS ROWS" for a drawing in letters.
call ARG0[:strlen(ARG0) - strlen("training_curves.gp")]."style.gp" ARG1

is_text = (ARG2[1:5] eq "dumb " && strstrt(ARG2, "/") == 0) # a PNG has a folder, maybe of that name
network = strstrt(csv, "05_resnet18") ? "ResNet-18" : strstrt(csv, "04_lenet") ? "LeNet" : "Training"

# The numbers of devices in the file, in the order in which they appear.
devices = ''
stats csv skip 1 using (devices = with_new(devices, strcol(1)), $2) nooutput name "EPOCH"
name(k) = k eq "1" ? "1 device" : k." devices"

set xlabel "epoch"
# Whole epochs, if there are some. (A run of a few --steps ends within its first one.)
if (EPOCH_max >= 1 && EPOCH_max <= 20) { set xtics 1 }
room = EPOCH_max > EPOCH_min ? 0.03 * (EPOCH_max - EPOCH_min) : EPOCH_max / 2
set xrange [EPOCH_min - room:EPOCH_max + room]
if (is_text) {
    unset grid
    eval "set terminal ".ARG2
    set key outside top center horizontal
    set ylabel "test accuracy"
    set yrange [0:1]
    plot for [k in devices] csv skip 1 using 2:(strcol(1) eq k ? $4 : NaN) with linespoints title name(k)
    exit
}
# Has each run the losses and accuracies of the first, as far as it is?
same = words(devices) > 1; first = ''
do for [k in devices] {
    rows = ''
    stats csv skip 1 using (strcol(1) eq k ? (rows = rows.strcol(3).strcol(4)) : '', 0) nooutput
    first = first eq '' ? rows : first
    same = same && first[:strlen(rows)] eq rows
}
eval page(1, 2, (words(devices) + 3) / 4, network." on Fashion-MNIST", \
    same ? "each narrow curve lies on the wide one: the same losses and accuracies" : "")
do for [panel=3:4] {
    set title (panel == 3 ? "training loss" : "test accuracy")
    set yrange [*:*] # or stats would leave out what the panel before did not show
    stats csv skip 1 using panel nooutput name "Y"
    room = (Y_max > Y_min ? 0.04 * (Y_max - Y_min) : 0.1) + 1e-6 * Y_max # (a loss may be 1e30)
    set yrange [Y_min - room:Y_max + room]
    plot for [i=1:words(devices)] csv skip 1 using 2:(strcol(1) eq word(devices, i) ? column(panel) : NaN) \
        with linespoints lt (i == 1 ? 9 : (i - 2) % 7 + 1) title name(word(devices, i))
    unset key
}
