#!/bin/sh
# labs.sh PROGRAM LABS: the exercises that LABS names, in their order, "04-1 chapters/04_name/exercises/1_title" in a line
# each. LABS has exercises and whole chapters: "04-1 06-2", "04-1,06-2", "04"; "" means all. PROGRAM is who complains if
# there is none of a name.
# labs.sh PROGRAM LABS ids: the numbers alone, in one line, and nothing for "".
set -euf
program=$1 wanted=$(printf %s "$2" | tr ',' ' ') form=${3:-}
set +f
all=$(for part in chapters/*/exercises/[0-9]*/your_part.c; do
    folder=${part%/*} chapter=${part#chapters/} title=${part%/*}
    title=${title##*/}
    [ ! -f "$part" ] || echo "${chapter%%_*}-${title%%_*} $folder"
done)
set -f
for lab in $wanted; do
    # ("" makes a text of it: 4 is not 04.)
    printf '%s\n' "$all" | lab=$lab awk '{ split($1, part, "-"); lab = ENVIRON["lab"] "" }
        $1 == lab || part[1] "" == lab { found = 1 } END { exit !found }' || {
        echo "$program: error: LABS: there is no exercise $lab, nor such a chapter" >&2
        echo "hint: there are $(printf '%s\n' "$all" | cut -d ' ' -f 1 | tr '\n' ' ')" >&2
        exit 1
    }
done
printf '%s\n' "$all" | wanted="$wanted" awk -v ids="$form" '
    BEGIN { n = split(ENVIRON["wanted"], names, " "); for (i in names) is_wanted[names[i]] = 1 }
    { split($1, part, "-"); named = $1 in is_wanted || part[1] in is_wanted }
    ids != "" && named { printf "%s%s", space, $1; space = " " }
    ids == "" && (n == 0 || named)
    END { if (ids != "") print "" }'
