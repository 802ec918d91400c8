#!/bin/sh
# answers.sh CHAPTER: the file in which a student answers: the questions of CHAPTER/lab.md, and what each exercise that is
# there asks for besides code. make lab-kit puts it at CHAPTER/your_answers.md; make hand-in tells by it whether anything
# was written.
set -eu
sed -n 's/^# \(Lab .*\)/# \1: your answers\n\nWrite below each question. What is on paper may stay there./p' "$1/lab.md"
# "1. Which .." up to the next number; the lines that go on are indented.
awk '
    /^## / { on = $0 == "## Questions"; next }
    on && /^[0-9]+\. / { print "\n## Question " $1 + 0 "\n"; sub(/^[0-9]+\. /, "") }
    on && NF { sub(/^ +/, ""); print "> " $0 }' "$1/lab.md"
sh tests/grader/labs.sh answers "" | grep " $1/" | while read -r id folder; do
    printf '\n## Exercise %s\n\n' "$id"
    awk '/^\/\/ \*\*What to hand in\.\*\*/ { on = 1 } on && !/^\/\/ ./ { exit }
        on { sub(/^\/\/ (\*\*What to hand in\.\*\* )?/, ""); print "> " $0 }' "$folder/your_part.c"
done
