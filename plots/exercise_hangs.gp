# exercise_hangs.gp: the collectives of three ranks, one after the other, in four functions as they were found and as
# they were mended. A column is one collective: all its boxes should be alike.
#
#   gnuplot -c plots/exercise_hangs.gp CSV PNG
#
# CSV has the columns function,version,rank,number,collective,why,ended.
call ARG0[:strlen(ARG0) - strlen("exercise_hangs.gp")]."style.gp" ARG1

functions = "report train_until exchange train_epoch"
array colors[3] = [0x9fd3f0, 0xf4c68a, 0xcccccc]
names = "all_reduce broadcast barrier"
color(what) = what eq "all_reduce" ? colors[1] : what eq "broadcast" ? colors[2] : colors[3]
is_shown(f, v) = strcol(1) eq f && strcol(2) eq v
# There is not much room: without "the", and the barrier after the function by that name.
text(why) = why eq "after the function" ? "barrier" : why[1:4] eq "the " ? why[5:] : why

unset border
unset grid
set tics scale 0
unset xtics
set datafile missing # a row may have no frames, of which gnuplot would warn
set ytics ("rank 0" 0, "rank 1" 1, "rank 2" 2)
fixed_height = 130
below_row = 70
eval page(8, 1, 2, "Collectives of 3 ranks, in their order", "a column is one of them: all its boxes should be alike")
do for [f in functions] { do for [version in '"as found" yours'] {
    set xrange [*:*]
    set yrange [*:*]
    stats csv skip 1 using (strcol(1) eq f ? $4 : NaN) nooutput name "NUMBER"
    set xrange [-0.6:(NUMBER_max > 5 ? NUMBER_max : 5) + 0.6]
    set yrange [2.6:-0.6]
    set title f."(), ".version noenhanced offset 0,-0.8
    plot csv skip 1 using (is_shown(f, version) ? $4 : NaN):3:(0.46):(0.38):(color(strcol(5))) \
             with boxxyerror lc rgb variable notitle, \
         csv skip 1 using (is_shown(f, version) && $7 == 0 ? $4 : NaN):3:(0.46):(0.38) \
             with boxxyerror lt 2 lw 3 fs empty border title "begun and never ended", \
         csv skip 1 using (is_shown(f, version) ? $4 : NaN):3:(text(strcol(6))) with labels noenhanced font ",16" notitle, \
         for [i=1:3] NaN with boxes lc rgb colors[i] title plain(word(names, i))
    unset key
} }
