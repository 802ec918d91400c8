#!/bin/sh
# goals.sh GOAL..: says of a goal that there is not which one is nearest to it, and fails. (Their names: make help's, what
# is .PHONY, the chapters, the exercises.)
goals() {
    sed -n 's/^make \([a-z-]*\) .*/\1/p' .make/help.txt
    cat Makefile .make/*.mk tests/*.mk tests/*/*.mk plots/*/*.mk | sed -n 's/^\.PHONY: //p' | tr ' ' '\n' | grep '^[a-z]'
    ls -d chapters/*/exercises/*/ | sed 's|^chapters/\(..\)[^/]*/exercises/\([^_]*\)_.*|exercise-\1-\2|'
    ls chapters/*/main.c | sed 's|^chapters/\(..\).*|run-\1|'
}
for goal; do
    goals 2>/dev/null | grep -qxFe "$goal" && continue
    nearest=$(goals 2>/dev/null | awk -v word="$goal" '
        BEGIN { n = length(word); least = (n + 1) / 3 + 1 }
        { # the letters to add, leave out or replace; row[j]: from the first j of the word
            for (j = 0; j <= n; j++) row[j] = j
            for (i = 1; i <= length($0); i++) {
                before = row[0]++
                for (j = 1; j <= n; j++) {
                    replaced = before + (substr(word, j, 1) != substr($0, i, 1))
                    before = row[j]
                    row[j] = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1])
                    if (replaced < row[j]) row[j] = replaced
                }
            }
            if (row[n] < least) { least = row[n]; nearest = $0 }
        }
        END { print nearest }')
    echo "make: error: there is no goal or file '$goal'" >&2
    echo "hint: ${nearest:+did you mean make $nearest? }make help lists the goals" >&2
    exit 1
done
