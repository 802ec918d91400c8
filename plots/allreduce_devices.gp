# allreduce_devices.gp: modelled time of an allreduce against the number of devices, a panel for a short vector
# and one for a long one.
#
#   gnuplot -c plots/allreduce_devices.gp CSV PNG
#
# CSV has the columns time,machine,algorithm,devices,bytes,seconds,algbw,busbw,about. Drawn are the rows of the two
# sizes for which there are 1024 devices.

csv = ARG1
set datafile separator comma
set datafile missing NaN

bytes = ''
stats csv skip 1 using (int($4) == 1024 && !strstrt(bytes, ' '.strcol(5).' ') ? \
    (bytes = bytes.' '.strcol(5).' ', machine = strcol(2), about = strcol(9)) : 0, $4) nooutput

# Drawn at twice the size that it is read at, for print.
set terminal pngcairo size 1800,900 font "DejaVu Sans,20" linewidth 2
set output ARG2

names = "star sharded ring tree"
array widths[4] = [6, 3.5, 2, 2]
array colors[4] = [0xf4a582, 0x2166ac, 0x1b7837, 0x762a83]
array marks[4] = [7, 5, 9, 13]
array sizes[4] = [2.2, 1.8, 1.5, 1.8]
size_text(b) = b < 1e6 ? sprintf("%d KB", b / 1024) : sprintf("%d MB", b / 1e6)

set grid lc rgb "#dddddd" lw 0.5
set border 3
set tics nomirror
set logscale xy
set rmargin 4
set tmargin 3
set xrange [1.7:1200]
set xtics (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024) font ",17"
set ytics ("1 µs" 1e-6, "10 µs" 1e-5, "100 µs" 1e-4, "1 ms" 1e-3, "10 ms" 1e-2, "100 ms" 1e-1, "1 s" 1, "10 s" 10, "100 s" 100, "1000 s" 1000, "10000 s" 10000)
unset mytics
set xlabel "devices"
set ylabel "modelled time of one allreduce"
set key left top reverse Left spacing 1.3 samplen 2

set multiplot layout 1,2 margins 0.09,0.98,0.12,0.80 spacing 0.1
set label 1 "Modelled, not measured: one allreduce on k devices of ".machine at screen 0.5,0.95 center noenhanced font ",24"
set label 2 about."; further devices are in further hosts, reached by network" at screen 0.5,0.895 center noenhanced font ",16" textcolor rgb "#555555"
do for [panel=1:2] {
    b = word(bytes, panel)
    set title "a vector of ".size_text(b + 0.0)
    set yrange [*:*] # or stats would leave out what the panel before did not show
    stats csv skip 1 using (strcol(5) eq b && strcol(2) eq machine ? $6 : NaN) nooutput name "TIME"
    set yrange [10**floor(log10(TIME_min)):10**ceil(log10(TIME_max))]
    plot for [a=1:4] csv skip 1 \
        using 4:(strcol(5) eq b && strcol(2) eq machine && strcol(3) eq word(names, a) ? $6 : NaN) \
        with linespoints lw widths[a] lc rgb colors[a] pt marks[a] ps sizes[a] title word(names, a)
    unset ylabel
    unset key
    unset label 1
    unset label 2
}
unset multiplot
