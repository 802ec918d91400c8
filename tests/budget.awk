# budget.awk: whether each room keeps to its lines. Reads tests/budget, "ROOM MOST" in a row, and then what wc -l says of all
# text files. A file counts in the room whose name is the longest that its path begins with, and nowhere else.
FNR == NR { if ($0 !~ /^#/) most[$1] = $2; next }
$2 == "total" && NF == 2 { next }
{
    for (room = $2; !(room in most) && room != "."; ) if (!sub(/\/[^\/]*$/, "", room)) room = "."
    lines[room] += $1
}
END {
    for (room in lines) if (lines[room] > most[room]) {
        printf "make: error: %s has %d lines, and tests/budget allows %d\n", room, lines[room], most[room] >"/dev/stderr"
        failed = 1
    }
    if (failed) print "hint: make it smaller, or allow more, and another room less" >"/dev/stderr"
    exit failed
}
