#!/bin/sh
# grade_test.sh BUILD: a class of made-up hand-ins is graded as it should be, also if it is broken off; what is broken
# (tests/lab/broken) costs its own points only; the sandbox holds. What is wrong with a call is said. Formats of others have
# the fields that they document. Prints TAP. Needs bubblewrap, bsdtar and jq.
set -u
. "$(dirname "$0")/tap.sh"
cd "$root" || exit 1
out=$work/out errors=$work/errors
shown="$out $errors"
folder=chapters/04_lenet_multi_gpu/exercises/3_efficient_allreduce
solution=$folder/solution.c
[ -d tests/lab ] && [ -f $solution ] || skip_all "the labs" "this is what students have"
for tool in bwrap bsdtar jq; do command -v $tool >/dev/null || skip_all "the labs" "no $tool (make setup grade)"; done
# (A build folder of its own, for the rows of a class that is graded and for the grader's folders.)
mkdir -p "$work/build/lab" && ln -s "$build/libbook.a" "$work/build/" && ln -s "$build/lab/judge" "$build/lab/exercises" "$work/build/lab/"
grade() { # SETTING=VALUE..
    env BUILD="$work/build" LABS=04-3 LIMIT=60 JOBS=2 SEED=1 SUBMISSION= CLASS= JSON= CSV= GRADESCOPE= TRUSTED= STRICT= PART= \
        "$@" sh tests/grader/grade.sh >"$out" 2>"$errors" </dev/null
    status=$?
    return $status
}
hand_in() { # CLASS NAME FILE
    mkdir -p "$work/$1/$2"
    cp "$3" "$work/$1/$2/04-3.c"
}
edited() { awk -v rival="$2" -f tests/grader/rival.awk "$1" $solution; } # TABLE NAME

# ---- a class -----------------------------------------------------------------------------------------

