# answered.awk -v who=ID NUMBERS ANSWERS: judges the numbers in a your_answers.md, or in nothing (/dev/null). NUMBERS has what
# is right for each student, "ID NN LABEL UNIT TOLERANCE NUMBER" with tabs (numbers.sh). Prints a row for each number, "1 POINTS
# OF WHAT REASON HINT", and "note TEXT" of those that are right for somebody else.
#
# Read are 1,548,816 and 1.548.816 and 25.3 and 25,3; a unit of the same kind as the box's is converted, none is the box's.
function define(names, kind, factor,    n, name) {
    for (n = split(names, name, " "); n > 0; n--) { kind_of[name[n]] = kind; factor_of[name[n]] = factor }
    if (kind == "bytes" || kind == "time") units[kind] = units[kind] " " name[1]
}
function near(a, b) { return a - b <= tolerance / 100 * (b < 0 ? -b : b) && b - a <= tolerance / 100 * (b < 0 ? -b : b) }
function readings(text,    digits) { # of a number, into reading[]: a comma may be a point
    split("", reading)
    digits = text; gsub(/[.,]/, "", digits)
    if (text ~ /,.*[.]/ || text ~ /,.*,/) gsub(/,/, "", text)
    else if (text ~ /[.].*,/ || text ~ /[.].*[.]/) { gsub(/[.]/, "", text) }
    else if (text ~ /^-?[0-9][0-9]?[0-9]?[.,][0-9][0-9][0-9]$/) reading[2] = digits + 0
    sub(/,/, ".", text)
    reading[1] = text + 0
}
function fits(factor, right,    i) {
    for (i in reading) if (near(reading[i] * factor, right)) return 1
    return 0
}
function judge(i, text,    its, kind, n, name, id) {
    reason = hint = ""
    tolerance = within[i]
    if (text == "") { reason = "no number"; hint = "it goes into your_answers.md, for ____"; return 0 }
    match(text, /^-?[.]?[0-9][0-9.,]*([eE][-+]?[0-9]+)?/)
    readings(substr(text, 1, RLENGTH))
    its = substr(text, RLENGTH + 1)
    sub(/^[ *]+/, "", its); gsub(/\302\265|\316\274/, "u", its); sub(/[^A-Za-z\/%].*/, "", its)
    if (!(its in kind_of) && toupper(its) in kind_of) its = toupper(its)
    if (its == "" || !(its in kind_of)) its = unit[i] # (some other word)
    kind = kind_of[unit[i]]
    text = substr(text, 1, 40); gsub(/[^ -~]/, "?", text)
    if (kind_of[its] != kind) { reason = text ": is that " its "? The sheet asks for " (unit[i] == "" ? "a plain number" : unit[i]); return 0 }
    if (fits(factor_of[its] / factor_of[unit[i]], right[i, who])) return 1
    reason = text ", expected " sprintf("%.4g", right[i, who]) (unit[i] == "" ? "" : " ") unit[i]
    for (n = split(units[kind], name, " "); n > 0; n--)
        if (fits(factor_of[name[n]] / factor_of[unit[i]], right[i, who]))
            reason = text ": the unit is wrong. It would be right in " name[n]
    for (n = 1; n <= students; n++)
        if (student[n] != who && fits(factor_of[its] / factor_of[unit[i]], right[i, student[n]]))
            theirs[student[n]] = theirs[student[n]] (theirs[student[n]] == "" ? "" : "; ") label[i]
    return 0
}
BEGIN {
    FS = "\t"
    kind_of[""] = "ratio"; factor_of[""] = 1; define("x times", "ratio", 1); define("%", "ratio", 0.01)
    define("B bytes byte", "bytes", 1); define("kB KB", "bytes", 1e3); define("MB", "bytes", 1e6); define("GB", "bytes", 1e9)
    define("KiB KIB", "bytes", 1024); define("MiB MIB", "bytes", 1048576); define("GiB GIB", "bytes", 1073741824)
    define("s sec seconds", "time", 1); define("ms", "time", 1e-3); define("us", "time", 1e-6); define("ns", "time", 1e-9); define("min", "time", 60)
    define("MB/s", "rate", 1e6); define("GB/s", "rate", 1e9); define("Gb/s", "rate", 1.25e8); define("Mb/s", "rate", 1.25e5)
    define("Mb", "bytes", 1.25e5); define("Gb", "bytes", 1.25e8)
}
FNR == 1 { reads_answers = seen++ > 0 }
!reads_answers {
    if (!($1 in known)) { known[$1]; student[++students] = $1 }
    gsub(/\302\265|\316\274/, "u", $4)
    if (!($4 in kind_of)) { print "numbers: error: " $3 ": no unit: " $4 "\nhint: tests/grader/answered.awk has them" >"/dev/stderr"; exit failed = 1 }
    if (!($3 in number)) { number[$3] = ++n; label[n] = $3; unit[n] = $4; within[n] = $5 }
    right[number[$3], $1] = $6
    next
}
{
    sub(/\r$/, ""); gsub(/`/, ""); sub(/^[>* \t-]+/, "")
    for (i = 1; i <= n; i++) {
        if (index($0, label[i]) != 1) continue
        text = substr($0, length(label[i]) + 1)
        sub(/^ *\(within [0-9.]+ %\)/, "", text)
        if (!sub(/^ *:/, "", text)) continue
        gsub(/[_~*]/, "", text); sub(/^[^0-9.-]*/, "", text)
        if (text ~ /^-?[.]?[0-9]/) answer[i] = text
    }
}
END {
    if (failed) exit failed
    for (i = 1; i <= n; i++) {
        points = judge(i, answer[i])
        printf "%d\t%d\t1\t%s\t%s\t%s\n", i, points, label[i], reason, hint
    }
    for (id in theirs) print "note\tright for " id ", not for " who ": " theirs[id]
}
