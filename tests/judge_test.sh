#!/bin/sh
# judge_test.sh BUILD [ID...]: for each exercise, or for these ("06-1"): the solution has all points, with the oldest
# instructions too and with another seed; the starter has none, and a hint that says so. (That each rival loses what it
# declares, and gets its own hint, was tested when expected.tsv was made: tests/grader/derive.sh.) Prints TAP.
set -u
. "$(dirname "$0")/tap.sh"
shift
wanted=$*
cd "$root" || exit 1
shown=$work/said
ls "$build"/solved/* >/dev/null 2>&1 || skip_all "the judge" "students have no solutions"
facts() { # PROGRAM FILE SEED
    "$1" --facts "$work/$2" "$3" >"$work/printed" 2>&1 </dev/null
}
judged() { # EXPECTED FACTS [LOST]
    "$build/lab/judge" "$@" >"$work/said"
}
for solved in "$build"/solved/*; do
    name=${solved##*/}
    id=${name%%_*}-${name##*_}
    case " $wanted " in "  " | *" $id "*) ;; *) continue ;; esac
    sh tests/grader/labs.sh judge "" | grep -q "^$id " || continue # (what an older build has left)
    expected=$build/lab/exercises/$id/expected.tsv
    BOOK_ISA=v1 facts "$solved" v1 1
    judged "$expected" "$work/v1"
    verdict $? "$id: the solution has all points with the oldest instructions"
    facts "$solved" seven 7
    BOOK_ISA=v1 facts "$solved" seven_v1 7
    judged "$work/seven" "$work/seven_v1"
    verdict $? "$id: and with another seed"
    ! cmp -s "$work/v1" "$work/seven_v1"
    verdict $? "$id: whose facts are others"
    grep -q 'YOUR CODE HERE' chapters/"${name%%_*}"_*/exercises/"${name##*_}"_*/your_part.c || continue
    facts "$build/$name" starter 1
    judged "$expected" "$work/starter"
    grep -q '^0 of 10 points$' "$work/said" && grep -qF "hint: $(sed -n 's/^rival\tstarter\t[^\t]*\t//p' "$expected")" "$work/said"
    verdict $? "$id: the starter has none, and is told to begin"
done

# Hints in two steps: with a file to keep what was lost, a part's hint comes when it is lost again.
hints() { grep -c '^ *hint: ' "$work/said"; }
rm -f "$work/lost"
judged "$expected" "$work/starter" "$work/lost"
[ "$(hints)" = 0 ] && grep -q '  ([0-9]* of [0-9]* cases differ)' "$work/said" && grep -q 'ARGS=--hint' "$work/said"
verdict $? "the first check shows the case that differs, and no hint"
judged "$expected" "$work/starter" "$work/lost"
[ "$(hints)" -gt 0 ] && ! grep -q 'ARGS=--hint' "$work/said"
verdict $? "the second gives hints"
judged "$expected" "$work/v1" "$work/lost" && judged "$expected" "$work/starter" "$work/lost"
[ "$(hints)" = 0 ]
verdict $? "what was right in between begins anew"
echo "1..$tests"