mkdir "$work/class" "$work/class/empty" "$work/class/ada.json"
cp $solution "$work/04-3.c" && tar -C "$work" -czf "$work/class/right.tar.gz" 04-3.c && cp $solution "$work/class/ada.json/04-3.c"
ln -s "$root/$folder" "$work/class/link" && mkfifo "$work/class/pipe.zip" && echo name >"$work/class/old.csv"
for rival in one_hub rest_forgotten always_0; do edited $folder/rivals $rival >"$work/one.c" && hand_in class $rival "$work/one.c"; done
awk -v rival= -f tests/grader/rival.awk tests/lab/broken >"$work/broken"
for name in $(cut -f 1 "$work/broken"); do edited tests/lab/broken "$name" >"$work/one.c" && hand_in class "$name" "$work/one.c"; done
hand_in class z_right_one $solution
git status --porcelain >"$work/before" 2>/dev/null
points() { sed -n "s/^\"$1\",\([0-9]*\),10,.*/\1/p" "$work/class.csv"; } # NAME: in the table
reasons() { # NAME: with the numbers of the parts
    jq -r --arg name "$1" '.[] | select(.name == $name) | .exercises[0] | if .reason then .reason else .parts[].reason // empty end' "$work/class.json"
}
grade CLASS="$work/class" CSV="$work/class.csv" JSON="$work/class.json" LIMIT=8
[ $status -eq 1 ] && [ -s "$work/class.json" ]
verdict $? "a class is graded, and one after the other what would harm it"
[ "$(points right.tar.gz) $(points ada.json) $(points z_right_one)" = "10 10 10" ]
verdict $? "who is right has all points, in a folder named as a table, too"
[ "$(points one_hub) $(points rest_forgotten) $(points always_0)" = "8 5 6" ]
verdict $? "who is wrong in a known way loses the points of that"
[ "$(points empty)" = 0 ] && ! grep '^"old.csv' "$work/class.csv" >"$out" && [ "$(grep -cE '^"(link|pipe.zip)",,,,"handed in: (a link, which is not followed|neither a folder)' "$work/class.csv")" = 2 ]
verdict $? "who hands in nothing has none, and a link or a pipe is not graded; a table from before is nobody"
while IFS='	' read -r name parts why; do
    lost=$(jq -r --arg name "$name" '[.[] | select(.name == $name) | .exercises[0].parts | to_entries[] | select(.value.passed | not) | .key + 1] | join(" ")' "$work/class.json")
    reasons "$name" >"$out"
    [ "$lost" = "$parts" ] && [ -s "$out" ] && ! grep -vE "$why" "$out"
    verdict $? "$name: loses $parts, because of $why"
done <"$work/broken"
ls -d "$work"/build/lab/grade.* >"$out" 2>/dev/null
[ ! -s "$out" ] && git status --porcelain 2>/dev/null | cmp -s - "$work/before"
verdict $? "nothing is left of them, and the project is as it was"

# It is stopped, and goes on.
mkdir "$work/eight" && for n in 1 2 3 4 5 6; do cp -r "$work/class/right.tar.gz" "$work/eight/$n.tar.gz"; done
hand_in eight 7 "$work/class/one_hub/04-3.c" && hand_in eight 8 "$work/class/hangs/04-3.c"
grade CLASS="$work/eight" JSON="$work/whole.json" LIMIT=4
for signal in TERM INT HUP KILL; do
    setsid env --default-signal BUILD="$work/build" LABS=04-3 LIMIT=4 JOBS=2 SEED=1 SUBMISSION= CLASS="$work/eight" JSON="$work/parts.json" CSV= GRADESCOPE= \
        TRUSTED= STRICT= PART= sh tests/grader/grade.sh >"$out" 2>"$errors" </dev/null &
    pid=$!
    for n in $(seq 100); do
        graded=$(grep -c '	done' "$work/build/lab/grading.tsv" 2>/dev/null)
        [ "${graded:-0}" -ge 2 ] && break
        sleep 0.1
    done
    kill -$signal $pid
    wait $pid
    status=$?
    for _ in $(seq 100); do pgrep -af "$work/(build|eight)" >"$out" || break; sleep 0.1; done
    [ $signal = KILL ] || ls -d "$work"/build/lab/grade.* >>"$out" 2>/dev/null
    [ $signal = KILL ] && expected=137 || expected=130
    [ $status -eq $expected ] && [ "$n" -lt 100 ] && [ ! -s "$out" ] && [ ! -e "$work/parts.json" ]
    verdict $? "SIG$signal: it ends, with what it has started"
    grade CLASS="$work/eight" JSON="$work/parts.json" LIMIT=4
    without_times() { sed '/"seconds"/d' "$1"; }
    grep -q 'goes on: [2-7] are graded' "$errors" && without_times "$work/parts.json" >"$work/a" && without_times "$work/whole.json" | cmp -s - "$work/a"
    verdict $? "and goes on: the same points, for the same reasons"
    rm -f "$work/parts.json"
done

# What strangers have written, names above all, does not steer a terminal or a spreadsheet.
odd=$(printf '=1+1\033[31m\377\342\200\256x')
for name in "$odd" "$(printf '\357\274\235wide')" " =spaced" -rf; do hand_in odd "$name" $solution; done
cp -r "$work/class/ends_the_program" "$work/odd/"
grade CLASS="$work/odd" CSV="$work/odd.csv" JSON="$work/odd.json"
cat "$work/odd.csv" "$work/odd.json" "$errors" >>"$out"
! grep -q "$(printf '[\001-\010\013-\037\177]')" "$out" && iconv -f UTF-8 -t UTF-8 "$out" >/dev/null
verdict $? "escape sequences and bytes that are no text are shown, and do nothing"
grep -qF '"'"'"'=1+1\x1b[31m\xff\u202ex",10,10,10,""' "$work/odd.csv" && [ "$(grep -c "^\"'.*,10,10,10" "$work/odd.csv")" = 4 ]
verdict $? "a name that begins as a formula is none"

# ---- how it is handed in -----------------------------------------------------------------------------

given=$work/given
mkdir -p "$given/deep/a/b/3_efficient_allreduce" "$given/moodle/Ada_1_assignsubmission_file" "$given/twice/x" "$given/same/x" "$given/a_link" \
    "$given/a_pipe" "$given/large" "$given/others" "$given/windows/3_efficient_allreduce" "$given/browser" "$work/müller" \
    "$given/whole/build/exercises/04_lenet_multi_gpu/3_efficient_allreduce" "$given/whole/$folder" "$given/utf16"
cp $solution "$given/mine.c"
cp $solution "$given/deep/a/b/3_efficient_allreduce/your_part.c"
cp -r chapters/04*/exercises/[12]_* "$given/others/"
cp $solution "$given/windows/3_efficient_allreduce/your_part.c.txt" && cp $solution "$given/browser/04-3 (1).c" && tar -C "$given" -czf "$given/browser.tgz" browser
printf 'v\0o\0i\0d\0' >"$given/utf16/04-3.c"
sed 's/$/\r/' $solution >"$work/windows.c" && bsdtar --format zip -C "$work" -s /windows/04-3/ -cf "$given/moodle/Ada_1_assignsubmission_file/mine.zip" windows.c
cp $solution "$work/müller/your_part.c" && bsdtar --format zip -C "$work" -cf "$given/umlaut.zip" müller
(cd "$work" && tar -cPf given/evil.tar ../../../../../../"$work"/04-3.c 2>/dev/null)
cp $solution "$given/whole/$folder/your_part.c" && cp $folder/your_part.c "$given/whole/build/exercises/04_lenet_multi_gpu/3_efficient_allreduce/"
tar -C "$given/whole" -czf "$given/whole.tgz" build chapters
cp $solution "$given/same/04-3.c" && sed 's/$/\r/' $solution >"$given/same/x/04-3.c" && cp $folder/your_part.c "$given/same/x/" && cp $solution "$given/twice/04-3.c" && cp $folder/your_part.c "$given/twice/x/04-3.c"
mkdir -m 700 "$given/closed" "$given/closed/3_efficient_allreduce" && cp $solution "$given/closed/3_efficient_allreduce/your_part.c"
cp "$work/class/right.tar.gz" "$given/closed.tar.gz" && chmod 600 "$given/closed.tar.gz" "$given/closed/3_efficient_allreduce/your_part.c"
ln -s "$root/$solution" "$given/a_link/04-3.c" && mkfifo "$given/a_pipe/04-3.c" && head -c 400000 /dev/zero >"$given/large/04-3.c"
head -c 300 "$work/class/right.tar.gz" >"$given/broken.tar.gz" && : >"$given/nothing.zip" && head -c 3000 /dev/urandom >"$given/noise.zip"
tar -C "$work/class" -cf "$given/nested.tar" right.tar.gz && cp "$given/nested.tar" "$work/1.tar" && for n in 2 3; do tar -C "$work" -cf "$work/$n.tar" $((n - 1)).tar; done && mv "$work/3.tar" "$given/"
# Platforms and browsers rename what is handed in; what cannot be read may be the right one; other files are none.
for name in hand-in.tar-1.gz hand-in.gz "HAND IN (1).TGZ.txt" archive; do mkdir "$given/as $name" && cp "$work/class/right.tar.gz" "$given/as $name/$name"; done
for name in a.txz a.tbz2 a.tar.zst a.ZIP; do mkdir "$given/as $name" && (cd "$work" && bsdtar -a -cf "$given/as $name/$(echo $name | tr A-Z a-z)" 04-3.c) && mv "$given/as $name"/* "$given/as $name/$name" 2>/dev/null; done
mkdir "$given/as 04-3.c.gz" "$given/cut" "$given/half" "$given/empty" "$given/report" && gzip -c $solution >"$given/as 04-3.c.gz/04-3.c.gz"
cp $solution "$given/half/04-3.c" && tar -C "$work" -cf - 04-3.c | head -c 1000 >"$given/half/hand-in.tar"
for name in cut report; do cp $folder/your_part.c "$given/$name/04-3.c"; done && cp "$given/broken.tar.gz" "$given/cut/hand-in.tar-2.gz" && : >"$given/empty/hand-in.zip" && mkdir "$given/linked" "$given/page" "$given/renamed" && echo "<html>" >"$given/page/hand-in.tar.gz" && cp $solution "$given/renamed/ada_12_04-3.c" && ln -s "$work/class/right.tar.gz" "$given/linked/hand-in.tar.gz" && ln -s nowhere "$given/report/x.txt"
cp "$given/noise.zip" "$given/report/photo.jpg" && bsdtar --format zip -cf "$given/report/report.docx" README.md && gzip -c "$given/noise.zip" >"$given/report/data.gz"
mkdir "$work/many" && head -c 400000000 /dev/zero | gzip -1 >"$work/many/zeros" && bsdtar --format zip -C "$work/many" -cf "$given/bomb.zip" @- <<END
#mtree
zeros type=file mode=0644 uid=0 gid=0 size=1 contents=$work/04-3.c
END
grade CLASS="$given" CSV="$work/given.csv"
[ "$(grep -c '^"as .*",10,10,10,""$' "$work/given.csv")" = 9 ]
verdict $? "an archive is one under every name"
while read -r name points words; do # (-: not graded)
    row=",$points,10,$points,"
    grep "^\"$name\"$(echo "$row" | sed 's/.*-.*/,,,,"handed in: /')" "$work/given.csv" >"$out" && grep -qE "$words" "$out"
    verdict $? "handed in as $name: $points of 10${words:+, as $words}"
done <<'END'
mine.c 10
deep 10
moodle 10
umlaut.zip 10
evil.tar 10
whole 10
whole.tgz 10
same 10
closed 10
closed.tar.gz 10
others 0 not handed in"
windows 0 not handed in .your_part.c.txt is not taken for it
browser.tgz 0 04-3 .1..c is not taken for it
half 10
report 0
utf16 - UTF-16.*save it as UTF-8
twice - twice, and not the same
a_link - not a plain file
a_pipe - not a plain file
large - more than 256 KB
broken.tar.gz - not a whole archive
nothing.zip - not a whole archive|an empty archive
noise.zip - not a whole archive
cut - hand-in.tar-2.gz: not a whole archive
empty - hand-in.zip: an empty archive
page - hand-in.tar.gz: not a whole archive
renamed 0 not handed in .ada_12_04-3.c is not taken for it
linked - hand-in.tar.gz: not a plain file
nested.tar 10
3.tar - an archive in archives in archives: hand in what is in it
END

# ---- the sandbox -------------------------------------------------------------------------------------

mkdir "$work/own" && echo "04-3 3_efficient_allreduce $folder" >"$work/wanted"
BUILD=$build PREPARED=$build/lab/exercises WANTED=$work/wanted BOOK=$work/book sh -c '. tests/grader/sandbox.sh && make_book'
verdict $? "what is needed of the project is there for everybody"
contained() { # WORDS NAME COMMAND: it prints these, a pattern for all of it. (2 GB of memory are slow to have on a busy machine.)
    # shellcheck disable=SC2016
    TRUST=contained BOOK=$work/book timeout 100 sh -c '. tests/grader/sandbox.sh && COUNTER=$(memory_counter) && in_sandbox 80 "$1" "$2" "$3"' sh "$work/own" "$out" "$3" 2>"$errors"
    head -c 2000 "$out" | tr '\n' ' ' | grep -qxE "$1 *"
    verdict $? "in the sandbox $2"
}
contained "seen:" "nothing can be read that students do not have" \
    "echo seen:; for f in $solution $folder/rivals chapters/04*/lab_answers.md $folder/answers.md chapters/04*/exercises/*/*.c tests/grade_test.sh README.md .git/HEAD /etc/shadow $work/04-3.c; do head -c 9 \$f; done 2>/dev/null"
contained "written:" "nothing can be written but in /tmp and /dev/shm" \
    'echo written:; for f in /x /etc/x /usr/x README.md chapters/x common/x ../x /dev/x /proc/sys/kernel/hostname build/x x /var/x /own/x /given.o; do (echo x >$f) 2>/dev/null && echo $f; done'
contained "[1-6] processes" "no other process is seen" 'echo $(ls -d /proc/[0-9]* | wc -l) processes'
contained "0 networks" "there is no network" 'echo $(grep -c "eth\|en[ops]\|wl" /proc/net/dev) networks'
contained "user [1-9][0-9]*" "nobody is root" 'echo user $(id -u)'
contained ".*(Cannot fork|annot fork|not fork).*" "processes that start processes come to an end" 'n=0; while [ $n -lt 1000 ]; do sleep 100 & n=$((n + 1)); done; echo all of them'
contained ".*full: ([1-9][0-9]|[1-4][0-9][0-9]|5[0-3][0-9]) MB" "a disk that is filled has an end" \
    'for d in /tmp /dev/shm; do for i in 1 2 3 4 5 6 7 8; do head -c 100000000 /dev/zero >$d/$i; done; done 2>/dev/null; echo full: $(($(du -sk /tmp /dev/shm | awk "{ n += \$1 } END { print n }") / 1024)) MB'
contained "(Killed |tail: memory exhausted |)the end" "memory has an end" 'tail /dev/zero; echo the end'
contained "(y )*y?" "what prints without end is ended, and so is what it prints" 'yes'
[ "$(stat -c %s "$out")" -le 256000000 ]
verdict $? "at 256 MB"
contained "left" "a process is left" 'setsid sleep 987 & echo left'
! pgrep -f 'sleep 987' >"$out"
verdict $? "but not afterwards"

# ---- calls that make no sense ------------------------------------------------------------------------

refused() { # STATUS WORDS SETTING..
    expected=$1 words=$2
    shift 2
    grade "$@"
    [ $status -eq "$expected" ] && grep -q "error: .*$words" "$errors" && grep -q '^hint: ' "$errors"
    verdict $? "refused, as $words: $*"
}
right=$work/class/right.tar.gz
refused 1 'no such file' SUBMISSION="$work/nobody"
refused 1 'no such file' CLASS="$work/nobody"
refused 1 'nothing in it' CLASS="$work/class/empty"
refused 1 'no exercise 04-9' LABS=04-9 SUBMISSION="$right"
refused 1 'has 4 parts' PART=9 SUBMISSION="$right"
hand_in alike 'a\x1b' $solution && hand_in alike "$(printf 'a\033')" $solution && hand_in tabs "a	" $solution
refused 1 'both shown as a' CLASS="$work/alike"
refused 1 'or a tab in it' CLASS="$work/tabs"
refused 2 'wrong SECONDS' LIMIT=0 SUBMISSION="$right"
refused 2 'wrong JOBS' JOBS=2x SUBMISSION="$right"
refused 2 'wrong SEED' SEED=0x1 SUBMISSION="$right"
refused 2 'more than one to grade' CLASS="$work/class" SUBMISSION="$right"
refused 2 'this is a class' CLASS="$work/class" GRADESCOPE="$work/results.json"
refused 2 'is that a table' SUBMISSION="$right" CSV="$right"
refused 1 'nowhere/grades.csv: cannot write' CSV="$work/nowhere/grades.csv" CLASS="$work/class"
refused 1 'the solutions are' TRUSTED=1 SUBMISSION="$right"
if [ "$(id -u)" = 0 ] && mkdir "$work/full" && mount -t tmpfs -o size=$(($(stat -Lc %s "$build/libbook.a") + 2000000)) tmpfs "$work/full" 2>/dev/null; then
    mkdir "$work/full/lab" && cp -P "$work/build/libbook.a" "$work/full/" && cp -P "$work/build/lab/judge" "$work/build/lab/exercises" "$work/full/lab/"
    grade SUBMISSION="$right" BUILD="$work/full"
    [ $status -eq 1 ] && grep -q '\(not graded\|^grade: error\): .*No space left on device' "$out" "$errors"
    verdict $? "on a full disk nobody is graded, rather than with 0 points"
    head -c 9000000 /dev/zero >"$work/full/more"
    refused 1 'No space left on device' SUBMISSION="$right" BUILD="$work/full"
    umount "$work/full"
fi
mkdir "$work/bin"
for tool in awk basename cat chmod cp cut date dirname find getent grep head id jq mkdir mktemp mv od paste pgrep prlimit realpath rm rmdir sed setpriv sh sort stat timeout tr xargs; do ln -s "$(command -v $tool)" "$work/bin/$tool"; done
refused 1 'there is none' SUBMISSION="$right" PATH="$work/bin"
grade STRICT=1 SUBMISSION="$right"
first=$status
grade STRICT=1 SUBMISSION="$work/class/empty"
[ $first -eq 0 ] && [ $status -eq 1 ]
verdict $? "STRICT=1: a lost point is an error"

# ---- the formats of others ---------------------------------------------------------------------------

grade SUBMISSION="$work/class/one_hub" GRADESCOPE="$work/results.json" JSON="$work/one_hub.json"
# The fields that Gradescope documents, and no others; scores within what is to be had.
fields=$(sed -n 's/^ *"\([a-z_]*\)":.*/\1/p' "$work/results.json" | sort -u | tr '\n' ' ')
echo "$fields" >"$out"
[ "$fields" = "execution_time max_score name number output output_format score status stdout_visibility tests visibility " ]
verdict $? "Gradescope: documented fields only"
jq -e '(.tests | length) == 4 and ([.tests[].max_score] | add) == 10 and ([.tests[].score] | add) == .score
    and all(.tests[]; .score <= .max_score and (.status == "passed" or .status == "failed") and .visibility == "visible")' "$work/results.json" >"$out"
verdict $? "Gradescope: a test for each part, 10 points in all, and the score is their sum"
sed 's/"execution_time": [0-9.e-]*/"execution_time": 1.0/' "$work/results.json" | cmp -s - tests/lab/gradescope.json
verdict $? "Gradescope: the sample file is what comes out"
sed 's/"seconds": [0-9.e-]*/"seconds": 0.1/; s|"name": ".*/one_hub"|"name": "one_hub"|' "$work/one_hub.json" | cmp -s - tests/lab/grades.json
verdict $? "our own format: the sample file is what comes out"
sh tests/grader/classroom.sh "$build" 04-3 "$work/classroom.yml" && cmp -s "$work/classroom.yml" tests/lab/classroom.yml
verdict $? "GitHub Classroom: the sample file is what comes out"
echo "1..$tests"
