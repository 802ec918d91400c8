# style.gp: one look for all pictures of this folder. A script begins with
#
#     call ARG0[:strlen(ARG0) - strlen("NAME.gp")]."style.gp" ARG1            wherever gnuplot is started
#     eval page(ROWS, COLUMNS, LINES, "title", "what else must be known")    panels, and lines of names below them
#
# and draws its panels; `csv` is its first argument. Curves are `lt 1` to `lt 8`. Names stand below all panels: write
# `unset key` after the first, or `eval names(COLUMN)` before one whose names are its own.

reset # whatever ~/.gnuplot says, and
unset decimalsign # this, too
csv = ARG1
set datafile separator comma
set datafile missing NaN # the rows of other curves are left out, and lines go on

# Colours that the colour-blind can tell apart, each with a mark of its own.
set linetype 1 lc rgb "#0072b2" lw 2 pt 7 ps 1.5
set linetype 2 lc rgb "#d55e00" lw 2 pt 5 ps 1.4
set linetype 3 lc rgb "#009e73" lw 2 pt 9 ps 1.7
set linetype 4 lc rgb "#8a3f8f" lw 2 pt 13 ps 1.7
set linetype 5 lc rgb "#e69f00" lw 2 pt 11 ps 1.7
set linetype 6 lc rgb "#56b4e9" lw 2 pt 6 ps 1.5
set linetype 7 lc rgb "#333333" lw 2 pt 4 ps 1.5
set linetype 8 lc rgb "#777777" lw 1.5 pt 8 ps 1.7 # what is only there to compare with
set linetype 9 lc rgb "#f0b08c" lw 7 pt 7 ps 2.2   # the first of several that may lie on each other

set grid lt 1 lc rgb "#d4d4d4" lw 0.5
set border 3
set tics nomirror
set format "%g"
set style fill solid 0.9 noborder

# Ends of a logarithmic axis, and tics for one: 1, 2, 5, 10, ..
step(x) = 10**floor(log10(x))
up(x) = step(x) * (x <= step(x) ? 1 : x <= 2 * step(x) ? 2 : x <= 5 * step(x) ? 5 : 10)
down(x) = step(x) * (x < 2 * step(x) ? 1 : x < 5 * step(x) ? 2 : 5)
tics = "(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)"
times = '("1 µs" 1e-6, "10 µs" 1e-5, "100 µs" 1e-4, "1 ms" 1e-3, "10 ms" 0.01, "100 ms" 0.1, \
    "1 s" 1, "10 s" 10, "100 s" 100, "1000 s" 1000)'
# A list of different texts, each in quotes: word(list, 2)
with_new(list, text) = strstrt(list, '"'.text.'"') ? list : list.'"'.text.'" '
# A name as it is, where _ and ^ would lower and raise what follows.
plain(s) = strlen(s) ? (strstrt("_^@&~{}", s[1:1]) ? "\\" : "").s[1:1].plain(s[2:]) : ""
# The same in lines: "dgx", "a100"
broken(s) = strstrt(s, "-") ? s[:strstrt(s, "-") - 1]."\n".broken(s[strstrt(s, "-") + 1:]) : s

# The page, in pixels: about twice the size that it is read at.
width = 1500.0
to_png = "set terminal pngcairo size %d,%d font 'DejaVu Sans,20' linewidth 2; set output ARG2;"
fixed_height = 0 # of a panel; 0: by their number
below_row = 140 # from one row of panels to the next; more where names stand between them
page_left = 0.09; page_right = 0.98; page_gap = 0.085 # parts of the width
# What else must be known, in two lines if it is long.
space_behind(s, i) = s[i:i] eq " " || i > strlen(s) ? i : space_behind(s, i + 1)
smaller(s) = "\n{/*0.9 ".s."}"
in_lines(s) = strlen(s) <= 84 ? smaller(s) : smaller(s[:space_behind(s, strlen(s) / 2) - 1]).smaller(s[space_behind(s, strlen(s) / 2) + 1:])
page(rows, columns, lines, title, more) = (page_rows = rows, page_columns = columns, page_lines = lines, \
    panel_height = fixed_height ? fixed_height : rows > 2 ? 340 : columns == 1 ? 640 : columns == 2 ? 480 : 420, \
    page_top = more eq "" ? 140.0 : strlen(more) > 84 ? 215.0 : 178.0, \
    page_height = page_top + rows * panel_height + (rows - 1) * below_row + 125 + 38 * lines, \
    page_title = title.in_lines(more), \
    sprintf(to_png, width, page_height). \
    sprintf("set multiplot layout %d,%d title page_title font ',24' margins screen %g,%g,%g,%g spacing screen %g,%g;", \
        rows, columns, page_left, page_right, (125.0 + 38 * lines) / page_height, 1 - page_top / page_height, page_gap, below_row / page_height).names(0))
names(column) = names_below(page_rows, column) # of panels 1, 2, ..; 0: in the middle
names_below(row, column) = \
    sprintf("set key at screen %g,screen %g center top vertical maxrows %d reverse Left samplen 2 width 1;", \
    column ? 0.0475 + 0.975 * (column - 0.5) / page_columns : 0.53, \
    1 - (page_top + 113 + row * panel_height + (row - 1) * below_row) / page_height, page_lines)
