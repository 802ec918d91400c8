#!/bin/sh
# lab_kit_test.sh BUILD: a student who unpacks the archive finds no solution, no rival, no answer to a lab, no conclusion
# and no dead link; it has what was picked, is the same each time, and grades; what is handed in is what was written. Prints TAP.
set -u
. "$(dirname "$0")/tap.sh"
cd "$root" || exit 1
out=$work/out errors=$work/errors
shown="$out $errors"
nothing() { [ ! -s "$out" ] && verdict 0 "$1" || verdict 1 "$1"; } # was found
# The expected facts are this build's, the place for the archive is its own.
mkdir -p "$work/build/lab" && ln -s "$build/lab/exercises" "$work/build/lab/exercises"
kit() { # LABS OFFLINE CLASSROOM
    sh tests/grader/kit.sh "$work/build" "$1" "$2" "$3" >"$out" 2>"$errors"
}
archive=$work/build/lab/training-on-multiple-gpus.tar.gz

kit "" "" "" && mkdir "$work/all" && tar -C "$work/all" -xzf "$archive"
verdict $? "the archive is written"
all=$work/all/training-on-multiple-gpus
[ -d "$all" ] || exit 1 # all below would find nothing, and pass
expected=$(ls "$build"/lab/exercises/*/expected.tsv | wc -l)
[ "$(find "$all" -path '*/exercises/[0-9]*/your_part.c' -exec grep -l 'YOUR CODE HERE' {} + | wc -l)" = "$expected" ] &&
    [ "$(ls "$all"/chapters/*/exercises/*/expected.tsv | wc -l)" = "$expected" ]
verdict $? "each exercise that is built here is there, with a gap, and with what is expected"

# Lines that say something, of solutions and of rivals (what they put there), and of no other file of the project.
find chapters -name solution.c -o -name rivals >"$work/closed"
lines() { sed 's/^ *//; s/^.* => //; s/^| *//' | awk 'length > 24' | sort -u; }
xargs cat <"$work/closed" | lines >"$work/solutions"
git ls-files 2>/dev/null | grep . >"$work/files" || find chapters common kernels tests -type f >"$work/files"
grep -v '^tests/lab/' "$work/files" | grep -vFxf "$work/closed" | xargs -d '\n' cat 2>/dev/null | sed 's/^ *//' | grep -aFxf "$work/solutions" >"$work/elsewhere"
grep -vFxf "$work/elsewhere" "$work/solutions" >"$work/secret"
[ "$(wc -l <"$work/secret")" -gt $((15 * expected)) ]
verdict $? "there are more than $((15 * expected)) lines that only solutions and rivals have"
find "$all" -type f -exec cat {} + | sed 's/^ *//' | grep -aFxf "$work/secret" >"$out"
nothing "none of them is in the archive"
# Twelve words in a row are a sentence of its own. (Chapters may explain in their text what an answer says, too.)
find chapters -name lab_answers.md -o -path '*/exercises/*/answers.md' >"$work/conclusions"
find "$all/tests" "$all"/chapters/*/exercises "$all"/chapters/*/lab.md "$all"/chapters/*/*answers.md -type f >"$work/texts"
xargs awk '
    FNR == 1 { n = 0 }
    {
        gsub(/<!--.*|[^A-Za-z0-9]+/, " ")
        for (i = 1; i <= NF; i++) {
            row[n++ % 12] = tolower($i)
            said = ""
            for (j = n; j < n + 12; j++) said = said " " row[j % 12]
            if (n >= 12 && FILENAME ~ /^chapters/) answer[said]
            else if (n >= 12 && said in answer) print FILENAME ":" FNR ":" said
        }
    }' $(cat "$work/conclusions") <"$work/texts" >"$out" 2>"$errors"
nothing "and no sentence of the answers to labs and exercises is in sheets, chapters' answers, exercises or tests: no conclusion"
(cd "$all" && ls chapters/*/answers.md) >"$work/with" 2>"$errors" && ls chapters/*/answers.md | diff - "$work/with" >"$out"
verdict $? "each chapter's questions have their answers"
find "$all" -name lab_answers.md -o -path '*/exercises/*/answers.md' -o -name solution.c -o -name rivals -o -name for_instructors.md -o -path '*/tests/lab/*' -o -name '*.o' -o -path '*/.git/*' -o -path '*/build/*' >"$out"
(cd "$all" && printf '%s\n' *) | grep -vx 'my.machine\|LICENSE\|Makefile\|README.md\|chapters\|common\|kernels\|plots\|tests' >>"$out"
nothing "nor are solutions, answers, known mistakes, made-up hand-ins, what was built, and other folders"
before=$(cksum <"$archive")
kit "" "" "" && [ "$(cksum <"$archive")" = "$before" ] && tar -tzf "$archive" >"$work/with" &&
    GIT_DIR=/nonexistent kit "" "" "" && tar -tzf "$archive" | diff "$work/with" - >"$out"
verdict $? "the same project gives the same bytes, and without git the same files"
{ grep 'for instructors:' "$all/.make/help.txt"; cmp README.md "$all/README.md"; sh tests/links.sh "$all"; } >"$out" 2>&1
nothing "make help speaks to students, and no link of README or of other texts leads to what they do not have"

kit "04-1 06-2" "" 1 && mkdir "$work/two" && tar -C "$work/two" -xzf "$archive"
two=$work/two/training-on-multiple-gpus
{ (cd "$two" && ls -d chapters/*/exercises/[0-9]*/your_part.c | cut -d / -f 4) && grep -h '^## Exercise' "$two"/chapters/0[46]*/your_answers.md; } >"$out"
[ "$(tr '\n' ' ' <"$out")" = "1_larger_batches 2_one_forward_one_backward ## Exercise 04-1 ## Exercise 04-2 ## Exercise 06-2 " ]
verdict $? "LABS picks exercises, and the questions to be answered are about those, and those without code"
asked() { (cd "$1" && ls -d chapters/*/exercises/*/question.md | sed 's|question.md$||' | xargs -I{} find {} -type f ! -name answers.md | sort); }
asked "$root" >"$work/asked" && asked "$two" | diff "$work/asked" - >"$out" && [ "$(grep -c '/experiment\.c$' "$work/asked")" -ge 6 ]
verdict $? "whose folders are there as a whole, but for their answers"
grep -q 'LABS=04-1 PART=1 STRICT=1' "$two/.github/workflows/classroom.yml" && ! grep -q 'LABS=04-3' "$two/.github/workflows/classroom.yml"
verdict $? "CLASSROOM=1 adds a workflow with those"
kit "04,06-2" "" "" && [ "$(tar -tzf "$archive" | grep '/your_part\.c$' | cut -d / -f 3 | cut -c -2 | tr '\n' ' ')" = "04 04 06 " ]
verdict $? "LABS picks a chapter, with commas"
kit "04-1" "" "" &
sh tests/grader/kit.sh "$work/build" "06-2" "" "" >/dev/null 2>&1
wait
[ "$(tar -tzf "$archive" | grep -c '/your_part\.c$')" = 1 ] && ! ls -d "$work"/build/lab/lab-kit.* >"$out" 2>/dev/null
verdict $? "two at once write one archive or the other"

