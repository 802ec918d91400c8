#!/bin/sh
# figures_test.sh BUILD: modelled figures in comments and .md files are those that the programs write. A mark in the
# same paragraph, or item of a list, says where they come from (pages leave it out):
#
#     <!-- figure: 43 58 = run-04 --machine dgx-h100: modelled_seconds_per_epoch[launches=graph, devices=1|2] x1000 -->
#
# means: run build/04_NAME --backend model --machine dgx-h100. Of the rows of its CSV files exactly one must match the
# values in [ ]; its column is compared. A / B is a ratio; what B leaves out is as in A. The last digit may be one off.
#
#     <!-- figure: 419 = run-01: "AlexNet across layers" -->
#
# means: a line that it prints begins with these words and has this number.
#
# A complaint has the line of the mark. Prints TAP.
. "$(dirname "$0")/tap.sh"
cd "$root" || exit 1

run() { # COMMAND: its rows become $work/COMMAND; those of the book's run, if that is new, or else of one of our own
    goal=${1%% *} flags=${1#"${1%% *}"} number=${1#*-}
    number=${number%% *} name=$(basename chapters/"${number%-*}"_*)
    case $goal in
    run-*) flags="--backend model $flags" ;;
    *) name=${name}_exercise_${number#*-} && [ ! -x "$build/solved/$name" ] || name=solved/$name ;; # it needs values, too
    esac
    in=$build/runs/$name
    if ! grep -qsF "\`make $1\` on" "$in/about" || [ -z "$(find "$in/stdout" -newer "$build/libbook.a")" ]; then
        in="$work/$1, run"
        mkdir "$in"
        (cd "$in" && "$build/$name" $flags >stdout 2>stderr </dev/null) || complain "$1: $(cat "$in/stderr")"
    fi
    set -- "$1" "$in"/plots/*.csv
    if [ -e "$2" ]; then (shift && awk -f tests/grader/rows.awk "$@"); fi >"$work/$1"
    awk '{ $1 = $1 } 1' "$in/stdout" >"$work/$1, printed"
}
compare() { # FILE..: their marks
    awk -v work="$work" -f tests/grader/cells.awk -f "$work/marks.awk" "$@"
}
cat >"$work/marks.awk" <<'AWK'
function has(text, number) {
    for (; match(text, /[0-9]+([.,][0-9]+)*/); text = substr(text, RSTART + RLENGTH))
        if (substr(text, RSTART, RLENGTH) == number) return 1
}
function prints(words, number, lines,    line, found) {
    gsub(/"/, "", words)
    while ((getline line <lines) > 0) if (index(line, words) == 1 && has(line, number)) found = 1
    close(lines)
    return found
}
function without_point(number) { sub(/\./, "", number); return number }
function check(mark, where,    factor, n, m, i, part, figure, value, over, digits, rounded, off) {
    factor = match(mark, / x[0-9e-]+$/) ? substr(mark, RSTART + 2) : 1
    n = split(substr(mark, 1, RSTART ? RSTART - 1 : length(mark)), part, / = |: | \/ /)
    m = split(part[1], figure, " ")
    for (i = 1; i <= m; i++) {
        problem = n < 3 ? "not FIGURES = COMMAND: CELL" : has(text, figure[i]) ? "" : "not in the prose here"
        if (n == 3 && part[3] ~ /^"/) {
            if (!problem && !prints(part[3], figure[i], work "/" part[2] ", printed")) problem = "is not printed there"
            if (problem) print "# " where ": " figure[i] ": " problem
            continue
        }
        split("", key)
        value = factor * cell(part[3], work "/" part[2], i)
        if (n > 3) over = cell(part[4], work "/" part[2], i)
        if (n > 3 && !problem) value /= over
        digits = index(figure[i], ".") ? length(figure[i]) - index(figure[i], ".") : 0
        rounded = sprintf("%." digits "f", value)
        off = without_point(rounded) - without_point(figure[i])
        if (!problem && !(off <= 1 && off >= -1))
            problem = "should be " rounded sprintf(" (the cell: %.9g)", value)
        if (problem) print "# " where ": " figure[i] ": " problem
    }
}
function end_paragraph(    n, i, mark) {
    for (; match(text, /<!-- figure: [^>]* -->/); text = substr(text, 1, RSTART - 1) substr(text, RSTART + RLENGTH))
        mark[++n] = substr(text, RSTART + 13, RLENGTH - 17)
    if (n < begun) print "# " at[begun] ": a mark without its end"
    for (i = 1; i <= n; i++) check(mark[i], at[i])
    text = ""; begun = 0
}
{ is_prose = FILENAME ~ /\.md$/ || sub(/^ *\/\/ ?/, "") }
FNR == 1 || !is_prose || /^ *$/ || /^ *([0-9]+[.)]|[-*]) / { end_paragraph() }
is_prose { sub(/^ */, ""); text = text $0 " " }
is_prose && /<!-- figure:/ { at[++begun] = FILENAME ":" FNR }
END { end_paragraph() }
AWK

# Planted mistakes: a line of each kind, which begins with what has to be said of it.
printf 'way b 2 9%%\n' >"$work/planted, printed"
printf 'way,about,seconds,empty\na,"x, y",1.5,\nb,z,2,nan\nb,w,3,0\n' >"$work/planted.csv"
awk -f tests/grader/rows.awk "$work/planted.csv" >"$work/planted"
cat >"$work/planted.md" <<'PLANTED'
All is well: 1.5 s, 3.1 by b (the last digit may be one off), half of it or 50 %, and 1500 ms. <!-- figure: 1.5 3.1 =
planted: seconds[about=x y|w] --> <!-- figure: 1500 = planted: seconds[way=a] x1000 -->
<!-- figure: 50 = planted: seconds[way=a] / [way=b, about=w] x100 --> It prints 2 and 9 %. <!-- figure: 2 9 = planted: "way b" -->

2.7: should be 1.5 (the cell: 1.5) <!-- figure: 2.7 = planted: seconds[way=a] -->
NINE: not in the prose here <!-- figure: 9 = planted: seconds[about=z] -->
7: 0 cells seconds <!-- figure: 7 = planted: seconds[way=c] -->
7: 2 cells seconds <!-- figure: 7 = planted: seconds[way=b] -->
7: 0 cells minutes <!-- figure: 7 = planted: minutes[way=a] -->
7: is not printed there <!-- figure: 7 = planted: "way b" -->
8: is not printed there <!-- figure: 8 = planted: "b" -->
7: no number: nan <!-- figure: 7 = planted: empty[about=z] -->
7: not FIGURES = COMMAND: CELL <!-- figure: 7 = planted -->
- a mark without its end <!-- figure: 2.7
PLANTED
compare "$work/planted.md" | cut -d' ' -f3- >"$work/came"
sed -n '5,$ { s/^- //; s/ <!--.*//; s/NINE/9/; p; }' "$work/planted.md" | diff - "$work/came" >>"$problems"
verdict "planted mistakes are found, each for what it is"

set -- README.md $(find chapters common tests -name '*.md' -o -name '*.[ch]')
sed -n 's/.*<!-- figure: [0-9., ]* = \([^:]*\): .*/\1/p' "$@" | sort -u >"$work/commands"
while read -r command; do run "$command"; done <"$work/commands"
compare "$@" >>"$problems" || complain "awk failed"
verdict "marked figures are those of the programs"
echo "1..$tests"
