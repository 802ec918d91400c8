#!/bin/sh
# grade.sh: grades exercises: make grade calls it. Its settings are variables; grader.mk says what they mean. With CHECK=1
# it looks at these only.
#
# As results come they are written to BUILD/lab/grading.tsv, of each hand-in at once: rows of
#
#     NAME  04-1  0  POINTS  OF  TITLE  REASON  HINT  SECONDS     the exercise; a reason: no part could be tried
#     NAME  04-1  2  POINTS  OF  WHAT   REASON  HINT              its part 2
#     NAME  lab-02 0  POINTS  OF  numbers ..                      a lab's numbers, and each of them as a part (answered.awk)
#     NAME  note  TEXT            for the instructor
#     NAME  error REASON          not graded: by a fault of the grader or of the machine, or it cannot be read
#     NAME  done
#
# All tables are made of it. The grading of a class that was broken off goes on where it was.
set -eu
unset BOOK_ISA # what is computed with, solutions and hand-ins, is the best that this CPU has
export LC_ALL=C # numbers have a point
refuse() { # STATUS ERROR HINT
    echo "grade: error: $2" >&2
    echo "hint: $3" >&2
    exit "$1"
}
is_whole() { case $1 in '' | *[!0-9]* | 0* | ?????*) return 1 ;; *) ;; esac; } # a number from 1 to 9999

# ---- settings --------------------------------------------------------------------------------------

STUDENTS=${STUDENTS-} roster=${STUDENTS-} from=$SUBMISSION$CLASS rows=$BUILD/lab/grading.tsv
[ -z "$SUBMISSION" ] || [ -z "$CLASS" ] || refuse 2 "more than one to grade: $SUBMISSION and $CLASS" "SUBMISSION=FILE is one hand-in, CLASS=FOLDER many"
[ -z "$CLASS" ] || [ -z "$GRADESCOPE" ] || refuse 2 "results for Gradescope are those of one hand-in, and this is a class" "of a class there are CSV= and JSON="
is_whole "$LIMIT" || refuse 2 "wrong SECONDS: '$LIMIT'" "SECONDS=60: what the run of an exercise may take"
is_whole "$JOBS" || refuse 2 "wrong JOBS: '$JOBS'" "JOBS=2: two are graded at a time"
[ -z "$PART" ] || is_whole "$PART" || refuse 2 "wrong PART: '$PART'" "PART=1: the first"
[ -z "$SEED" ] || [ -d "$SEED" ] || is_whole "$SEED" || refuse 2 "wrong SEED: '$SEED'" "SEED=7: the cases that are drawn from 7; a grading says which it took"
[ -z "$from" ] || [ -r "$from" ] || refuse 1 "$from: there is no such file or folder" "SUBMISSION=a folder or an archive, CLASS=a folder with one for each"
[ -z "$CLASS" ] || [ -d "$CLASS" ] || refuse 1 "$CLASS: not a folder" "CLASS=a folder with a folder or an archive for each"
[ -z "$STUDENTS" ] || [ -n "$from" ] || refuse 2 "STUDENTS= without a hand-in" "SUBMISSION=a folder or an archive, or CLASS=, of these students"
[ -z "$STUDENTS" ] || [ -f "$STUDENTS" ] || refuse 1 "$STUDENTS: there is no such file" "STUDENTS=roster.csv: ID,name in a line for each student"
[ -z "$STUDENTS" ] || awk -f tests/grader/roster.awk "$STUDENTS" >/dev/null || exit 1
for file in "$CSV" "$JSON" "$GRADESCOPE"; do # said before what takes long
    case $file in
    '' | *.csv | *.json) ;; *) refuse 2 "$file: is that a table?" "CSV=grades.csv, JSON=all.json, GRADESCOPE=results.json" ;;
    esac
    [ -z "$file" ] || { [ ! -d "$file" ] && [ -d "$(dirname "$file")" ] && [ -w "$(dirname "$file")" ]; } ||
        refuse 1 "$file: cannot write" "a file in a folder that is there"
done
solutions=$(find chapters -name solution.c | head -n 1)
TRUST=own
[ -z "$from" ] || TRUST=contained
[ -z "$from" ] || [ "$TRUSTED" != 1 ] || TRUST=user
[ "$TRUST" != user ] || [ -z "$solutions" ] || refuse 1 "TRUSTED=1 where the solutions are: a hand-in could read them" "grade in what make lab-kit writes, which has none"
[ -z "${CHECK-}" ] || exit 0
# (Programs are made and started in it, which folders for temporary files may not allow. Whoever does that can read what
# is made for him, whatever the umask here; the tables are made with this one.)
umask=$(umask)
umask 022
folder=$(realpath "$BUILD/lab")
[ "$TRUST$(id -u)" != user0 ] || setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$folder" || folder=/tmp # he cannot come here
work=$(mktemp -d "$folder/grade.XXXXXX") || exit 1
trap 'rm -rf "$work" 2>/dev/null || { sleep 1 && rm -rf "$work"; }' EXIT # (what a killed one began, such as tar, ends soon)
trap 'trap "" HUP INT TERM; kill "$at_work" 2>/dev/null; wait; exit 130' HUP INT TERM # (what it has started ends with it)
at_work=
begin="setpriv --pdeathsig KILL sh tests/grader/child.sh"
in_background() { # "$@", so that a signal is heard meanwhile
    PARENT=$$ $begin "$@" &
    at_work=$!
    wait $at_work
}

