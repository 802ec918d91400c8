#!/bin/sh
# answers.sh CHAPTER: the file in which a student answers: the questions of CHAPTER/lab.md, and what each exercise that is
# there asks for besides code. make lab-kit puts it at CHAPTER/your_answers.md; make hand-in tells by it whether anything
# was written.
set -eu
sed -n 's/^# \(Lab .*\)/# \1: your answers\n\nWrite below each question. What is on paper may stay there./p' "$1/lab.md"
# "1. Which .." up to the next number; the lines that go on are indented. A box stands below them, to be filled in.
awk '
    /^## / { on = $0 == "## Questions"; next }
    on && /^ *(- )?`[^`]*: ____`$/ { sub(/^ *(- )?`/, ""); sub(/`$/, ""); print "\n" $0; box = 1; next }
    on && box && NF { box = 0; if (!/^[0-9]+\. /) print "" }
    on && /^[0-9]+\. / { print "\n## Question " $1 + 0 "\n"; sub(/^[0-9]+\. /, "") }
    on && NF { sub(/^ +/, ""); print "> " $0 }' "$1/lab.md"
# A question without a program is on the sheet.
for folder in "$1"/exercises/[0-9]*; do
    id=$(basename "$1") && id=${id%%_*}-$(basename "$folder")
    if [ -f "$folder/your_part.c" ]; then
        asked=$(awk '/^\/\/ \*\*What to hand in\.\*\*/ { on = 1 } on && !/^\/\/ ./ { exit } on { print substr($0, 4) }' "$folder/your_part.c")
    elif [ -f "$folder/question.md" ] && [ -f "$folder/experiment.c" ]; then
        asked=$(sed -n '/^\*\*What to answer\.\*\*/,$p' "$folder/question.md")
    else
        continue
    fi
    printf '\n## Exercise %s\n\n' "${id%%_*}"
    printf "%s\n" "$asked" | sed 's/^\*\*[^*]*\*\* *//' | sed '/./,$!d; s/^/> /; s/ $//'
done
