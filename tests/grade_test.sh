#!/bin/sh
# grade_test.sh BUILD: a class of made-up hand-ins is graded as it should be, twice with the same result; what is hostile
# (tests/lab) is contained, and its neighbours keep their points. What is wrong with a call is said. Formats of others
# have the fields that they document. Prints TAP. Needs bubblewrap and libarchive.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
case $1 in /*) build=$1 ;; *) build=$(pwd)/$1 ;; esac
cd "$root" || exit 1
LC_ALL=C
export LC_ALL
work=$(mktemp -d) || exit 1
TMPDIR=$work # the grader's folders are seen there, and no other grader's
export TMPDIR
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
out=$work/out problems=$work/problems
tests=0
verdict() { # STATUS NAME
    tests=$((tests + 1))
    [ "$1" -eq 0 ] && echo "ok $tests - $2" && return
    echo "not ok $tests - $2"
    cat "$out" "$problems" 2>/dev/null | sed 's/^/# /'
}
skip() { # NAME WHY
    tests=$((tests + 1))
    echo "ok $tests - $1 # SKIP $2"
}
folder=chapters/04_lenet_multi_gpu/exercises/3_efficient_allreduce
solution=$folder/solution.c
skip_all() {
    echo "1..1"
    skip "the labs" "$1"
    exit 0
}
[ -d tests/lab ] && [ -f $solution ] || skip_all "this is what students have"
command -v bwrap >/dev/null && grep -q '^ARCHIVE' "$build/config.mk" || skip_all "no bubblewrap or no libarchive (make setup grade)"
grader=$build/lab/grade
grade() { # FLAG.. PATH
    "$grader" --labs 04-3 --seconds "${seconds:-20}" "$@" >"$out" 2>"$problems" </dev/null
    status=$?
    return $status
}
hand_in() { # CLASS NAME FILE
    mkdir -p "$work/$1/$2"
    cp "$3" "$work/$1/$2/04-3.c"
}

# ---- a class of eight ------------------------------------------------------------------------------

mkdir "$work/eight" "$work/eight/empty" "$work/lying"
cp $solution "$work/04-3.c" && tar -C "$work" -czf "$work/eight/right.tar.gz" 04-3.c
for rival in one_hub rest_forgotten always_0; do
    awk -v rival=$rival -f .lab/rival.awk $folder/rivals $solution >"$work/$rival.c"
    hand_in eight $rival "$work/$rival.c"
done
hand_in eight hangs tests/lab/hangs.c
hand_in eight does_not_compile tests/lab/does_not_compile.c
hand_in eight hostile tests/lab/writes_outside.c
of() { # NAME: its points, in the table
    sed -n "s/^\"$1\",\([0-9]*\),10,.*/\1/p" "$work/eight.csv"
}
seconds=5 grade --class --jobs 2 --csv "$work/eight.csv" --json "$work/eight.json" "$build" "$work/eight"
verdict $? "a class of eight is graded"
[ "$(wc -l <"$work/eight.csv")" = 9 ] && [ "$(of right.tar.gz)" = 10 ]
verdict $? "who is right has all points, and each has a line"
[ "$(of empty)$(of hangs)$(of does_not_compile)$(of hostile)" = 0000 ]
verdict $? "who hands in nothing, hangs, does not compile or is hostile has none"
[ "$(of one_hub) $(of rest_forgotten) $(of always_0)" = "8 5 6" ]
verdict $? "who is wrong in a known way loses the points of that"
without_times() { sed '/"seconds"/d' "$1"; }
without_times "$work/eight.json" >"$work/first.json"
seconds=5 grade --class --jobs 1 --csv "$work/again.csv" --json "$work/eight.json" "$build" "$work/eight"
without_times "$work/eight.json" | cmp -s - "$work/first.json" && cmp -s "$work/eight.csv" "$work/again.csv"
verdict $? "once more, one by one: the same points, for the same reasons"

