# roster.awk ROSTER: a class, "ID NAME" with a tab for each name by which a student may be known. A line of the roster is a
# student: the ID (letters, digits, . _ -), which draws her machine, then what else hand-ins may be called by:
#
#     ada,Ada Lovelace,s1234567
function fail(error, hint) { print "roster: error: " FILENAME ":" FNR ": " error "\nhint: " hint >"/dev/stderr"; exit status = 1 }
BEGIN { FS = " *[,;] *" }
{ gsub(/^\357\273\277|\r|"|\t/, ""); sub(/^ +/, "") }
/^ *(#|$)/ || (!n && tolower($1) ~ /^(id|login|name|student|user)$/) { next }
$1 !~ /^[A-Za-z0-9][A-Za-z0-9._-]*$/ || length($1) > 40 { fail("no ID: " $1, "a line is a student: ID,name; the ID of letters, digits, . _ -") }
tolower($1) in seen { fail("twice: " $1, "each student has an ID of her own") }
{
    n++
    for (i = 1; i <= NF; i++) {
        if ($i == "") continue
        if (tolower($i) in seen && seen[tolower($i)] != $1) fail("twice: " $i, "a name is one student\047s: Bea B, Bea M")
        seen[tolower($i)] = $1
        print $1 "\t" $i
    }
}
END { if (!status && !n) fail("nobody is in it", "a line is a student: ID,name") ; exit status }
