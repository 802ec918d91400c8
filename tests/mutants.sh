#!/bin/sh
# mutants.sh BUILD [MAKE'S ARGUMENT..]: do the tests catch mistakes? It plants COUNT (30) mistakes of one token or one call
# left out, drawn by SEED (25), in the kernels, in common and in what chapters teach, one at a time, in a clone of what is
# committed. First make test has to find each, then make test-all those that it did not. (This is no test: it takes hours.)
#
# BUILD/mutants/SEED.tsv has a row for each: FILE:LINE, the line as it was and as it became, and what found it: the
# compiler or a test; -, nothing; ?, make test did not. Run again, it goes on where it was.
set -eu
build=${1:?usage: mutants.sh BUILD [MAKES ARGUMENT..]}
shift
cd "$(dirname "$0")/.."
mkdir -p "$build/mutants"
rows=$(realpath "$build/mutants")/${SEED:-25}.tsv tree=$(realpath "$build/mutants")/tree
[ -d "$tree" ] || git clone -q . "$tree"
touch "$rows"
export TEST_SECONDS="${TEST_SECONDS:-400}" # some mutants never end
running=
stop() { [ -z "$running" ] || kill -- -"$running" 2>/dev/null || :; }
trap 'stop; git -C "$tree" checkout -q .; exit 1' HUP INT TERM

# FILE LINE COLUMN FROM TO of all that could be planted, in an order that is drawn.
places() {
    (cd "$tree" && git ls-files 'kernels/*.[ch]' 'kernels/*.cu' 'common/*.[ch]' 'chapters/*/*.[ch]' ':!*/exercises/*' ':!*/behind/*' |
        xargs awk -v OFS='\t' '
            BEGIN {
                n = split("< <= <= < > >= >= > == != != == && || || && + - - + * + / * % / += -= -= +=", spaced, " ")
                for (i = 1; i < n; i += 2) becomes[" " spaced[i] " "] = " " spaced[i + 1] " "
                n = split("true false false true [0] [1] (! ( ++; --; 0; 1; 1) 2)", token, " ")
                for (i = 1; i < n; i += 2) becomes[token[i]] = token[i + 1]
            }
            /^[ \t]*(\/\/|#)/ || /"|assert|^typedef|^extern/ { next } # no code; words, and what is checked while compiling
            { sub(/ *\/\/.*/, "") }
            /^ +[a-z_]+\(.*\);$/ && !/return|free/ { print FILENAME, FNR, 1, $0, ";" }
            {
                for (from in becomes)
                    for (at = 0; i = index(substr($0, at + 1), from);) print FILENAME, FNR, at += i, from, becomes[from]
            }') |
        sort | awk -v state="${SEED:-25}" '{ state = state * 16807 % 2147483647; print state "\t" $0 }' |
        sort -n | cut -f 2- | head -n "${COUNT:-30}"
}

# Makes it in the clone, until it ends or a test has failed ("not ok 3 # SKIP" is none): `found` is then what found a mistake.
look() { # GOAL.. [MAKE'S ARGUMENT..]
    rm -rf "$tree/build/mutant/tests/tap"
    setsid make -C "$tree" BUILD=build/mutant "$@" >"$rows.log" 2>&1 </dev/null &
    running=$!
    while kill -0 $running 2>/dev/null && ! grep -qs '^not ok [0-9]* -' "$tree"/build/mutant/tests/tap/*; do sleep 1; done
    failed=$(grep -ls '^not ok [0-9]* -' "$tree"/build/mutant/tests/tap/* | head -n 1)
    stop
    ended=0
    wait $running || ended=$?
    running=
    found=-
    [ $ended = 0 ] || found=$(sed -n 's/^[^ ]*:[0-9]*: error: .*/compiler/p; s/^✗ \(.*\), status.*/\1/p; s/^make.*\*\*\* .*/make/p' "$rows.log" | head -n 1)
    [ -z "$failed" ] || found=$(basename "$failed" .tap)
}
plant() { # FILE LINE COLUMN FROM TO: the line becomes `new`, and was `old`
    old=$(sed -n "$2p" "$tree/$1")
    line=$2 at=$3 from=$4 to=$5 awk 'NR == ENVIRON["line"] {
        $0 = substr($0, 1, ENVIRON["at"] - 1) ENVIRON["to"] substr($0, ENVIRON["at"] + length(ENVIRON["from"])) } { print }' "$tree/$1" >"$rows.planted"
    new=$(sed -n "$2p" "$rows.planted")
    cp "$rows.planted" "$tree/$1"
}
restore() { git -C "$tree" checkout -q .; }

restore
[ -s "$rows.places" ] || {
    look test "$@"
    [ "$found" = - ] || { echo "mutants: make test fails as it is: $rows.log" >&2 && exit 1; }
    places >"$rows.places"
}
for goals in test "long-tests sanitize"; do
    while IFS='	' read -r file line at from to; do
        place=$file:$line:$at
        found=$(awk -F '\t' -v place="$place" '$1 == place { print $4 }' "$rows")
        case $goals$found in test | long*'?') ;; *) continue ;; esac
        plant "$file" "$line" "$at" "$from" "$to"
        # shellcheck disable=SC2086
        look $goals "$@"
        restore
        [ "$goals$found" != test- ] || found='?'
        { grep -vF "$place	" "$rows" || :; } >"$rows.new"
        printf '%s\t%s\t%s\t%s\n' "$place" "$old" "$new" "$found" | sed 's/\t  */\t/g' | tee -a "$rows.new"
        mv "$rows.new" "$rows"
    done <"$rows.places"
done