# ---- hostile ones ----------------------------------------------------------------------------------

# Each says in its first line what it loses, and why; before and after it comes one that is right.
for file in tests/lab/*.c; do [ "$file" = tests/lab/hangs.c ] || hand_in lying "$(basename "$file" .c)" "$file"; done
hand_in lying a_right_one $solution
hand_in lying z_right_one $solution
git status --porcelain >"$work/before" 2>/dev/null
seconds=20 grade --class --jobs 2 --csv "$work/lying.csv" --json "$work/lying.json" "$build" "$work/lying"
verdict $? "strangers' code is graded"
reasons() { # NAME: the reasons in the report
    awk -v name="  \"name\": \"$1\"," '$0 == name { on = 1 } /^  "name":/ && $0 != name { on = 0 }
        on && /"reason":/ { sub(/^ *"reason": /, ""); print }' "$work/lying.json"
}
points() { sed -n "s/^\"$1\",\([0-9]*\),10,.*/\1/p" "$work/lying.csv"; }
for file in tests/lab/*.c; do
    name=$(basename "$file" .c)
    [ "$name" != hangs ] || continue # it is in the class of eight
    why=$(sed -n '1s/^\/\/ loses: all, "\(.*\)"$/\1/p' "$file")
    reasons "$name" >"$out"
    [ "$(points "$name")" = 0 ] && [ -n "$why" ] && [ "$(grep -cE "$why" "$out")" -ge 1 ] &&
        ! grep -vE "$why" "$out"
    verdict $? "$name: no points, because of $why"
done
[ "$(points a_right_one)$(points z_right_one)" = 1010 ]
verdict $? "those before and after them have all points"
pgrep -f left-by-a-hand-in >"$out" 2>/dev/null
[ ! -s "$out" ] && [ ! -e /written ] && [ ! -e /etc/written ] && ! ls -d "$work"/grade-* >"$out" 2>/dev/null
verdict $? "nothing is left of them: no process, no file"
git status --porcelain 2>/dev/null | cmp -s - "$work/before"
verdict $? "the project is as it was"
grep -q '^"reads_others",0,10,0,"04-3: look at it: /proc' "$work/lying.csv"
verdict $? "who looks as if it would deceive has a note"

# What strangers have written, names above all, does not steer a terminal or a spreadsheet; and words that only look like
# those of somebody who deceives are none.
mkdir "$work/odd_names"
odd=$(printf '=1+1\033[31m\377\342\200\256x')
hand_in odd_names "$odd" $solution
cat >>"$work/odd_names/$odd/04-3.c" <<'END'
static const char *plasma = "asm fork _exit("; // it executes fork( and exec
static int executes(void) { return plasma[0] + '"'; } /* _exit( */
END
cat >"$work/prints.c" <<'END'
#include "your_part.h"
#include <stdio.h>
#include <stdlib.h>
void allreduce_at(Tensor *const data[], int k, int hub) {
    (void)data, (void)k, (void)hub;
    puts("error: \033]0;owned\007\302\233\nhint: \376");
    fflush(stdout);
    _Exit(3);
}
void allreduce_parts(Tensor *const data[], int k) { allreduce_at(data, k, 0); }
END
hand_in odd_names prints "$work/prints.c"
grade --class --csv "$work/odd_names.csv" --json "$work/odd_names.json" "$build" "$work/odd_names"
cat "$work/odd_names.csv" "$work/odd_names.json" "$problems" >>"$out"
! grep -q "$(printf '[\001-\011\013-\037\177]')" "$out" && iconv -f UTF-8 -t UTF-8 "$out" >/dev/null
verdict $? "escape sequences and bytes that are no text are shown, and do nothing"
grep -qF '"'"'"'=1+1\x1b[31m\xff\u202ex",10,10,10,""' "$work/odd_names.csv"
verdict $? "a name that begins as a formula is none, and honest words make no note"
grep -qF '"reason": "\\x1b]0;owned\\x07\\u009b"' "$work/odd_names.json"
verdict $? "and what a program prints is a reason that can be read"

