#!/bin/sh
# unread.sh: lists what nobody outside of the tests reads: functions of headers that are declared and defined and no more,
# members of enums that are named once, flags that no page, lab or sheet names, and columns of recorded tables whose name
# stands in no page and no figure. Some of it is right as it is (a table's last column, an enum that a file format numbers).
cd "$(dirname "$0")/.." || exit 1
code() { git ls-files 'common/*.[ch]' 'kernels/*.[ch]' 'kernels/*.cu' 'kernels/*.cuh' 'chapters/*.[ch]'; }
words=$(mktemp)
trap 'rm -f "$words"' EXIT
code | xargs cat | sed 's|//.*||' | grep -ow '[A-Za-z_][A-Za-z_0-9]*' | sort | uniq -c | awk '{ print $2, $1 }' >"$words"

often() { awk 'FNR == NR { n[$1] = $2; next } n[$1] <= '"$1"' { print "'"$2"' " $1 }' "$words" -; }
code | grep '\.h$' | xargs sed -n 's|//.*||; /^[a-z].*[;,]$/s/^[^(=]*[ *]\([a-z][a-z_0-9]*\)(.*/\1/p' | sort -u | often 2 function
code | xargs cat | sed 's|//.*||' | awk '/enum .*[{]/ { on = 1; sub(/.*enum[^{]*[{]/, "") } on { print } /[}]/ { on = 0 }' | grep -ow '[A-Z][A-Z_0-9]*' | sort -u | often 1 'enum member'

pages=$(git ls-files 'chapters/*.md' 'chapters/*/main.c' 'chapters/*.sbatch' 'chapters/*.py' .make/help.txt README.md)
code | xargs sed -n 's/^ *{"\([a-z][a-z-]*\)", FLAG_.*/\1/p' | sort -u | while read -r flag; do
    # shellcheck disable=SC2086
    grep -qe "--$flag\b" $pages || echo "flag --$flag"
done
for table in $(git ls-files 'plots/recorded/*.csv'); do
    for column in $(head -n 1 "$table" | tr , ' '); do
        git grep -qw "$column" -- 'plots/*.gp' 'plots/book' 'chapters/*.md' 'chapters/*.[ch]' || echo "column $column of $table"
    done
done