# ---- which exercises, and what their solutions do ----------------------------------------------------

JUDGE=$BUILD/lab/judge PREPARED=$BUILD/lab/exercises WANTED=$work/wanted EXPECTED=$work BOOK=$work/book
sh tests/grader/labs.sh grade "$LABS" | while read -r id folder; do
    [ ! -f "$PREPARED/$id/expected.tsv" ] || echo "$id ${folder##*/} $folder"
done >"$WANTED"
# The labs whose numbers are graded: those of chapters that LABS names.
for answers in $([ -z "$STUDENTS" ] || grep -ls '<!-- box:' chapters/*/lab_answers.md); do
    lab=${answers#chapters/} lab=${lab%%_*}
    case " $(echo "$LABS" | tr , ' ') " in *" $lab "* | "  ") echo "$lab ${answers%/*}" ;; esac
done >"$work/labs"
[ -s "$WANTED" ] || [ -s "$work/labs" ] || case $LABS in
*-* | '') refuse 1 "none of these exercises is built here" "those of chapter 8 need MPI: make setup" ;;
*) refuse 1 "LABS=$LABS: nothing is graded there but numbers" "STUDENTS=roster.csv says whose they are" ;;
esac
PREPARED=$(realpath "$PREPARED")
export BUILD JUDGE PREPARED BOOK WANTED EXPECTED TRUST LIMIT PART CLASS

why=$("$JUDGE" shown '' 2>&1) || refuse 1 "$JUDGE cannot be started: ${why##*: }" "BUILD=a folder in which programs may be started (/proc/mounts shows noexec)"

# What a hand-in does is compared with what the solution does in the same cases. Those of seed 1 everybody has; for others'
# hand-ins new ones are drawn, where there is a solution. (SEED may be a folder of such files: one of them is drawn.)
header() { printf '# class\t%s\t%s\t%s\t%s\n' "$(realpath "$CLASS")" "$LABS" "$TRUST$PART$roster" "$1"; }
kept_seed() { # of a class that was broken off
    [ -n "$CLASS" ] && [ -s "$rows" ] && kept=$(head -n 1 "$rows" | cut -f 5) && [ "$(head -n 1 "$rows")" = "$(header "$kept")" ] && echo "$kept"
}
if [ -z "$SEED" ] && [ -n "$from" ] && [ -n "$solutions" ]; then
    SEED=$(kept_seed) || SEED=$(($(od -An -N2 -tu2 /dev/urandom) % 9998 + 2))
fi
seed=${SEED:-1}
while read -r id title folder; do
    if [ -d "$seed" ]; then
        cp "$(find "$seed" -name "$id-*.tsv" | shuf -n 1)" "$work/$id.tsv"
    elif [ "$seed" = 1 ]; then
        cp "$PREPARED/$id/expected.tsv" "$work/$id.tsv"
    elif [ -n "$solutions" ]; then
        # (It goes when that of seed 1 is made anew: of another solution, other cases or other rivals.)
        [ -f "$PREPARED/$id/seed-$seed.tsv" ] ||
            printf '%s\0' "$PREPARED/$id" "$folder" "$seed" "$PREPARED/$id/seed-$seed.tsv" >>"$work/derive"
    else
        refuse 1 "SEED=$seed: there is no solution here to see what it does then" "without SEED it takes the cases that everybody has"
    fi
done <"$WANTED"
if [ -s "$work/derive" ]; then
    echo "grade: what solutions do in new cases: SEED=$seed" >&2
    LIBRARY=$BUILD/libbook.a in_background xargs -0 -a "$work/derive" -n 4 -P "$JOBS" $begin sh tests/grader/derive.sh "$JUDGE"
fi
while read -r id title folder; do
    [ -f "$work/$id.tsv" ] || cp "$PREPARED/$id/seed-$seed.tsv" "$work/$id.tsv"
    [ -z "$PART" ] || [ "$(grep -c ^part "$work/$id.tsv")" -ge "$PART" ] || refuse 1 "PART: $id has $(grep -c ^part "$work/$id.tsv") parts" "make grade LABS=$id shows them"
done <"$WANTED"
# What the sheets' numbers are on each student's machine. What was computed before is kept.
NUMBERS='' computed=$BUILD/lab/numbers
numbers_of() { # LAB CHAPTER ID: "ID FILE", and what makes the file if it is not there
    machine=$work/$3.machine
    [ -f "$machine" ] || sh tests/grader/draw.sh "$3" >"$machine"
    file=$computed/$1-$(cat "$machine" "$2/lab.md" "$2/lab_answers.md" "$work/library" | sha256sum | cut -c -16)
    [ -s "$file" ] || printf '%s\0' "$BUILD" "$machine" "$file" "$2" >>"$work/compute"
    echo "$3 $file"
}
if [ -n "$STUDENTS" ]; then
    mkdir -p "$computed" && sha256sum "$BUILD/libbook.a" >"$work/library"
    awk -f tests/grader/roster.awk "$STUDENTS" >"$work/students"
    ids=$(cut -f 1 "$work/students" | uniq)
    while read -r lab chapter; do
        for id in $ids; do numbers_of "$lab" "$chapter" "$id"; done
    done <"$work/labs" >"$work/files"
    if [ -s "$work/compute" ]; then
        echo "grade: what the sheets ask for, on the machines of $(echo "$ids" | wc -l) students" >&2
        in_background xargs -0 -a "$work/compute" -n 4 -P "$JOBS" $begin sh tests/grader/numbers.sh
    fi
    while read -r id file; do sed "s/^/$id	/" "$file"; done <"$work/files" >"$work/numbers"
    NUMBERS=$work/numbers STUDENTS=$work/students
fi
export NUMBERS STUDENTS
find "$work" -name '*.tsv' -exec chmod 600 {} +

# ---- does it work here -------------------------------------------------------------------------------

. tests/grader/sandbox.sh
COUNTER=$(memory_counter)
export COUNTER
why=$(make_book 2>&1) || refuse 1 "the project cannot be copied to $work: $(echo "$why" | sed 's/^[a-z]*: //;q')" "there it is for whoever runs what is handed in"

# It works if a program that does nothing can be made and started in it, with the first exercise's commands.
mkdir -m 777 "$work/try" && chmod 777 "$work/try"
[ "$TRUST" = contained ] || chmod 711 "$work"
set -- "$PREPARED"/*
id=${1##*/}
COMPILE=$(cat "$PREPARED/$id/compile") LINK=$(cat "$PREPARED/$id/link")
export COMPILE LINK
[ "$TRUST" = own ] && closed='' || closed='test ! -w / &&'
# shellcheck disable=SC2016
in_sandbox 60 "$work/try" "$work/said" "$closed"' SOURCE=$OWN/your_part.c GIVEN=-lm LIBRARY=libbook.a && export SOURCE GIVEN LIBRARY &&
    printf "#include \"common/base/error.h\"\nint main(void) { return 0; }\n" >"$SOURCE" &&
    sh -c "$COMPILE -c -o \"\$OWN/your_part.o\"" && sh -c "$LINK" && "$OWN/program" && echo works' \
    --setenv COMPILE "$COMPILE" --setenv LINK "$LINK" --bind "$work/try" /own || :
