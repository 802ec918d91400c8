#!/bin/sh
# answers.sh CHAPTER: the file in which a student answers, on stdout: the questions of chapters/NN_name/lab.md, and what each exercise
# that is there asks for besides code, each with room below. make lab-kit puts it at CHAPTER/your_answers.md; make hand-in knows by
# it whether anything was written.
set -eu
chapter=$1
sed -n 's/^# \(Lab .*\)/# \1: your answers/p' "$chapter/lab.md"
printf '\nWrite below each question. What is on paper may stay there.\n'
# "1. Which .." up to the next number; the lines that go on are indented.
awk '
    /^## / { on = $0 == "## Questions"; next }
    on && /^[0-9]+\. / { number = $1; sub(/^[0-9]+\. /, ""); print "\n## Question " number + 0 "\n" }
    on && NF { sub(/^ +/, ""); print "> " $0 }' "$chapter/lab.md"
for part in "$chapter"/exercises/[0-9]*/your_part.c; do
    [ -f "$part" ] || continue
    id=${chapter##*/} title=${part%/*}
    printf '\n## Exercise %s-%s\n\n' "${id%%_*}" "$(basename "$title" | cut -d _ -f 1)"
    awk '/^\/\/ \*\*What to hand in\.\*\*/ { on = 1 } on && !/^\/\/ ./ { exit }
        on { sub(/^\/\/ /, ""); sub(/^\*\*What to hand in\.\*\* /, ""); print "> " $0 }' "$part"
done
