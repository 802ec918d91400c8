# allreduce.gp: modelled time of four ways to sum a vector: against its size on a few devices, and, if there are such
# rows, against the number of devices for a short and for a long vector.
#
#   gnuplot -c plots/allreduce.gp CSV PNG
#
# CSV has the columns time,machine,algorithm,devices,bytes,seconds,algbw,busbw,about. Drawn are modelled rows of the
# machine with the most devices.
call ARG0[:strlen(ARG0) - strlen("allreduce.gp")]."style.gp" ARG1

names = "star sharded ring tree"
array styles[4] = [9, 1, 3, 4]
colors = "#b0592a #0072b2 #009e73 #8a3f8f" # of the names: that of lt 9 is too pale for them
is_name(name) = strstrt(" ".names." ", " ".name." ") > 0
size_text(b) = b < 1e6 ? sprintf("%d KiB", b / 1024) : sprintf("%d MB", b / 1e6)

# The machine; how many of its devices sum vectors of 1 KiB; the sizes that more devices sum.
most = 0; k = 0; sizes = ''
stats csv skip 1 using (strcol(1) eq "modelled" && $4 > most ? (most = int($4), machine = strcol(2), about = strcol(9)) : 0) nooutput
is_drawn(n) = strcol(1) eq "modelled" && strcol(2) eq machine && is_name(strcol(3))
stats csv skip 1 using (is_drawn(0) && $5 == 1024 && $4 > k ? (k = int($4)) : 0) nooutput
stats csv skip 1 using (is_drawn(0) && $4 > k ? (sizes = with_new(sizes, strcol(5))) : 0, 0) nooutput
is_in(panel) = is_drawn(0) && (panel == 1 ? $4 == k && $5 <= 2**26 : strcol(5) eq word(sizes, panel - 1))
x(panel) = panel == 1 ? $5 : $4

# Names stand behind the ends of their curves, and move apart where these are close.
array end[4]
array order[4]
array height[4] # 0 to 1 in the panel
place = 'do for [a=1:4] { order[a] = a; longest = 0; \
        stats csv skip 1 using (is_in(panel) && strcol(3) eq word(names, a) && x(panel) > longest ? \
            (longest = x(panel), end[a] = $6) : 0) nooutput; height[a] = log(end[a] / low) / log(high / low) }; \
    do for [turn=1:3] { do for [i=1:3] { if (height[order[i]] > height[order[i+1]]) { \
        swap = order[i]; order[i] = order[i+1]; order[i+1] = swap } } }; \
    do for [turn=1:20] { do for [i=1:3] { near = 0.08 - height[order[i+1]] + height[order[i]]; if (near > 0) { \
        height[order[i+1]] = height[order[i+1]] + near / 2; height[order[i]] = height[order[i]] - near / 2 } } }; \
    do for [a=1:4] { set label a word(names, a) at graph 1, graph height[a] offset 1.2,0 tc rgb word(colors, a) }'

set logscale xy
fixed_height = 440; page_left = 0.075; page_right = 0.91; page_gap = 0.155
eval "set ytics ".times
eval page(1, 1 + words(sizes), 0, "Modelled: one allreduce on ".plain(machine), plain(about)."; all axes are logarithmic")
do for [panel=1:1 + words(sizes)] {
    set xrange [*:*]
    set yrange [*:*] # or stats would leave out what the panel before did not show
    stats csv skip 1 using (is_in(panel) ? $6 : NaN) nooutput name "TIME"
    low = down(TIME_min); high = up(TIME_max)
    eval place
    set yrange [low:high]
    if (panel == 1) {
        set title sprintf("%d devices", k)
        set xlabel "size of the vector"
        set xrange [2**10:2**26]
        set xtics ("1 KiB" 2**10, "256 KiB" 2**18, "64 MiB" 2**26)
    } else {
        set title "a vector of ".size_text(word(sizes, panel - 1) + 0.0)
        set xlabel "devices"
        set xrange [2:most]
        set xtics (2, 8, 32, 128, 1024)
    }
    plot for [a=1:4] csv skip 1 using (x(panel)):(is_in(panel) && strcol(3) eq word(names, a) ? $6 : NaN) \
        smooth unique with linespoints lt styles[a] notitle
}
