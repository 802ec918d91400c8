#!/bin/sh
# labs.sh PROGRAM LABS: the exercises that LABS names, in their order, "04-1 chapters/04_name/exercises/1_title" in a line
# each. LABS has exercises and whole chapters: "04-1 06-2", "04-1,06-2", "04"; "" means all. PROGRAM is who complains if
# there is none of a name, or only a question. Of a chapter without code there are none, but it has a lab.
# labs.sh PROGRAM LABS ids: the numbers alone, in one line; nothing for "", and "none" if there is none.
# (A copy of an exercise's folder, 1_larger_batches_old, comes after it.)
set -eu
printf '%s\n' chapters/*/exercises/[0-9]*/your_part.c chapters/*/exercises/[0-9]*/question.md chapters/*/lab.md | sort -t / -k 2,2 -k 4,4 | wanted=$2 awk -F / -v program="$1" -v ids="${3:-}" '
    BEGIN { wanted = ENVIRON["wanted"]; gsub(",", " ", wanted); n = split(wanted, names, " "); for (i in names) wants[names[i]] }
    {
        split($2, chapter, "_")
        id = chapter[1] "-" substr($4, 1, index($4, "_") - 1)
        if ($3 == "lab.md") { is[chapter[1]]; next }
        if ($5 == "question.md") { asks[id]; next }
        if (id in is) next
        is[id]; all = all " " id
        if (id in wants || chapter[1] in wants || n + length(ids) == 0)
            list = list (ids == "" ? id " chapters/" $2 "/exercises/" $4 "\n" : (list == "" ? "" : " ") id)
    }
    function refuse(error, hint) {
        print program ": error: LABS: " error "\nhint: " hint >"/dev/stderr"
        exit failed = 1
    }
    END {
        for (i = 1; i <= n; i++) {
            if (names[i] in is) continue
            if (names[i] in asks)
                refuse(names[i] " asks questions without code: nothing to grade", "make exercise-" names[i] " shows them; answers go into your_answers.md of the chapter")
            refuse("there is no exercise " names[i] ", nor such a chapter", "there are" all)
        }
        if (ids != "" && n > 0 && list == "") list = "none"
        printf "%s%s", list, ids == "" ? "" : "\n"
    }'
