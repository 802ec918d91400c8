# report.awk ROWS: grades (grade.sh) for people: a line for each exercise, and below it what was lost, and why.
# With -v csv=1 a table: a line for each hand-in, name,points,of,04-1,04-3,remarks; name,student,.. where there is a roster.
BEGIN { FS = "\t" }
# A field of a table. One that a spreadsheet would take for a formula gets a ' in front: = + - @, as wide letters, too.
function field(text) {
    gsub(/"/, "\"\"", text)
    return "\"" (text ~ /^[ \240\302\343\200]*(=|\+|-|@|\357\274\235|\357\274\213|\357\274\215|\357\274\240)/ ? "'" : "") text "\""
}
function flush(    i, points_of_all) {
    if (name == "") return
    if (!csv && error != "") print name ": not graded: " error
    if (!csv && error == "") printf "%-46s %3d of %d\n%s", name, points, of, text
    if (!csv) return
    for (i = 1; i <= n; i++) points_of_all = points_of_all "," (error == "" ? points_in[i] : "")
    lines = lines field(name) "\v" student "\f" (error == "" ? "," points "," of : ",,") "\t" points_of_all "," field(error remarks) "\n"
}
function lost(points, of, what, reason, hint) {
    text = text sprintf("      -%d  %s\n          %s\n", of - points, what, reason)
    if (hint != "") text = text "          hint: " hint "\n"
}
$1 != name { flush(); name = $1; error = student = text = remarks = ""; points = of = n = 0 }
$2 == "error" { error = $3; next }
$2 == "student" { student = $3; students++; next }
$2 == "note" {
    text = text "  note: " $3 "\n"
    remarks = remarks (remarks == "" ? "" : "; ") $3
    next
}
$3 == 0 {
    points += $4; of += $5
    points_in[++n] = $4; if (n > most) ids = ids "," $2; if (n > most) most = n
    text = text sprintf("  %s  %-40s %3d of %d\n", $2, $6, $4, $5)
    if ($7 != "") { lost($4, $5, "all of it", $7, $8); remarks = remarks (remarks == "" ? "" : "; ") $2 ": " $7 }
    next
}
$4 < $5 && $7 != "" { lost($4, $5, $6, $7, $8) }
$4 < $5 && $2 ~ /^lab-/ { remarks = remarks (remarks == "" ? "" : "; ") $6 ": " $7 }
END {
    flush()
    if (!csv) exit
    print "name" (students ? ",student" : "") ",points,of" ids ",remarks"
    sub(/,/, "", ids)
    nothing = ids == "" ? "" : ","
    gsub(/[^,]/, "", ids)
    gsub("\t,\"", "\t" nothing ids ",\"", lines) # (of one that was not graded)
    gsub("\t|\f", "", lines)
    gsub("\v", students ? "," : "", lines)
    printf "%s", lines
}
