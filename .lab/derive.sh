#!/bin/sh
# derive.sh JUDGE PREPARED FOLDER: writes PREPARED/expected.tsv, the facts of FOLDER/solution.c and of its rivals, with
# seed 1. PREPARED has the commands that compile and link (.lab/lab.mk). Each rival is run twice, and must both times
# lose the parts that it declares, and get its own hint.
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
# What OWN/your_part.c does, twice: to OWN/facts and OWN/again. (Its own words are in OWN/said. Who hangs or crashes does
# so once: to wait for that takes long.)
run() { # OWN
    export OWN="$1"
    sh -c "$(cat "$prepared/compile")" >"$OWN/said" 2>&1 && sh -c "$(cat "$prepared/link")" >>"$OWN/said" 2>&1 || {
        cat "$OWN/said" >&2
        fail "$(basename "$OWN") does not compile"
    }
    "$OWN/program" --facts "$OWN/facts" 1 >>"$OWN/said" 2>&1 </dev/null || :
    if [ "$(grep -c ^through "$OWN/facts")" = "$(grep -c ^group "$OWN/facts")" ]; then
        "$OWN/program" --facts "$OWN/again" 1 >>"$OWN/said" 2>&1 </dev/null || :
    else
        cp "$OWN/facts" "$OWN/again"
    fi
    rm "$OWN/program"
}
mkdir "$work/solution"
cp "$folder/solution.c" "$work/solution/your_part.c"
run "$work/solution"
awk -v rival= -f .lab/rival.awk "$folder/rivals" >"$work/rivals"
tab=$(printf '\t')
while IFS=$tab read -r name parts hint; do
    mkdir "$work/$name"
    awk -v rival="$name" -f .lab/rival.awk "$folder/rivals" "$folder/solution.c" >"$work/$name/your_part.c"
    run "$work/$name"
    printf '%s\t%s\t%s\t%s\n' "$name" "$parts" "$hint" "$work/$name/facts" >>"$work/list"
done <"$work/rivals"
"$judge" derive "$work/solution/facts" "$work/list" >"$work/expected.tsv"
wrong=$({
    "$judge" "$work/expected.tsv" "$work/solution/again" | grep '^✗' | sed 's/^/the solution, run again: /' || :
    while IFS=$tab read -r name parts hint; do
        "$judge" rival "$work/expected.tsv" "$work/$name/facts" "$name" || :
        "$judge" rival "$work/expected.tsv" "$work/$name/again" "$name" | sed 's/^/run again: /' || :
    done <"$work/rivals"
})
[ -z "$wrong" ] || fail "$wrong"
mv "$work/expected.tsv" "$prepared/expected.tsv"