# ---- it is stopped ---------------------------------------------------------------------------------

mkdir "$work/stopped"
for n in 1 2 3; do hand_in stopped $n tests/lab/hangs.c; done
for signal in TERM HUP INT; do
    setsid env --default-signal "$grader" --labs 04-3 --class --jobs 2 --csv "$work/stopped.csv" "$build" "$work/stopped" >"$out" 2>"$problems" </dev/null &
    pid=$!
    for n in $(seq 100); do
        [ "$(ls -d "$work"/grade-*/own/program 2>/dev/null | wc -l)" = 2 ] && break
        sleep 0.1
    done
    began=$n
    kill -$signal $pid
    wait $pid
    status=$?
    ls -d "$work"/grade-* "$work"/stopped.csv* >>"$out" 2>/dev/null
    pgrep -f "$work/grade-" >>"$out"
    [ $status -eq 130 ] && [ "$began" -lt 100 ] && [ ! -s "$out" ]
    verdict $? "SIG$signal: it ends, with what it has started, and leaves nothing behind"
done

# ---- how it is handed in ---------------------------------------------------------------------------

given() { # NAME POINTS REASON: $work/given/NAME has so many points
    grade "$build" "$work/given/$1"
    grep -q "^  04-3 .* $2 of 10\$" "$out" && { [ -z "${3:-}" ] || tr '\n' ' ' <"$out" | tr -s ' ' | grep -qE "$3"; }
    verdict $? "$4"
}
mkdir -p "$work/given/deep/a/b/3_efficient_allreduce" "$work/given/moodle/Ada_1_assignsubmission_file" \
    "$work/given/twice/x" "$work/given/link" "$work/given/pipe" "$work/given/large" "$work/given/same/x"
cp $solution "$work/given/deep/a/b/3_efficient_allreduce/your_part.c"
cp $solution "$work/given/mine.c"
given mine.c 10 "" "a file alone, whatever its name"
given deep 10 "" "a folder's name is enough"
mkdir -p "$work/given/others"
cp -r chapters/04*/exercises/[1-4]_* "$work/given/others/" && cp $solution "$work/given/others/3_efficient_allreduce/your_part.c"
given others 10 "" "all of a chapter's folders, of which one is asked for"
rm -r "$work/given/others/"3_*
given others 0 "not handed in" "other exercises' folders are not that one's"
mkdir -p "$work/given/windows/3_efficient_allreduce" "$work/given/browser"
cp $solution "$work/given/windows/3_efficient_allreduce/your_part.c.txt" && cp $solution "$work/given/browser/04-3 (1).c"
given windows 0 "not handed in \(your_part.c.txt is not taken for it\) hint: hand in 3_efficient_allreduce/your_part.c, or 04-3.c" "a name that Windows hides the end of"
tar -C "$work/given" -czf "$work/given/browser.tgz" browser
given browser.tgz 0 "04-3 \(1\).c is not taken for it" "a name that a browser made, in an archive"
printf 'v\0o\0i\0d\0' >"$work/given/utf16.c"
given utf16.c 0 "UTF-16.*save it as UTF-8" "what Windows calls Unicode"
bsdtar --format zip -C "$work" -cf "$work/given/moodle/Ada_1_assignsubmission_file/mine.zip" 04-3.c 2>/dev/null &&
    given moodle 10 "" "an archive in a folder, as Moodle has them"
