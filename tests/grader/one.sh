#!/bin/sh
# one.sh ENTRY: grades one hand-in and appends its rows to $ROWS, all at once. grade.sh says what the rows are, and sets
# the variables that are not set here. What strangers wrote is made visible (judge shown) before it comes into a row.
set -eu
. tests/grader/sandbox.sh
entry=$1 name=${1##*/}
case $TRUST in own) name='your exercises' ;; *) [ -n "$CLASS" ] || name=$entry ;; esac
shown() { "$JUDGE" shown "$(printf '%s' "$1" | head -c 400)"; } # (of what a shell would cut off, the end is not needed)
shown=$(shown "$name")
outer=$(mktemp -d "$EXPECTED/XXXXXX") && copy=$outer.copy || exit 1
trap 'rm -rf "$outer" "$copy"' EXIT
trap 'exit 1' HUP INT TERM
umask 022 # (grade.sh)
[ "$TRUST" = contained ] || chmod 711 "$outer" # another user has to come through
own=$outer/own
mkdir -m 777 "$own" && chmod 777 "$own"
fail() { # by a fault of this machine or of the grader, or it cannot be read: no points rather than 0
    printf '%s\terror\t%s\n' "$shown" "$(shown "$1")" >"$outer/rows"
    finish
}
cannot() { fail "$1: $(echo "$why" | sed 's/^[a-z]*: //;q')"; } # WHAT: and why is what the command said
fail_if_full() { # (A linker, for one, does not say that it is.)
    why=$(head -c 16000000 /dev/zero 2>&1 >"$outer/room") || { rm -rf "$outer/room" "$outer"/??-?* && cannot "$outer cannot be written to"; }
}
fail_if_out_of_memory() { # (Where a cgroup counts what a hand-in has, that is its own fault.)
    [ -n "$COUNTER" ] || [ "$(times_out_of_memory)" = "$out_of_memory" ] || fail "this machine's memory ran out: it has too little, or the hand-in takes all that there is"
}
finish() {
    printf '%s\tdone\n' "$shown" >>"$outer/rows"
    # (The line end first: after what a full disk has cut off, too, a new row begins. Where there are no locks, what one
    # write() appends is in one piece, too.)
    { flock 8 2>/dev/null || :; { echo && cat "$outer/rows"; } >&8; } 8>>"$ROWS" || exit 1
    [ -z "$CLASS" ] || echo "graded: $shown" >&2
    exit 0
}

# ---- what is handed in -----------------------------------------------------------------------------

# Modes may keep out who is to read it: another user, where root grades, or even its owner. Then a copy is read.
is_closed() {
    [ "$(id -u)" = 0 ] && set -- ! -perm -004 -o -type d ! -perm -001 || set -- ! -readable -o -type d ! -executable
    [ -n "$(find -H "$entry" ! -type l \( "$@" \) -print -quit 2>/dev/null)" ]
}
is_link() { [ -n "$CLASS" ] && [ -L "$entry" ]; }
from=$(realpath -- "$entry")
if ! is_link && { [ "$TRUST" = user ] || { [ "$TRUST" = contained ] && is_closed; }; }; then
    # (The build folder may be in what is handed in. In a namespace of his own its owner may read all.)
    [ "$TRUST" = user ] && tmp=/tmp || tmp=${TMPDIR:-/tmp}
    copy=$(mktemp -d "$tmp/grade.XXXXXX") && chmod 711 "$copy" && from=$copy/submission || fail "what was handed in cannot be copied to $tmp"
    why=$(cp -rHT "$entry" "$from" 2>&1) || unshare -r cp -rHT "$entry" "$from" 2>/dev/null || cannot "what was handed in cannot be copied"
    chmod -R u+rwX,go+rX,a-s "$from"
fi
why=$(cp "$WANTED" "$own/wanted" 2>&1) || cannot "$own cannot be written to"
if is_link; then
    echo "a link, which is not followed" >"$own/problem"
