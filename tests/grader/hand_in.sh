#!/bin/sh
# hand_in.sh BUILD LABS: writes BUILD/hand-in.tar.gz: the parts that a student has written, of these exercises ("": of
# all that have been worked on), and chapters/*/your_answers.md, predictions.md and my.machine where they are. Of an exercise
# in which mistakes are to be found, nothing says whether it has been worked on, so it goes along with others.
build=$1 labs=$2 program=hand-in
. tests/grader/begin.sh
sh tests/grader/labs.sh hand-in "$labs" >"$work/labs"
while read -r id folder; do
    part=$folder/your_part.c
    if ! grep -q 'YOUR CODE HERE' "$part"; then
        echo "$part"
    elif grep -q 'YOUR CODE HERE: in the' "$part"; then
        [ -n "$labs" ] && echo "$part" || echo "$part" >>"$work/along"
    elif [ -n "$labs" ]; then
        echo "hand-in: $part still has YOUR CODE HERE" >&2
        echo "$part"
    fi
done <"$work/labs" >"$work/files"
for file in chapters/*/your_answers.md; do # with more in it than the questions
    [ ! -f "$file" ] || sh tests/grader/answers.sh "${file%/*}" | cmp -s - "$file" || echo "$file"
done >>"$work/files"
[ -s "$work/files" ] || refuse "nothing to hand in: each exercise still has YOUR CODE HERE" \
    "write a your_part.c in chapters/*/exercises, or answers in chapters/NN_name/your_answers.md; LABS=04-1 hands one in as it is"
cat "$work/along" 2>/dev/null >>"$work/files" || :
ls chapters/*/predictions.md my.machine >>"$work/files" 2>/dev/null || : # what --predict has kept; whose machine it is
written "$build/hand-in.tar.gz" tar -czf "$work/new" -T "$work/files"
echo "hand-in: $build/hand-in.tar.gz:"
sed 's/^/  /' "$work/files"
grep -q your_answers.md "$work/files" || echo "hand-in: without answers: those to a sheet's questions go into chapters/NN_name/your_answers.md"
grep your_answers.md "$work/files" | xargs -r grep -c ': ____$' /dev/null | sed -n '/:0$/d; s/\(.*\):\(.*\)/hand-in: in \1 \2 numbers are open (____)/p'