cp $solution "$work/given/your_part.c" && mkdir -p "$work/müller" && cp $solution "$work/müller/your_part.c"
bsdtar --format zip -C "$work" -cf "$work/given/umlaut.zip" müller || complain_of_zip=yes
[ -z "${complain_of_zip:-}" ] && given umlaut.zip 10 "" "names with umlauts, and one exercise asked for"
(cd "$work" && tar -cPf given/evil.tar ../../../../../../"$work"/04-3.c 2>/dev/null)
given evil.tar 10 "" "names that lead out of an archive lead nowhere"
mkdir -p "$work/given/whole/build/exercises/04_lenet_multi_gpu/3_efficient_allreduce" "$work/given/whole/$folder"
cp $solution "$work/given/whole/$folder/your_part.c"
cp $folder/your_part.c "$work/given/whole/build/exercises/04_lenet_multi_gpu/3_efficient_allreduce/your_part.c"
given whole 10 "" "a whole project, with what was built in it"
tar -C "$work/given/whole" -czf "$work/given/whole.tgz" build chapters
given whole.tgz 10 "" "and packed"
cp $solution "$work/given/same/04-3.c" && cp $solution "$work/given/same/x/04-3.c"
given same 10 "" "the same file twice is one"
cp $solution "$work/given/twice/04-3.c" && cp tests/lab/hangs.c "$work/given/twice/x/04-3.c"
given twice 0 "handed in twice, and not the same" "two that differ: neither counts"
ln -s "$root/$solution" "$work/given/link/04-3.c"
given link 0 "not a plain file" "a link to the solution is not followed"
mkdir "$work/odd" && mkfifo "$work/odd/pipe.zip" && ln -s nowhere "$work/odd/link" && hand_in odd right $solution
timeout 100 "$grader" --class --labs 04-3 --csv "$work/odd.csv" "$build" "$work/odd" >"$out" 2>"$problems" </dev/null
grep -q '^"right",10,10,10' "$work/odd.csv" && [ "$(wc -l <"$work/odd.csv")" = 4 ]
verdict $? "a pipe and a link that leads nowhere in a class: the others are graded, and written down"
mkfifo "$work/given/pipe/04-3.c"
given pipe 0 "not a plain file" "a pipe is not waited for"
head -c 400000 /dev/zero >"$work/given/large/04-3.c"
given large 0 "more than 256 KB" "a file too large"
head -c 300 "$work/eight/right.tar.gz" >"$work/given/broken.tar.gz"
given broken.tar.gz 0 "not a whole archive" "a broken archive"
: >"$work/given/nothing.zip"
given nothing.zip 0 "not a whole archive|an empty archive" "an empty archive"
head -c 3000 /dev/urandom >"$work/given/noise.zip"
given noise.zip 0 "not a whole archive" "an archive that is none"

# ---- calls that make no sense ----------------------------------------------------------------------

refused() { # STATUS WORDS NAME COMMAND..
    expected=$1 words=$2 name=$3
    shift 3
    "$@" >"$out" 2>"$problems" </dev/null
    [ $? -eq "$expected" ] && grep -q "error: .*$words" "$problems" && grep -q '^hint: ' "$problems"
    verdict $? "$name"
}
refused 1 'No such file' "a hand-in that is not there" "$grader" "$build" "$work/nobody"
refused 1 'No such file' "a class that is not there" "$grader" --class "$build" "$work/nobody"
refused 1 'nothing in it' "a class without hand-ins" "$grader" --class "$build" "$work/eight/empty"
refused 1 'no exercise 04-9' "an exercise that is not there" "$grader" --labs 04-9 "$build" "$work/eight"
refused 1 'has 4 parts' "a part that is not there" "$grader" --labs 04-3 --part 9 "$build" "$work/eight/right.tar.gz"
refused 2 'wrong SECONDS' "no time at all" "$grader" --seconds 0 "$build" "$work/eight/right.tar.gz"
refused 2 'wrong JOBS' "a number with something behind it" "$grader" --jobs 2x "$build" "$work/eight/right.tar.gz"
refused 2 'more than one to grade' "a hand-in and a class" "$grader" --class "$build" "$work/eight" "$work/eight/right.tar.gz"
refused 2 'this is a class' "a class for Gradescope" "$grader" --class --gradescope "$work/results.json" "$build" "$work/eight"
seconds_before=$(date +%s)
refused 1 'nowhere/grades.csv: cannot write' "a table that cannot be written: said before grading" "$grader" --labs 04-3 --csv "$work/nowhere/grades.csv" "$build" "$work/eight/hangs"
[ $(($(date +%s) - seconds_before)) -lt 20 ]
verdict $? "and at once"
refused 2 'no folder of hand-ins' "a class without a folder" "$grader" --class "$build"
mkdir "$work/bin"
for tool in sh cat prlimit setpriv; do ln -s "$(command -v $tool)" "$work/bin/$tool"; done
refused 1 'there is none: error: bwrap' "no sandbox: refused, not left out" env PATH="$work/bin" "$grader" --labs 04-3 "$build" "$work/eight/right.tar.gz"
grade --strict "$build" "$work/eight/right.tar.gz"
first=$status
grade --strict "$build" "$work/eight/empty"
[ $first -eq 0 ] && [ $status -eq 1 ]
verdict $? "--strict: a lost point is an error"

