#!/bin/sh
# derive.sh JUDGE PREPARED FOLDER SEED OUTPUT: writes OUTPUT, the facts of FOLDER/solution.c and of its rivals, in cases that
# are drawn from SEED. PREPARED has the commands that compile and link (grader.mk), LIBRARY is the book's. The solution, run
# again, must have all points, and each rival lose the parts that it declares. With seed 1 it must lose no other, and get
# its own hint; with another seed it may lose more, as cases differ, and if it loses less, the next seed is taken.
set -eu
judge=$1 prepared=$2 folder=$3 seed=$4 output=$5
COMPILE=$(cat "$prepared/compile") LINK=$(cat "$prepared/link") GIVEN=$prepared/given.o
export GIVEN LIBRARY
work=$(mktemp -d "$output.XXXXXX") || exit 1 # (folders for temporary files may not allow programs to be started)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
fail() {
    echo "$folder/rivals: error: $1" >&2
    echo "hint: tests/grader/rival.awk says what a rival is made of" >&2
    exit 1
}

rivals() { awk -v rival="$1" -f tests/grader/rival.awk "$folder/rivals" ${1:+"$folder/solution.c"}; }
rivals '' >"$work/rivals"
names=$(cut -f 1 "$work/rivals")
for name in solution $names; do
    OWN=$work/$name
    export OWN
    mkdir "$OWN"
    if [ "$name" = solution ]; then cp "$folder/solution.c" "$OWN/your_part.c"; else rivals "$name" >"$OWN/your_part.c"; fi
    sh tests/grader/build.sh "$folder" "$COMPILE" "$LINK" >"$OWN/said" 2>&1 || {
        cat "$OWN/said" >&2
        fail "$name cannot be run"
    }
    printf '%s\t%s\n' "$(grep "^$name	" "$work/rivals")" "$OWN/facts" >>"$work/list"
done
sed -i 1d "$work/list" # the solution

run() { "$work/$1/program" --facts "$work/$1/$2" "$seed" >"$work/$1/said" 2>&1 </dev/null || :; } # NAME FILE
wrong() { # what is wrong with this seed
    "$judge" "$work/expected.tsv" "$work/solution/again" | sed -n 's/^✗/the solution, run again:/p'
    for name in $names; do "$judge" rival "$work/expected.tsv" "$work/$name/facts" "$name" "$seed" || :; done
}
for tries in 4 3 2 1 0; do
    run solution facts &
    run solution again &
    wait
    running= # two at a time, as those that hang are waited for
    for name in $names; do
        run "$name" facts &
        [ -z "$running" ] || wait
        [ -n "$running" ] && running= || running=$name
    done
    wait
    { printf 'seed\t%s\n' "$seed" && "$judge" derive "$work/solution/facts" "$work/list"; } >"$work/expected.tsv"
    wrong=$(wrong)
    [ -n "$wrong" ] || break
    [ "$seed" != 1 ] && [ $tries != 0 ] || fail "$wrong"
    seed=$((seed + 1))
done
cp "$work/expected.tsv" "$output.$$" && mv "$output.$$" "$output" # as a whole, or not at all
