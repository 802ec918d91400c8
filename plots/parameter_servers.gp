# parameter_servers.gp: modelled time of an exchange between workers and parameter servers.
#
#   gnuplot -c plots/parameter_servers.gp CSV PNG
#
# CSV has the columns machine,workers,servers,seconds,bound,ring.
call ARG0[:strlen(ARG0) - strlen("parameter_servers.gp")]."style.gp" ARG1

stats csv skip 1 using (machine = strcol(1), 0) nooutput
of(kind) = ($3 == 1 ? kind == 1 : kind == 2 ? $3 * 2 == $2 : kind == 3 && $3 == $2) ? $2 : NaN
array servers[3] = ["1 server", "W/2 servers", "W servers"]

set logscale xy 2
set xlabel "W workers"
set ylabel "ms"
set xtics (1, 2, 4, 8, 16, 32)
set xrange [0.94:17.5]
eval page(1, 1, 1, "Modelled, not measured: a push and a pull of LeNet's parameters on ".plain(machine), \
    "dashed: 2 max(P/B, W P/(S B)), the least; S servers, P bytes of parameters, B bytes/s of a host's link")
plot for [s=1:3] csv skip 1 using (of(s)):(1e3 * $4) with linespoints lt s title servers[s], \
     for [s=1:3] csv skip 1 using (of(s)):(1e3 * $5) with lines lt s lw 1.5 dt 2 notitle, \
     csv skip 1 using ($3 == 1 && $6 > 0 ? $2 : NaN):(1e3 * $6) with linespoints lt 4 title "ring, no servers"
