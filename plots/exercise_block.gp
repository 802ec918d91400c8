# exercise_block.gp: how long a transformer block takes on t devices, relative to one, with few and many tokens, narrow and
# wide; a column of panels for each machine.
#
#   gnuplot -c plots/exercise_block.gp CSV PNG
#
# CSV has the columns machine,tokens,width,sequence,devices,seconds,sent,kept; the first row of a block of rows is t = 1.
call ARG0[:strlen(ARG0) - strlen("exercise_block.gp")]."style.gp" ARG1

machines = ''
stats csv skip 1 using (machines = with_new(machines, strcol(1)), $3) nooutput
widths = "1024 2048 4096"
of(column) = strcol(1) eq machine && strcol(4) eq way && strcol(3) eq word(widths, w) && int($2) == tokens ? column : NaN
one = NaN
relative(seconds) = (one = $5 == 1 ? $6 : one, seconds / one)

set logscale xy 2
set xrange [0.9:18]
set xtics (1, 2, 4, 8, 16)
set yrange [*:*]
eval page(2, words(machines), 3, "A transformer block on t devices", \
    "modelled time, 1 = one device; above: every device has all tokens between the layers, below: sequence parallelism")
do for [way in "no yes"] { do for [machine in machines] {
    set title machine noenhanced
    set xlabel (way eq "yes" ? "t" : "")
    plot for [w=1:3] for [n=0:2] tokens = 128 * 4**n csv skip 1 using (of($5)):(relative($6)) \
        with linespoints lt w dt n + 1 title sprintf("width %s, %d tokens", word(widths, w), tokens)
    unset key
} }
