#!/bin/sh
# labs.sh PROGRAM LABS: the exercises that LABS names, in their order, "04-1 chapters/04_name/exercises/1_title" in a line
# each. LABS has exercises and whole chapters: "04-1 06-2", "04-1,06-2", "04"; "" means all. PROGRAM is who complains if
# there is none of a name.
# labs.sh PROGRAM LABS ids: the numbers alone, in one line, and nothing for "".
set -eu
# (A copy of an exercise's folder, 1_larger_batches_old, comes after it.)
printf '%s\n' chapters/*/exercises/[0-9]*/your_part.c | sed 's|/[^/]*$||' | sort | wanted=$2 awk -F / -v program="$1" -v ids="${3:-}" '
    BEGIN { wanted = ENVIRON["wanted"]; gsub(",", " ", wanted); n = split(wanted, names, " "); for (i in names) wants[names[i]] }
    {
        split($2, chapter, "_")
        id = chapter[1] "-" substr($4, 1, index($4, "_") - 1)
        if (id in is) next
        is[id]; is[chapter[1]]; all = all " " id
        if (id in wants || chapter[1] in wants || n + length(ids) == 0)
            list = list (ids == "" ? id " chapters/" $2 "/exercises/" $4 "\n" : (list == "" ? "" : " ") id)
    }
    END {
        for (i = 1; i <= n; i++) if (!(names[i] in is)) {
            print program ": error: LABS: there is no exercise " names[i] ", nor such a chapter\nhint: there are" all >"/dev/stderr"
            exit 1
        }
        printf "%s%s", list, ids == "" ? "" : "\n"
    }'
