# exercise_hangs.gp: the collectives of three ranks, one after the other, in four functions as they were found and as
# they were mended. A column is one collective: all its boxes should be alike.
#
#   gnuplot -c plots/exercise_hangs.gp CSV PNG
#
# CSV has the columns function,version,rank,number,collective,why,ended.

csv = ARG1
# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,1300 font "DejaVu Sans,18" linewidth 2 noenhanced
set output ARG2
set datafile separator comma

functions = "report train_until exchange train_epoch"
color(what) = what eq "all_reduce" ? 0x92c5de : what eq "broadcast" ? 0xfdbf6f : 0xcccccc
is_shown(f, v) = strcol(1) eq f && strcol(2) eq v
# There is not much room: without "the", and the barrier after the function by that name.
text(why) = why eq "after the function" ? "barrier" : why[1:4] eq "the " ? why[5:] : why

unset key
unset border
set tics scale 0
unset xtics
set ytics ("rank 0" 0, "rank 1" 1, "rank 2" 2)
set style fill solid 1 noborder
half = 0.46

set multiplot title "Collectives of 3 ranks, in their order. A column is one of them, and all of its boxes should be alike." \
    font ",23"
set label 1 "blue: all_reduce; orange: broadcast; grey: barrier; red frame: begun and never ended" at screen 0.5,0.94 center
left = 0.06
do for [i=1:4] { do for [v=0:1] {
    f = word(functions, i)
    version = v ? "yours" : "as found"
    set xrange [*:*]
    set yrange [*:*]
    stats csv skip 1 using (strcol(1) eq f ? $4 : NaN) nooutput name "NUMBER"
    set lmargin at screen left + 0.49 * v
    set rmargin at screen left + 0.49 * v + 0.43
    set tmargin at screen 0.865 - 0.225 * (i - 1)
    set bmargin at screen 0.685 - 0.225 * (i - 1)
    set xrange [-0.6:(NUMBER_max > 4 ? NUMBER_max : 4) + 0.6]
    set yrange [2.6:-0.6]
    set title f."(), ".version offset 0,-0.6
    small = NUMBER_max > 5 ? 11 : 15
    plot csv skip 1 using (is_shown(f, version) ? $4 : NaN):3:(half):(0.38):(color(strcol(5))) \
             with boxxyerror lc rgb variable, \
         csv skip 1 using (is_shown(f, version) && $7 == 0 ? $4 : NaN):3:(half):(0.38) \
             with boxxyerror lc rgb "#d73027" lw 3 fs empty border, \
         csv skip 1 using (is_shown(f, version) ? $4 : NaN):3:(text(strcol(6))) with labels font ",".small
    unset label 1
} }
unset multiplot
