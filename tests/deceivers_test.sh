#!/bin/sh
# deceivers_test.sh BUILD: tests/lab/deceivers has hand-ins that want points for what they do not do. Graded as a class, each
# loses the parts that it declares, and for that reason; with new cases it has no more. Prints TAP.
set -u
. "$(dirname "$0")/tap.sh"
cd "$root" || exit 1
folder=chapters/04_lenet_multi_gpu/exercises/3_efficient_allreduce
[ -f $folder/solution.c ] || skip_all deceivers "students have no solutions"
command -v bwrap >/dev/null && command -v jq >/dev/null || skip_all deceivers "no bubblewrap or no jq (make setup grade)"
mkdir -p "$work/class" "$work/build/lab"
ln -s "$build/lab/judge" "$build/lab/exercises" "$work/build/lab" && ln -s "$build/libbook.a" "$work/build"

known=$(awk -F '\t' '$1 == "group" { on = $2 == "allreduce_at()" } on && $5 == "what device 0 has" { print $6 }' \
    "$build/lab/exercises/04-3/expected.tsv" | tr ' \n' ',,')
sed "s/SEED_1/$known/" tests/lab/deceivers >"$work/table"
awk -v rival= -f tests/grader/rival.awk "$work/table" >"$work/list"
cp $folder/solution.c "$work/class/right.c"
cut -f 1 "$work/list" | while read -r name; do
    awk -v rival="$name" -f tests/grader/rival.awk "$work/table" $folder/solution.c >"$work/class/$name.c" || complain "$name"
done
verdict "each is an edit of the solution"

grade() { # SEED: NAME <tab> REASON <tab> PARTS LOST of each, in $work/graded
    BUILD=$work/build LIMIT=20 LABS=04-3 SUBMISSION='' CLASS=$work/class JSON=$work/all.json CSV=$work/all.csv GRADESCOPE='' JOBS=2 \
        TRUSTED='' STRICT='' PART='' SEED=$1 sh tests/grader/grade.sh >"$work/said" 2>&1 || complain "$(cat "$work/said")"
    jq -r '.[] | .exercises[0] as $e | [(.name | rtrimstr(".c")), ($e.reason // ([$e.parts[].reason // ""] | join(" "))),
        ([$e.parts | to_entries[] | select(.value.passed | not) | .key + 1] | join(" "))] | @tsv' "$work/all.json" >"$work/graded"
    [ "$(grep '^"right' "$work/all.csv" | cut -d , -f 2)" = 10 ] || complain "the right one: $(grep '^"right' "$work/all.csv")"
    while IFS='	' read -r name parts matches; do
        reason=$(grep "^$name	" "$work/graded" | cut -f 2) lost=$(grep "^$name	" "$work/graded" | cut -f 3)
        [ "$1:$name" = 1:knows_seed_1 ] || [ "$name" != knows_seed_1 ] || parts="1 2 3 4"
        [ "${parts# }" = "$lost" ] || complain "$name loses '$lost', and is to lose '$parts': $reason"
        [ "$parts" = " " ] || echo "$reason" | grep -Eq -- "$matches" || complain "$name: $reason"
    done <"$work/list"
}
grade 1
verdict "each loses what it declares, for that reason; the right one has 10 of 10"
# What was not run cannot do better in other cases.
sed -n 's/\tnot run: .*//p;s/\tdoes not compile: .*//p' "$work/graded" | while read -r name; do
    rm "$work/class/$name.c" && sed -i "/^$name\t/d" "$work/list"
done
grade $(($(date +%s) % 9000 + 2))
verdict "what was run does not do better in new cases"
echo "1..$tests"