else
    WANTED_THERE=$own/wanted FROM=$from NAME=${name##*/}
    [ "$TRUST" != contained ] || WANTED_THERE=/own/wanted FROM=/submission
    export WANTED_THERE FROM NAME
    # shellcheck disable=SC2016
    in_sandbox 60 "$own" "$outer/said" 'sh tests/grader/collect.sh "$WANTED_THERE" "$FROM" "$NAME"' \
        --setenv WANTED_THERE "$WANTED_THERE" --setenv FROM "$FROM" --setenv NAME "$NAME" \
        --bind "$own" /own --ro-bind "$from" /submission || case $? in
    125 | 126 | 127) fail "it cannot be unpacked here: $(head -n 1 "$outer/said")" ;;
    *)
        fail_if_full
        shown "$(head -c 400 "$outer/said")" >&2
        echo "it could not be unpacked in a minute and in $FILES MB" >"$own/problem"
        ;;
    esac
fi
chmod 755 "$own"

# ---- an exercise -----------------------------------------------------------------------------------

# What the compiler or the linker said first, without the folder.
compile_error() { sed -n '/error: /{s|^[^ ]*/your_part|your_part|;p;q}' "$1"; }
link_error() {
    error=$(sed -n "s/.*undefined reference to /nothing defines /p;s/.*multiple definition of \([^;]*\).*/defined here, too: \1/p" "$1" | head -n 1)
    [ -n "$error" ] || error=$(compile_error "$1")
    [ -n "$error" ] && echo "$error" || tail -n 1 "$1"
}
# Sets reason and hint where it is not built.
build() { # ID FOLDER
    status=0 COMPILE=$(cat "$PREPARED/$1/compile") LINK=$(cat "$PREPARED/$1/link")
    export COMPILE LINK
    # shellcheck disable=SC2016
    in_sandbox 60 "$work" "$said" "GIVEN=given/$1.o LIBRARY=libbook.a sh tests/grader/build.sh $2 "'"$COMPILE" "$LINK"' --setenv COMPILE "$COMPILE" \
        --setenv LINK "$LINK" --bind "$work" /own || status=$?
    case $status in
    0) return ;;
    2) reason="does not compile: $(compile_error "$said")" hint="make exercise-$1 shows all that the compiler says" ;;
    3) reason="not run: $(sed -n 's/^your_part.c: error: //p' "$said")" hint=$(sed -n 's/^hint: //p' "$said") ;;
    4) reason="does not link: $(link_error "$said")" hint="the exercise's functions, under their names" ;;
    125 | 126 | 127) fail "the compiler cannot be run: $(head -n 1 "$said")" ;;
    *) reason="does not compile: the compiler did not end in a minute, or took more memory than there is for it" \
        hint="a macro or an #include without end?" ;;
    esac
}
# What came of it, judged.
run() { # ID
    chmod 755 "$work" # what runs does not change what will run
    rm -f "$work/facts.tsv"
    why=$(cp /dev/null "$work/facts.tsv" 2>&1 && chmod 666 "$work/facts.tsv" 2>&1) || cannot "$work cannot be written to"
    began=$(date +%s%N) why=
    # shellcheck disable=SC2016
    in_sandbox "$LIMIT" "$work" "$said" "exec \"\$OWN/program\" --facts \"\$OWN/facts.tsv\" $(sed -n 's/^seed\t//p' "$EXPECTED/$1.tsv")" \
        --ro-bind "$work" /own --bind "$work/facts.tsv" /own/facts.tsv || why="the program ended with status $?"
    case $why in
    *\ 137) why="not ended after $LIMIT seconds" ;;
    *\ 125 | *\ 126 | *\ 127) fail "it cannot be run: $(head -n 1 "$said")" ;;
    esac
    took=$(awk -v ns=$(($(date +%s%N) - began)) 'BEGIN { printf "%.3f", ns / 1e9 }')
    "$JUDGE" rows "$EXPECTED/$1.tsv" "$work/facts.tsv" "$why" "$said"
}
grade() { # ID FOLDER
    work=$outer/$1 said=$outer/said reason='' hint='' took=''
    mkdir -m 777 "$work" && chmod 777 "$work"
    if [ -f "$own/$1.problem" ]; then
        fail "handed in: $(cat "$own/$1.problem")"
    elif [ ! -f "$own/$1.c" ]; then
        hint="hand in ${2##*/}/your_part.c, or $1.c" reason="not handed in"
        [ ! -f "$own/$1.meant" ] || reason="not handed in ($(cat "$own/$1.meant") is not taken for it)"
    else
        why=$(cp "$own/$1.c" "$work/your_part.c" 2>&1) || cannot "$work cannot be written to"
        build "$1" "$2"
    fi
    if [ -n "$reason" ]; then
        sed -n 's/^part\t//p' "$EXPECTED/$1.tsv" | awk '{ of = $1; sub(/^[0-9]+\t/, ""); print NR "\t0\t" of "\t" $0 "\t\t" }'
    else
        run "$1"
    fi >"$outer/parts"
    awk -F '\t' '$2 < $3 { lost = 1 } END { exit lost }' "$outer/parts" || {
        [ ! -f "$own/problem" ] || fail "handed in: $(cat "$own/problem")"
        fail_if_out_of_memory && fail_if_full
    }
    reason=$(shown "$reason") hint=$(shown "$hint") title=${2##*/} line="$shown	$1"
    export reason hint title line took
    awk -F '\t' -v OFS='\t' -v wanted="$PART" '
        wanted != "" && $1 != wanted { next }
        { points += $2; of += $3; rows = rows ENVIRON["line"] "\t" $0 "\n" }
        END {
            title = substr(ENVIRON["title"], 3)
            gsub("_", " ", title)
            print ENVIRON["line"], 0, points + 0, of, title, ENVIRON["reason"], ENVIRON["hint"], ENVIRON["took"]
            printf "%s", rows
        }' "$outer/parts" >>"$outer/rows"
    rm -rf "$work"
}

# ---- a lab's numbers -----------------------------------------------------------------------------------

note() { printf '%s\tnote\t%s\n' "$shown" "$(shown "$1")" >>"$outer/rows"; }
# Sets who: whose ID or name is in that of the hand-in, or else on the machine's file.
find_student() {
    who=$(printf '%s\n' "$name" | awk -F '\t' -f tests/grader/student.awk "$STUDENTS" -)
    machine=$([ ! -f "$own/machine" ] || sed -n 's/^about  *drawn for \([A-Za-z0-9._-]*\):.*/\1/p' "$own/machine" | head -n 1)
    case $who in
    *\ *)
        case " $who " in *" $machine "*) ;; *) note "whose is it? Its name fits $who" && machine='' ;; esac
        who=$machine
        ;;
    '') ! cut -f 1 "$STUDENTS" | grep -qxFe "$machine" || { who=$machine && note "taken for $who's, by the machine that is handed in"; } ;;
    *) [ -z "$machine" ] || [ "$machine" = "$who" ] || note "hands in the machine of $machine" ;;
    esac
    [ -n "$who" ] && printf '%s\tstudent\t%s\n' "$shown" "$who" >>"$outer/rows" || note "nobody's of the roster: numbers are not graded"
}
numbers() { # NN
    answers=$own/$1.answers
    [ -f "$answers" ] || { answers=/dev/null && note "without your_answers.md of lab $1"; }
    grep "^[^	]*	$1	" "$NUMBERS" >"$outer/numbers"
    awk -v who="$who" -f tests/grader/answered.awk "$outer/numbers" "$answers" >"$outer/parts"
    grep '^note' "$outer/parts" | while IFS='	' read -r _ text; do note "$text"; done
    [ ! -f "$own/$1.predictions" ] || note "$(grep -c '^- ' "$own/$1.predictions") predictions in lab $1"
    name=$shown lab=$1 awk -F '\t' -v OFS='\t' '
        $1 == "note" { next }
        { points += $2; of += $3; rows = rows ENVIRON["name"] "\tlab-" ENVIRON["lab"] "\t" $0 "\n" }
        END { print ENVIRON["name"], "lab-" ENVIRON["lab"], 0, points, of, "numbers", "", "", ""; printf "%s", rows }' "$outer/parts" >>"$outer/rows"
}

out_of_memory=$(times_out_of_memory)
while read -r id title folder; do grade "$id" "$folder"; done <"$WANTED"
if [ -n "$NUMBERS" ]; then
    find_student
    [ -z "$who" ] || for lab in $(cut -f 2 "$NUMBERS" | sort -u); do numbers "$lab"; done
fi
finish