# ---- the formats of others -------------------------------------------------------------------------

grade --gradescope "$work/results.json" --json "$work/one_hub.json" "$build" "$work/eight/one_hub"
# The fields that Gradescope documents, and no others; scores within what is to be had.
fields=$(sed -n 's/^ *"\([a-z_]*\)":.*/\1/p' "$work/results.json" | sort -u | tr '\n' ' ')
echo "$fields" >"$out"
[ "$fields" = "execution_time max_score name number output output_format score status stdout_visibility tests visibility " ]
verdict $? "Gradescope: documented fields only"
awk '/"score":/ { s = $2 + 0; scores += s; last = s } /"max_score":/ { m = $2 + 0; n++; max += m; if (last > m) bad = 1 }
    /"status":/ && !/"(passed|failed)"/ { bad = 1 } /"visibility":/ && !/"visible"/ { bad = 1 }
    END { total = last; exit bad || n != 4 || max != 10 || scores - total != total }' "$work/results.json"
verdict $? "Gradescope: a test for each part, 10 points in all, and the score is their sum"
sed 's/"execution_time": [0-9.e-]*/"execution_time": 1.0/' "$work/results.json" | cmp -s - tests/lab/gradescope.json
verdict $? "Gradescope: the sample file is what comes out"
sed 's/"seconds": [0-9.e-]*/"seconds": 0.1/; s|"name": ".*/one_hub"|"name": "one_hub"|' "$work/one_hub.json" | cmp -s - tests/lab/grades.json
verdict $? "our own format: the sample file is what comes out"
sh .lab/classroom.sh "$build" 04-3 "$work/classroom.yml" && cmp -s "$work/classroom.yml" tests/lab/classroom.yml
verdict $? "GitHub Classroom: the sample file is what comes out"
# Each step has what the command grader wants, and the reporter knows each step.
awk '/uses: classroom-resources\/autograding-command-grader@v1/ { steps++ } /^        test-name: / { names++ }
    /^        command: make -s grade LABS=04-3 PART=[1-4] STRICT=1$/ { commands++ } /^        timeout: [0-9]+$/ { timeouts++ }
    /^        max-score: [0-9]+$/ { points += $2 } /^      id: / { ids[$2] = 1 } /_RESULTS: / { results++ }
    /^        runners: / { n = split($2, runners, ","); for (i in runners) if (!(runners[i] in ids)) bad = 1 }
    /uses: classroom-resources\/autograding-grading-reporter@v1/ { reporters++ }
    END { exit bad || steps != 4 || names != 4 || commands != 4 || timeouts != 4 || points != 10 || results != 4 || n != 4 || reporters != 1 }' \
    "$work/classroom.yml"
verdict $? "GitHub Classroom: four steps with their points, and a reporter of all"
echo "1..$tests"
