# parameter_servers.gp: modelled time of an exchange between workers and parameter servers.
#
#   gnuplot -c plots/parameter_servers.gp CSV PNG
#
# CSV has the columns machine,workers,servers,seconds,bound,ring.

csv = ARG1
set datafile separator comma
set datafile missing NaN
machine = ''
stats csv skip 1 using (machine = strcol(1), 0) nooutput

# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1500,900 font "DejaVu Sans,20" linewidth 2
set output ARG2

set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set logscale xy 2
set xlabel "W workers; S servers; P: bytes of all parameters; B: bytes per second of a host's link"
set ylabel "modelled ms of a push and a pull"
set key left top reverse Left spacing 1.3 samplen 2 noenhanced
set title "A push and a pull of all LeNet's parameters. Modelled, not measured: hosts as in ".machine noenhanced font ",20"
set xtics (1, 2, 4, 8, 16, 32)
set xrange [0.94:17.5]
set rmargin 4
plot csv skip 1 using (int($3) == 1 ? $2 : NaN):(1e3 * $4) with linespoints lw 2 pt 7 ps 1.6 lc rgb 0xd6604d title "1 server", \
     csv skip 1 using (int($3) == 1 ? $2 : NaN):(1e3 * $5) with lines dt 2 lw 1.5 lc rgb 0xd6604d notitle, \
     csv skip 1 using (int($3) > 1 && int($3) * 2 == int($2) ? $2 : NaN):(1e3 * $4) with linespoints lw 2 pt 5 ps 1.4 lc rgb 0x2166ac title "W/2 servers", \
     csv skip 1 using (int($3) > 1 && int($3) * 2 == int($2) ? $2 : NaN):(1e3 * $5) with lines dt 2 lw 1.5 lc rgb 0x2166ac notitle, \
     csv skip 1 using (int($3) > 1 && int($3) == int($2) ? $2 : NaN):(1e3 * $4) with linespoints lw 2 pt 9 ps 1.6 lc rgb 0x1b7837 title "W servers", \
     csv skip 1 using (int($3) > 1 && int($3) == int($2) ? $2 : NaN):(1e3 * $5) with lines dt 2 lw 1.5 lc rgb 0x1b7837 notitle, \
     csv skip 1 using (int($3) == 1 && $6 > 0 ? $2 : NaN):(1e3 * $6) with linespoints lw 2 pt 13 ps 1.6 lc rgb 0x762a83 title "ring, no servers", \
     NaN with lines dt 2 lw 1.5 lc rgb 0x777777 title "dashed: no less than 2 max(P/B, W P/(S B))"
