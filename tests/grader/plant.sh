#!/bin/sh
# plant.sh FOLDER MISTAKE..: prints your_part.c of an exercise in which mistakes are to be found, with these of FOLDER/rivals
# in it: its text, up to the paragraph that says YOUR CODE HERE, and then the functions of solution.c.
# plant.sh FOLDER for ID: prints which three are drawn for that student, of those that "# drawable:" in rivals names.
set -eu
folder=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ "$1" = for ]; then
    for mistake in $(sed -n 's/^# drawable: //p' "$folder/rivals"); do
        echo "$(printf '%s %s %s' "$2" "$folder" "$mistake" | sha256sum) $mistake"
    done | sort | head -n 3 | sed 's/.* //' | xargs
    exit
fi
cp "$folder/solution.c" "$work/solution.c"
for mistake; do
    awk -v rival="$mistake" -f tests/grader/rival.awk "$folder/rivals" "$work/solution.c" >"$work/next"
    mv "$work/next" "$work/solution.c"
done
awk '{ print } /YOUR CODE HERE/ { found = 1 } found && /^$/ { exit }' "$folder/your_part.c"
awk 'body { print } /^#include "your_part.h"$/ { getline; body = 1 }' "$work/solution.c" | sed '/^ \{1,\}$/d' # (where a line was taken out)
