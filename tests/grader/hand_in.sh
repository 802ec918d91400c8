#!/bin/sh
# hand_in.sh BUILD LABS: writes BUILD/hand-in.tar.gz: the parts that a student has written, of these exercises ("": of
# all that have been worked on), and chapters/*/your_answers.md where they are.
set -eu
build=$1 labs=$2
refuse() { # ERROR HINT
    echo "hand-in: error: $1" >&2
    echo "hint: $2" >&2
    exit 1
}
mkdir -p "$build"
work=$(mktemp -d "$build/hand-in.XXXXXX") || exit 1 # beside the archive: so it is there as a whole, or not at all
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
sh tests/grader/labs.sh hand-in "$labs" >"$work/labs"
parts=
while read -r id folder; do
    part=$folder/your_part.c
    if ! grep -q 'YOUR CODE HERE' "$part"; then
        parts="$parts $part"
    elif [ -n "$labs" ]; then
        echo "hand-in: $part still has YOUR CODE HERE" >&2
        parts="$parts $part"
    fi
done <"$work/labs"
answers=
for file in chapters/*/your_answers.md; do # with more in it than the questions
    [ -f "$file" ] && ! sh tests/grader/answers.sh "${file%/*}" | cmp -s - "$file" && answers="$answers $file"
done
[ -n "$parts$answers" ] || refuse "nothing to hand in: each exercise still has YOUR CODE HERE" \
    "write a your_part.c in chapters/*/exercises, or answers in chapters/NN_name/your_answers.md; LABS=04-1 hands one in as it is"
tar -czf "$work/hand-in.tar.gz" $parts $answers
mv "$work/hand-in.tar.gz" "$build/hand-in.tar.gz"
echo "hand-in: $build/hand-in.tar.gz:"
printf '  %s\n' $parts $answers
[ -n "$answers" ] || echo "hand-in: without answers: those to a sheet's questions go into chapters/NN_name/your_answers.md"
