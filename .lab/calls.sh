#!/bin/sh
# calls.sh YOUR_PART.o FOLDER: whether a part, compiled, does without what FOLDER/may_not_call lists, if that is there:
# what would be the exercise's answer, ready-made. A name in each line, or a pattern of the shell's; # begins a comment.
set -eu
part=$1 list=$2/may_not_call
[ -f "$list" ] || exit 0
used=$(nm -u "$part" | awk '{ print $NF }')
grep -v '^#' "$list" | while read -r pattern; do
    for name in $used; do
        # shellcheck disable=SC2254
        case $name in $pattern) ;; *) continue ;; esac
        echo "your_part.c: error: it uses $name, which is there already: to write that is the exercise"
        echo "hint: the names in $list are not to be used"
        exit 1
    done
done
