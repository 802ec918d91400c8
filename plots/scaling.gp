# scaling.gp: modelled efficiency of training on up to 512 ranks: three networks beside published figures, and three
# ways to exchange gradients.
#
#   gnuplot -c plots/scaling.gp CSV PNG
#
# CSV has the columns network,way,sent,speed,ranks,images_per_second,efficiency. Rows of the way "published" are
# measurements of others. The ways are compared for the network that has rows of "hierarchical".
call ARG0[:strlen(ARG0) - strlen("scaling.gp")]."style.gp" ARG1

networks = ''; compared = ''
stats csv skip 1 using (networks = with_new(networks, strcol(1)), \
    compared = strcol(2) eq "hierarchical" ? strcol(1) : compared, 0) nooutput
ways = "ring hierarchical servers"
array open_marks[3] = [6, 4, 8]
is(n, way, sent, speed) = strcol(1) eq n && strcol(2) eq way && strcol(3) eq sent && strcol(4) eq speed ? 100 * $7 : NaN

set logscale x 2
set xrange [0.9:700]
set xtics (1, 8, 64, 512)
set yrange [30:102]
set ytics 10
set xlabel "ranks, 4 on each machine"
eval page(1, 2, 5, "Modelled: training on up to 512 P100, cards of 25 Gb/s", \
    "efficiency: images per second on k ranks, over k times those of one; both axes begin at 30 %")
set ylabel "efficiency, %"
set title "ring, messages of 64 MiB"
eval names(1)
plot for [n=1:words(networks)] csv skip 1 using 5:(is(word(networks, n), "ring", "64 MiB", "modelled")) \
        with linespoints lt n ps 1 title word(networks, n), \
    for [n=1:words(networks)] csv skip 1 using 5:(is(word(networks, n), "ring", "64 MiB", "measured")) \
        with lines lt n dt 2 notitle, \
    for [n=1:words(networks)] csv skip 1 \
        using 5:(strcol(1) eq word(networks, n) && strcol(2) eq "published" && $5 > 1 ? 100 * $7 : NaN) \
        with points lt n pt open_marks[n] ps 3 notitle, \
    NaN with lines lt 8 dt 2 title "with one GPU as fast as measured", \
    NaN with points lt 8 pt 6 ps 2.5 title "published, measured on 16 and 512"
set title compared.": three ways"
unset ylabel
eval names(2)
plot for [w=1:3] csv skip 1 using 5:(is(compared, word(ways, w), "64 MiB", "modelled")) \
        with linespoints lt w + 3 ps 1 title word(ways, w), \
    for [w=1:3] csv skip 1 using 5:(is(compared, word(ways, w), "5 ms", "modelled")) with lines lt w + 3 dt 2 notitle, \
    NaN with lines lt 8 title "a message for each 64 MiB", \
    NaN with lines lt 8 dt 2 title "a message every 5 ms"
