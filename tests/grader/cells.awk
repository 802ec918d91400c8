# cells.awk: numbers that programs have written, for other awk programs (-f cells.awk -f ..).
#
# A cell "seconds[algorithm=star, bytes=1024|67108864]" is a column of the rows in a file, of which exactly one must match
# the values in [ ]; the file has each row as ",column=value,column=value," (rows.awk). What a cell leaves out is as in the
# cell before it, until key is emptied. In "a line begins with" 2, a cell is the second number of a printed line.
function cell(text, rows, which,    i, part, other, line, fits, value, found) {
    if (match(text, /\[.*\]/)) {
        for (i = split(substr(text, RSTART + 1, RLENGTH - 2), part, /=|, */); i > 0; i -= 2)
            key[part[i - 1]] = split(part[i], other, "|") > 1 ? other[which] : part[i]
        text = substr(text, 1, RSTART - 1)
    }
    if (text) column = text
    for (; (getline line <rows) > 0; found += fits) {
        fits = match(line, "," column "=[^,]*") > 0
        for (i in key) fits = fits && index(line, "," i "=" key[i] ",")
        if (fits) value = substr(line, RSTART + length(column) + 2, RLENGTH - length(column) - 2)
    }
    close(rows)
    if (!problem && found != 1) problem = found + 0 " cells " column
    if (!problem && value !~ /^[0-9.]+(e[-+]?[0-9]+)?$/) problem = "no number: " value
    return value
}
# The which-th number of the only line of a file that begins with these words.
function printed(words, which, lines,    line, found, i, value) {
    while ((getline line <lines) > 0) {
        if (index(line, words) != 1) continue
        found++
        line = substr(line, length(words) + 1)
        for (i = 1; match(line, /[0-9]+(,[0-9][0-9][0-9])*([.][0-9]+)?(e[-+]?[0-9]+)?/); i++) {
            if (i == which) value = substr(line, RSTART, RLENGTH)
            line = substr(line, RSTART + RLENGTH)
        }
    }
    close(lines)
    gsub(/,/, "", value)
    if (!problem && found != 1) problem = found + 0 " lines " words
    if (!problem && value == "") problem = "no number " which " in: " words
    return value
}
