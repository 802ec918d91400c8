#!/bin/sh
# lab_kit_test.sh BUILD: what students get has no solution, no answer and no wrong answer in it, has what was picked, is
# the same each time, and grades; and what they hand in is what they have written. Prints TAP. (That it works on a bare
# system, with a network and without, is tried by hand: chapters/for_instructors.md.)
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
case $1 in /*) build=$1 ;; *) build=$(pwd)/$1 ;; esac
cd "$root" || exit 1
LC_ALL=C
export LC_ALL
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
out=$work/out problems=$work/problems
: >"$out"
tests=0
verdict() { # STATUS NAME
    tests=$((tests + 1))
    [ "$1" -eq 0 ] && echo "ok $tests - $2" && return
    echo "not ok $tests - $2"
    cat "$out" "$problems" 2>/dev/null | sed 's/^/# /'
}
if ! ls chapters/*/exercises/*/solution.c >/dev/null 2>&1; then
    echo "1..1"
    echo "ok 1 - the lab kit # SKIP this is what students have"
    exit 0
fi
# The expected facts are this build's, the place for the archive is its own.
mkdir -p "$work/build/lab" && ln -s "$build/lab/exercises" "$work/build/lab/exercises"
kit() { # LABS OFFLINE CLASSROOM
    sh .lab/kit.sh "$work/build" "$1" "$2" "$3" >"$out" 2>"$problems"
}
archive=$work/build/lab/training-on-multiple-gpus.tar.gz

# ---- what is in it, and what is not ----------------------------------------------------------------

kit "" "" "" && mkdir "$work/all" && tar -C "$work/all" -xzf "$archive"
verdict $? "the archive is written"
all=$work/all/training-on-multiple-gpus
[ -d "$all" ] || { # all below would find nothing, and pass
    echo "1..$tests"
    exit 1
}
count() { find "$1" -path '*/exercises/[0-9]*/your_part.c' | wc -l; }
expected=$(ls "$build"/lab/exercises/*/expected.tsv | wc -l)
[ "$(count "$all")" = "$expected" ] && [ "$(grep -l 'YOUR CODE HERE' "$all"/chapters/*/exercises/*/your_part.c | wc -l)" = "$expected" ] &&
    [ "$(ls "$all"/chapters/*/exercises/*/expected.tsv | wc -l)" = "$expected" ]
verdict $? "each exercise that is built here is there, with a gap, and with what is expected"
# Lines of a solution that say something are nowhere in the archive, unless the chapters themselves have them.
cat chapters/*/exercises/*/solution.c | sed 's/^ *//' | awk 'length > 24' | sort -u >"$work/solutions"
find chapters common kernels tests -name solution.c -prune -o -name rivals -prune -o -name '*answers.md' -prune -o -path tests/lab -prune -o -type f -exec cat {} + |
    sed 's/^ *//' | grep -aFx -f "$work/solutions" | sort -u >"$work/elsewhere"
grep -Fxv -f "$work/elsewhere" "$work/solutions" >"$work/secret"
[ "$(wc -l <"$work/secret")" -gt $((5 * expected)) ]
verdict $? "there are more than $((5 * expected)) lines that only solutions have"
find "$all" -type f -exec cat {} + | sed 's/^ *//' | grep -aFx -f "$work/secret" >"$out"
[ ! -s "$out" ]
verdict $? "none of them is in the archive"
find "$all" -name '*answers.md' ! -name your_answers.md -o -name solution.c -o -name rivals -o -name for_instructors.md -o -path '*/tests/lab/*' -o -name '*.o' -o -path '*/.git/*' -o -path '*/build/*' >"$out"
[ ! -s "$out" ]
verdict $? "nor are solutions, answers, wrong answers, made-up hand-ins, or what was built"
find "$all" -maxdepth 1 -mindepth 1 ! -name '.*' -printf '%f\n' | sort | tr '\n' ' ' >"$out"
[ "$(cat "$out")" = "LICENSE Makefile README.md chapters common kernels plots tests " ]
verdict $? "its folders are the project's"
before=$(cksum <"$archive")
kit "" "" "" && [ "$(cksum <"$archive")" = "$before" ]
verdict $? "the same project gives the same bytes"

! grep 'for instructors:' "$all/.make/help.txt" >"$out" && grep -q '^make grade' "$all/.make/help.txt" && cmp README.md "$all/README.md" >>"$out" 2>&1 &&
    sh tests/links.sh "$all" >>"$out" && [ ! -s "$out" ]
verdict $? "make help speaks to students, and no link of README or of other texts leads to what they do not have"

kit "04-1 06-2" "" 1 && mkdir "$work/two" && tar -C "$work/two" -xzf "$archive"
two=$work/two/training-on-multiple-gpus
find "$two" -name your_part.c -printf '%P\n' | sort >"$out"
[ "$(wc -l <"$out")" = 2 ] && grep -q /1_larger_batches/ "$out" && grep -q /2_one_forward_one_backward/ "$out"
verdict $? "LABS picks exercises"
grep -q '^## Exercise 06-2' "$two/chapters/06_data_parallel_and_ddp/your_answers.md" &&
    ! grep -q '^## Exercise 06-1' "$two/chapters/06_data_parallel_and_ddp/your_answers.md"
verdict $? "the questions to be answered are about those"
grep -q 'LABS=04-1 PART=1 STRICT=1' "$two/.github/workflows/classroom.yml" && ! grep -q 'LABS=04-3' "$two/.github/workflows/classroom.yml"
verdict $? "CLASSROOM=1 adds a workflow with those"

kit "04,06-2" "" "" && tar -tzf "$archive" | grep '/your_part\.c$' >"$out"
[ "$(wc -l <"$out")" = 5 ] && [ "$(grep -c '/04_' "$out")" = 4 ]
verdict $? "LABS picks a chapter, with commas"
kit "04-1" "" "" &
sh .lab/kit.sh "$work/build" "06-2" "" "" >/dev/null 2>&1
wait
[ "$(tar -tzf "$archive" | grep -c '/your_part\.c$')" = 1 ] && ! ls -d "$work"/build/lab/kit.* >"$out" 2>/dev/null
verdict $? "two at once write one archive or the other"

refused() { # WORDS NAME
    [ $? -ne 0 ] && grep -q "error: .*$1" "$problems" && grep -q '^hint: ' "$problems" && [ "$(cksum <"$archive")" = "$before" ]
    verdict $? "$2"
}
before=$(cksum <"$archive")
kit "04-9" "" ""
refused 'no exercise 04-9' "an exercise that is not there: refused, and the old archive stays"
(cd "$two" && sh .lab/kit.sh "$work/build" "" "" "") >"$out" 2>"$problems"
refused 'no exercise here has a solution' "in what students have there is nothing to leave out: refused"

# ---- what is handed in -----------------------------------------------------------------------------

hand_in() { (cd "$two" && sh .lab/hand_in.sh "$work/handed" "$1") >"$out" 2>"$problems"; }
hand_in ""
[ $? -ne 0 ] && grep -q 'error: nothing to hand in' "$problems" && [ ! -e "$work/handed/hand-in.tar.gz" ]
verdict $? "nothing is written yet: nothing to hand in"
cp chapters/04*/exercises/1_*/solution.c "$two"/chapters/04_lenet_multi_gpu/exercises/1_larger_batches/your_part.c
echo "Because." >>"$two/chapters/04_lenet_multi_gpu/your_answers.md"
hand_in "" && [ "$(tar -tzf "$work/handed/hand-in.tar.gz" | tr '\n' ' ')" = "chapters/04_lenet_multi_gpu/exercises/1_larger_batches/your_part.c chapters/04_lenet_multi_gpu/your_answers.md " ]
verdict $? "what was written is handed in, with the answers"
trusted=--trusted
command -v bwrap >/dev/null && trusted=
if grep -q '^ARCHIVE' "$build/config.mk"; then
    "$build/lab/grade" $trusted --labs 04-1 "$build" "$work/handed/hand-in.tar.gz" >"$out" 2>"$problems" </dev/null && grep -q ' 10 of 10$' "$out"
    verdict $? "and is graded from that archive"
else
    tests=$((tests + 1))
    echo "ok $tests - and is graded from that archive # SKIP no libarchive (make setup grade)"
fi
hand_in "09-1"
[ $? -ne 0 ] && grep -q 'error: .*no exercise 09-1' "$problems"
verdict $? "an exercise that is not there"
echo "1..$tests"