[ "$(tail -n 1 "$work/said")" = works ] || {
    # (On a full disk the compiler's message is not in "$work/said": that is full, too.)
    why=$(head -c 8000000 /dev/zero 2>&1 >"$work/try/room" | grep . ||
        grep -v ^collect2 "$work/said" | grep -m 1 'error\|denied\|cannot' || head -n 1 "$work/said")
    case $TRUST:$why in
    contained:bwrap:*amespace* | contained:bwrap:*ermitted* | contained:bwrap:*'uid map'*)
        refuse 1 "strangers' code is run in a sandbox, and none can be made here: $why" "in a machine that is thrown away afterwards: TRUSTED=1" ;;
    contained:*)
        command -v bwrap >/dev/null || refuse 1 "strangers' code is run in a sandbox, and there is none: no bwrap" "make setup grade installs bubblewrap"
        refuse 1 "no program can be made and started in the sandbox: $why" "it sees /usr and what it needs of the project, and nothing else" ;;
    user:*) refuse 1 "what is handed in is run by another user, who cannot make and start a program: $why" "may others enter $work, and all folders above it?" ;;
    *) refuse 1 "no program can be made and started in $work: $why" "make exercise-$id shows more" ;;
    esac
}
[ -z "$from" ] || command -v bsdtar >/dev/null || refuse 1 "there is no bsdtar to unpack archives with" "make setup grade installs libarchive-tools"
[ -z "$JSON$GRADESCOPE" ] || command -v jq >/dev/null || refuse 1 "there is no jq to write $JSON$GRADESCOPE with" "make setup grade installs jq"
[ "$TRUST" = own ] || case $COUNTER in
'') echo "grade: no cgroup counts memory here: each of up to $THREADS processes may have $((2 * MEMORY)) MB" >&2 ;;
*) echo "grade: a hand-in may have $MEMORY MB in all ($COUNTER)" >&2 ;;
esac

