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
parts=
for part in chapters/*/exercises/[0-9]*/your_part.c; do
    chapter=${part#chapters/} folder=${part%/*}
    title=${folder##*/}
    id=${chapter%%_*}-${title%%_*}
    case " $labs " in
    "  ") grep -q 'YOUR CODE HERE' "$part" || parts="$parts $part" ;;
    *" $id "*)
        ! grep -q 'YOUR CODE HERE' "$part" || echo "hand-in: $part still has YOUR CODE HERE" >&2
        parts="$parts $part"
        ;;
    esac
done
for lab in $labs; do
    case $lab in
    [0-9][0-9]-[0-9]) ls chapters/"${lab%-*}"_*/exercises/"${lab#*-}"_*/your_part.c >/dev/null 2>&1 || refuse "LABS: there is no exercise $lab" "ls chapters/*/exercises shows them" ;;
    *) refuse "LABS: not an exercise: $lab" 'LABS="04-1 06-2"' ;;
    esac
done
answers=
for file in chapters/*/your_answers.md; do # with more in it than the questions
    [ -f "$file" ] && ! sh .lab/answers.sh "${file%/*}" | cmp -s - "$file" && answers="$answers $file"
done
[ -n "$parts$answers" ] || refuse "nothing to hand in: each exercise still has YOUR CODE HERE" \
    "write a your_part.c in chapters/*/exercises, or answers in chapters/NN_name/your_answers.md; LABS=04-1 hands one in as it is"
mkdir -p "$build"
tar -czf "$build/hand-in.tar.gz.tmp" $parts $answers
mv "$build/hand-in.tar.gz.tmp" "$build/hand-in.tar.gz"
echo "hand-in: $build/hand-in.tar.gz:"
printf '  %s\n' $parts $answers
[ -n "$answers" ] || echo "hand-in: without answers: those to a sheet's questions go into chapters/NN_name/your_answers.md"
