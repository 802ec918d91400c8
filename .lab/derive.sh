#!/bin/sh
# derive.sh JUDGE PREPARED FOLDER: writes PREPARED/expected.tsv, the facts of FOLDER/solution.c and of its rivals, with
# seed 1. PREPARED has the commands that compile and link (.lab/lab.mk). The solution, run again, must have all points, and
# each rival lose the parts that it declares, and get its own hint.
set -eu
judge=$1 prepared=$2 folder=$3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
fail() {
    echo "$folder/rivals: error: $1" >&2
    echo "hint: .lab/rival.awk says what a rival is made of" >&2
    exit 1
}
# What OWN/your_part.c does: to OWN/facts. (Its own words are in OWN/said.)
run() { # OWN
    export OWN="$1"
    sh -c "$(cat "$prepared/compile")" >"$OWN/said" 2>&1 && sh -c "$(cat "$prepared/link")" >>"$OWN/said" 2>&1 || {
        cat "$OWN/said" >&2
        fail "$(basename "$OWN") does not compile"
    }
    "$OWN/program" --facts "$OWN/facts" 1 >>"$OWN/said" 2>&1 </dev/null || :
    rm "$OWN/program"
}
mkdir "$work/solution" "$work/again"
cp "$folder/solution.c" "$work/solution/your_part.c"
cp "$folder/solution.c" "$work/again/your_part.c"
run "$work/solution" &
run "$work/again" &
wait
awk -v rival= -f .lab/rival.awk "$folder/rivals" >"$work/rivals"
tab=$(printf '\t') running=
# (Two at a time, as those that hang are waited for.)
while IFS=$tab read -r name parts hint; do
    mkdir "$work/$name"
    awk -v rival="$name" -f .lab/rival.awk "$folder/rivals" "$folder/solution.c" >"$work/$name/your_part.c"
    run "$work/$name" &
    [ -z "$running" ] || wait
    [ -z "$running" ] && running=$name || running=
    printf '%s\t%s\t%s\t%s\n' "$name" "$parts" "$hint" "$work/$name/facts" >>"$work/list"
done <"$work/rivals"
wait
"$judge" derive "$work/solution/facts" "$work/list" >"$work/expected.tsv"
wrong=$({
    "$judge" "$work/expected.tsv" "$work/again/facts" | grep '^✗' | sed 's/^/the solution, run again: /' || :
    while IFS=$tab read -r name parts hint; do
        "$judge" rival "$work/expected.tsv" "$work/$name/facts" "$name" || :
    done <"$work/rivals"
})
[ -z "$wrong" ] || fail "$wrong"
mv "$work/expected.tsv" "$prepared/expected.tsv"