# ---- grading -----------------------------------------------------------------------------------------

umask "$umask"
set -- chapters
[ -z "$SUBMISSION" ] || set -- "$SUBMISSION"
if [ -n "$CLASS" ]; then # each in it but tables, which a grading before may have written there
    find "$CLASS" -mindepth 1 -maxdepth 1 ! -name '.*' ! \( -type f \( -name '*.csv' -o -name '*.json' \) \) -print0 | sort -z >"$work/all"
    [ -s "$work/all" ] || refuse 1 "$CLASS: nothing in it" "a folder with a folder or an archive for each"
    [ "$(tr -cd '\n\t' <"$work/all" | wc -c)" = 0 ] || refuse 1 "$CLASS: a name in it has a line end or a tab in it" "give it another one"
    command exec 9>"$BUILD/lab/grading" || :
    why=$(flock -E 75 -w 5 9 2>&1) || [ $? != 75 ] || refuse 1 "another class is being graded here" "one after the other, or each in a BUILD= of its own"
    if [ "$(head -n 1 "$rows" 2>/dev/null)" = "$(header "$seed")" ]; then
        # (What was written of one that was not done is nothing.)
        awk -F '\t' 'FNR == NR { done[$1] = done[$1] || $2 == "done"; next } FNR == 1 || done[$1]' "$rows" "$rows" >"$work/rows"
        echo "grade: goes on: $(grep -c '	done$' "$work/rows") are graded (to begin anew: rm $rows)" >&2
    else
        header "$seed" >"$work/rows"
    fi
    cp "$work/rows" "$rows.new" && mv "$rows.new" "$rows"
else
    rows=$work/rows
    printf '%s\0' "$@" >"$work/all"
    : >"$rows"
fi
ROWS=$(realpath "$rows")
export ROWS
if [ -n "$CLASS" ]; then xargs -0 -a "$work/all" -n 1 "$JUDGE" shown | sed 's|.*/||'; else "$JUDGE" shown "$(printf '%s' "${SUBMISSION:-your exercises}" | head -c 400)"; fi >"$work/names"
twice=$(awk 'seen[$0]++ { print; exit }' "$work/names")
[ -z "$twice" ] || refuse 1 "$CLASS: two names in it are both shown as $twice" "give one of them another name"
tr '\0' '\n' <"$work/all" | paste "$work/names" - | while IFS='	' read -r name path; do
    grep -qxFe "$name	done" "$rows" || printf '%s\0' "$path"
done >"$work/left"
[ ! -s "$work/left" ] || in_background xargs -0 -a "$work/left" -n 1 -P "$JOBS" $begin sh tests/grader/one.sh || :

# ---- tables --------------------------------------------------------------------------------------------

# In the order of names. One without its last row has taken the grader down.
awk -F '\t' '
    FNR == NR { name[++n] = $0; next }
    $2 == "done" { done[$1] = 1; next }
    { rows[$1] = rows[$1] $0 "\n" }
    END { for (i = 1; i <= n; i++) printf "%s", done[name[i]] ? rows[name[i]] : name[i] "\terror\tthe grader failed: above it says why\n" }
' "$work/names" "$rows" >"$work/ordered"
awk -f tests/grader/report.awk "$work/ordered"
written() { # FILE COMMAND..: as a whole, or not at all
    [ -n "$1" ] || return 0
    { why=$("$2" "$3" 2>&1 >"$work/table") && why=$(cp "$work/table" "$1.new" 2>&1) && why=$(mv "$1.new" "$1" 2>&1); } ||
        refuse 1 "$1: cannot be written: ${why##*: }" "make grade again; of a class, what was graded is kept"
}
as_csv() { awk -v csv=1 -f tests/grader/report.awk "$work/ordered"; }
as_json() { jq -Rs --indent 1 --arg form "$1" --arg trust "$TRUST" -f tests/grader/report.jq "$work/ordered"; }
written "$CSV" as_csv ''
written "$JSON" as_json "${CLASS:+class}"
written "$GRADESCOPE" as_json gradescope
[ -z "$CLASS" ] || mv "$rows" "$BUILD/lab/grades.tsv"
! grep -q '	error	' "$work/ordered" || exit 1
[ "$STRICT" != 1 ] || awk -F '\t' '$3 == "0" && $4 < $5 { lost = 1 } END { exit lost }' "$work/ordered"