refused() { # STATUS WORDS NAME
    [ "$1" -ne 0 ] && grep -q "error: .*$2" "$errors" && grep -q '^hint: ' "$errors" && [ "$(cksum <"$archive")" = "$before" ]
    verdict $? "$3"
}
before=$(cksum <"$archive")
kit "04-9" "" ""
refused $? 'no exercise 04-9' "an exercise that is not there: refused, and the old archive stays"
kit "04-2" "" ""
refused $? "04-2 asks questions without code" "so is a question, for which there is nothing to grade"
mkdir "$work/bin" && printf '#!/bin/sh\necho "gzip: no" >&2\nexit 1\n' >"$work/bin/gzip" && chmod +x "$work/bin/gzip"
PATH=$work/bin:$PATH kit "04-1" "" ""
refused $? 'cannot be written: .*no' "where gzip fails there is no half of an archive"
in_two() { (cd "$two" && "$@") >"$out" 2>"$errors" </dev/null; }
in_two sh tests/grader/kit.sh "$work/build" "" "" ""
refused $? 'no exercise here has a solution' "in what students have there is nothing to leave out: refused"
in_two env -u MAKEFLAGS make CUDA=0 BUILD="$work/build" exercise-04-1 SOLVED=1
refused $? 'there is no solution.c' "and SOLVED=1 is refused"

handed=$work/handed/hand-in.tar.gz
in_two sh tests/grader/hand_in.sh "$work/handed" ""
refused $? 'nothing to hand in' "nothing is written yet: nothing to hand in"
cp chapters/04*/exercises/1_*/solution.c "$two"/chapters/04*/exercises/1_larger_batches/your_part.c
echo "Because." >>"$two/chapters/04_lenet_multi_gpu/your_answers.md"
in_two sh tests/grader/hand_in.sh "$work/handed" "" && [ "$(tar -tzf "$handed" | tr '\n' ' ')" = "chapters/04_lenet_multi_gpu/exercises/1_larger_batches/your_part.c chapters/04_lenet_multi_gpu/your_answers.md my.machine " ]
verdict $? "what was written is handed in, with the answers"
command -v bwrap >/dev/null && trusted= || { trusted=1 && chmod 711 "$work"; }
in_two env BUILD="$build" LIMIT=60 LABS=04-1 SUBMISSION="$handed" CLASS= JSON= CSV= GRADESCOPE= JOBS=1 TRUSTED=$trusted STRICT= PART= SEED= \
    sh tests/grader/grade.sh && grep -q ' 10 of 10$' "$out"
verdict $? "and is graded from that archive"
echo "1..$tests"
