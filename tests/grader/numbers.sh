#!/bin/sh
# numbers.sh BUILD MACHINE OUTPUT CHAPTER..: writes OUTPUT, what the sheets of these chapters ask for (boxes.awk) on the
# machine in the file MACHINE: rows "NN LABEL UNIT TOLERANCE NUMBER" with tabs. The chapters' programs say it.
set -eu
build=$(realpath "$1") machine=$(realpath "$2") output=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
devices=$(sed -n 's/^devices *\([0-9]*\).*/\1/p' "$machine")
for chapter; do
    awk -f tests/grader/boxes.awk "$chapter/lab.md" "$chapter/lab_answers.md" | sed "s/^/$(basename "$chapter" | cut -d _ -f 1)	/"
done >"$work/boxes"
cut -f 5 "$work/boxes" | sort -u >"$work/commands"
while read -r command; do
    id=${command%% *} id=${id#*-} in="$work/$command"
    name=$(basename chapters/"${id%-*}"_*) model='--backend model'
    case $command in exercise-*) name=${name}_exercise_${id#*-} model= ;; esac
    flags=$(echo "${command#"${command%% *}"}" | sed "s/DEVICES/$devices/; s|MACHINE|my.machine|")
    mkdir "$in" && cp "$machine" "$in/my.machine"
    # shellcheck disable=SC2086
    (cd "$in" && "$build/$name" $model $flags --out out >stdout 2>stderr </dev/null) || {
        echo "numbers: error: $command: $(head -n 1 "$in/stderr")" >&2
        echo "hint: it is asked for in chapters/${name%_exercise*}/lab_answers.md" >&2
        exit 1
    }
    set -- "$in"/out/*.csv
    [ ! -e "$1" ] || awk -f tests/grader/rows.awk "$@" >"$in.rows"
    awk '{ $1 = $1 } 1' "$in/stdout" >"$in.printed"
done <"$work/commands"
awk -v work="$work" -f tests/grader/cells.awk -f - "$work/boxes" >"$work/new" <<'AWK'
BEGIN { FS = OFS = "\t" }
{
    factor = match($6, / x[0-9e-]+$/) ? substr($6, RSTART + 2) : 1
    text = RSTART ? substr($6, 1, RSTART - 1) : $6
    if (text ~ /^"/) {
        which = text; sub(/.*"/, "", which)
        words = text; sub(/^"/, "", words); sub(/".*/, "", words)
        value = printed(words, which ? which + 0 : 1, work "/" $5 ".printed")
    } else {
        split("", key)
        over = split(text, part, " / ") > 1
        value = cell(part[1], work "/" $5 ".rows")
        if (over && !problem) value /= cell(part[2], work "/" $5 ".rows")
    }
    if (problem) { print "numbers: error: " $2 ": " problem "\nhint: see the box in chapters/" $1 "_*/lab_answers.md" >"/dev/stderr"; exit 1 }
    printf "%s\t%s\t%s\t%s\t%.9g\n", $1, $2, $3, $4, value * factor
}
AWK
cp "$work/new" "$output.$$" && mv "$output.$$" "$output"
