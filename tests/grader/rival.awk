# awk -v rival=NAME -f rival.awk RIVALS SOLUTION: the solution with the edits of that rival.
# awk -v rival= -f rival.awk RIVALS: "NAME <tab> PARTS <tab> HINT" of each. RIVALS has for each of them
#
#     name [3 4]: what is said to whoever made this mistake
#         text of a line => what stands in its place           (^text: the line begins so)
#         body FUNCTION                                        (what is in its braces becomes what follows)
#         | return 0;
#         top                                                  (what follows comes before the first line)
function fail(what) { print "rivals: " rival ": " what > "/dev/stderr"; failed = 1; exit 1 }
FNR == NR && (/^#/ || /^ *$/) { next }
FNR == NR && match($0, /^[a-z0-9_]+ \[[0-9 ]+\]: /) {
    name = $1
    parts = substr($0, length(name) + 3, RLENGTH - length(name) - 5)
    if (rival == "") print name "\t" parts "\t" substr($0, RLENGTH + 1)
    known = known || name == rival
    next
}
FNR == NR && name != rival { next }
FNR == NR && ($1 == "body" || $0 ~ /^ +top$/) { body = $2; bodies[body] = ""; next }
FNR == NR && sub(/^ *\|/, "") { bodies[body] = bodies[body] $0 "\n"; next }
FNR == NR {
    at = index($0, " =>")
    if (!at) fail("no => in: " $0)
    old[++n] = substr($0, 1, at - 1)
    sub(/^ +/, "", old[n])
    new[n] = substr($0, at + 3)
    sub(/^ /, "", new[n])
    next
}
FNR == 1 { printf "%s", bodies[""]; delete bodies[""] }
# The head of a function begins in column 0 and ends with a brace; its end is a brace in column 0.
/^[a-zA-Z].*\(/ && !/;$/ { head = $0 }
inside && /^}/ { inside = 0; head = "" }
inside { next }
{
    line = $0
    for (i = 1; i <= n && line !~ /^ *\/\//; i++) {
        text = old[i]
        anchored = sub(/^\^/, "", text)
        at = index(line, text)
        if (!at || (anchored && substr(line, 1, at - 1) ~ /[^ ]/)) continue
        line = substr(line, 1, at - 1) new[i] substr(line, at + length(text))
        used[i]++
    }
    print line
}
head != "" && /\{$/ {
    for (f in bodies) if (index(head, " " f "(") || index(head, "*" f "(")) { printf "%s", bodies[f]; done[f] = inside = 1 }
}
END {
    if (failed || rival == "") exit failed
    if (!known) fail("there is none of this name")
    for (i = 1; i <= n; i++) if (used[i] != 1) fail("in " used[i] + 0 " lines of the solution: " old[i])
    for (f in bodies) if (!done[f]) fail("no function " f)
}
