# student.awk STUDENTS -: whose hand-in it is, of whose name a line is read: the ID whose names (roster.awk) stand in it as
# whole words, the longest; more than one ID if that is not one student.
function plain(text) { text = tolower(text); gsub(/[^a-z0-9\177-\377]+/, " ", text); return " " text " " }
FNR == NR { id[NR] = $1; name[NR] = plain($2); n = NR; next }
{
    for (i = 1; i <= n; i++) {
        if (!index(plain($0), name[i]) || length(name[i]) < longest) continue
        if (length(name[i]) > longest) found = ""
        longest = length(name[i])
        if (!index(" " found " ", " " id[i] " ")) found = found (found == "" ? "" : " ") id[i]
    }
    print found
}
