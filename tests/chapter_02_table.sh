# chapter_02_table.sh: what the tests of chapter 2 share: is the table that it writes as CSV complete?

# FILE TIME MACHINE K..: that machine's rows of these numbers of devices, times and bandwidths above zero. (NCCL's, one
# for each line of it that is printed: chapter_02_test.sh.)
is_table() {
    awk -F, -v kind="$2" -v machine="$3" -v ks="$4" '
        NR == 1 { if ($0 != "time,machine,algorithm,devices,bytes,seconds,algbw,busbw,about") exit bad = 1; next }
        NF != 9 || !($6 > 0) || !($7 > 0) || !($8 > 0) { bad = 1 }
        ($1 == "measured") != ($2 == "here") { bad = 1 }
        $1 == kind && $2 == machine && $3 != "NCCL" { rows[$3 " " $4]++ }
        END {
            n = split(ks, k, " "); m = split("star sharded ring tree", names, " ")
            for (i = 1; i <= n; i++) for (j = 1; j <= m; j++) if (rows[names[j] " " k[i]] < 2) bad = 1
            count = 0
            for (key in rows) count++
            exit bad || count != n * m
        }' "$1"
}
has_machine() { cut -d, -f2 "$1" | grep -q -x -e "$2"; }
