#!/bin/sh
# book_test.sh BUILD: make book's scripts, with a small book of two chapters made here: what its pages show, what is
# said where a chapter is not as it should be, and that the old book stays. And the check of the pages in a browser,
# with a fault of each kind planted. Prints TAP. Needs pandoc, and for the check chromium.
set -u
. "$(dirname "$0")/tap.sh"
out=$work/out
command -v pandoc >/dev/null || skip_all "the book" "no pandoc (make setup book)"

# ---- a book of two chapters ----------------------------------------------------------------------

tree=$work/tree
one=chapters/01_one/main.c
mkdir -p "$tree/common/base" "$tree/kernels/cpu" "$tree/chapters/01_one" "$tree/chapters/02_two"
cp -r "$root/plots" "$tree"
cd "$tree" || exit 1
printf '// range.h: some of n things.\n#pragma once\n\n// From here on.\nint range_first(int n);\n' \
    >common/base/range.h
printf '// cost.h: what it costs.\nint cost_of(int n);\n' >kernels/cost.h
printf '// cpu.h: the CPU.\nint cpu_of(int n);\n' >kernels/cpu/cpu.h
cat >chapters/01_one/README.md <<'END'
# 1. A first chapter

It shows a picture. It is the first [@one].

**What you will learn**

- that pages show what programs print;
- that $a^2 + b^2 = c^2$.

Read in this order: `main.c`, `helper.c`.
END
cat >$one <<'END'
// main.c: README.md is its head.
#include "chapters/01_one/helper.h"
#include "common/base/range.h"
#include <stdio.h>
#include <stdlib.h>

// ## A section
//
// It calls `range_first()`, "quoted", of --flags.
//
// | of | is a sentence that is long enough for a column which has a width, and a second line of it |
// |----|-------------------------------------------------------------------------------------------|
// | a  | b                                                                                         |
//
// ![What to see in it.](plots/p.png
// "A point")
//
//     +--+
//     |  |
//
// ![It goes round.](exchange:all "A ring")
//
// helper.c:range_first
//
// part.c:part_one
//
// all.c:all_of_it
//
// main.c:ask_about_lines

// What is asked.
static Prediction ask_about_lines(void) { return predict_first("How long are they?"); }

static void print_section(void) {
    Prediction length = ask_about_lines();
    predict_first("How many \"lines\" "
                  "does it print?");
    predict_compare(length, 79.5, "characters");
    printf("range_first(3) is %d <tag>\n", range_first(3));
    printf("\nA sentence that is too long for one line of a terminal of eighty columns is\nwrapped.\n\nname    ms\none    1.5\nthree   12\n");
    printf("one picture:\nplots/p.png\n");
}

// ## Questions
//
// 1. Is this a question?
// 2. Is this one, too?

// ## The program

static void run_all(void) { print_section(); }
static void print_all(void) {
    printf("all:\n");
    fflush(stdout);
    if (system("echo A child says so.")) return;
    run_all();
}
int main(void) {
    print_all();
    return 0;
}
END
printf '// helper.h: helps.\n#include "common/program/predict.h"\n' >chapters/01_one/helper.h
printf '// helper.c: helps.\n#include "helper.h"\n#include "common/base/range.h"\n\n// ## A section\n\n// The first of them.\nint range_first(int n) { return n; }\n\n// Others.\n' \
    >chapters/01_one/helper.c
printf '// part.h: more.\nint part_one(void);\n' >chapters/01_one/part.h
printf '// part.c: more.\n#include "part.h"\n\n// One.\nint part_one(void) { return 1; }\n\n// Two.\nint part_two(void) { return 2; }\n' \
    >chapters/01_one/part.c
printf '// all.c: all.\n\nint all_of_it(void) { return 3; }\n' >chapters/01_one/all.c
mkdir -p chapters/01_one/exercises/1_do_it
printf '// # Exercise 1: do it\n\n// Difficulty: ★\n\nint yours(void) { return 0; }\n' >chapters/01_one/exercises/1_do_it/your_part.c
mkdir chapters/01_one/exercises/2_why && printf '# Exercise 01-2: why\n\n**Question.** Why is it so?\n' >chapters/01_one/exercises/2_why/question.md
printf '// experiment.c: measures.\n\n// It.\nint measured(void) { return 4; }\n' >chapters/01_one/exercises/2_why/experiment.c
printf '1. Yes.\n2. Yes, and\n   no.\n\n   It `range_first()`.\n   <!-- figure: 1 = run-01: marked[] -->\n' >chapters/01_one/answers.md
printf '# 2. A second chapter\n\nAfter [the first](../01_one), not [more](../../kernels/cost.h). A worker waits. <!-- figure: 1 = run-01: marked[] -->\n' \
    >chapters/02_two/README.md
printf '// main.c: it fails.\n\n\nint main(void) { return 3; }\n' >chapters/02_two/main.c
printf '# References\n\none\n:   One: "A work", 2001.\n' >chapters/references.md
printf '"""It."""\n\n\n# C: range_first\ndef first_of(n):\n    """Shorter:"""\n    return first\n\n\nprint(1)\n' >chapters/01_one/in_pytorch.py
mkdir -p plots/recorded && printf '# cksum 1\n# It printed:\nthat much\n' >plots/recorded/01_in_pytorch.txt
printf '# The book\n\nWhat it is.\n\n## How\n\nSee the [glossary](glossary.md).\n
```sh\nmake run-01 ARGS="--devices 4 --machine another"   # on four devices of another machine, which is to go below\n```\n
    build/01_one --help          says what it can be told, beside a command in a block that has no language\n' >chapters/index.md
printf '# Glossary\n\n| Here | Elsewhere | What it is |\n|:--|:--|:--|\n| worker (2) | rank | It computes. |\n\nWords.\n' >chapters/glossary.md
printf '# Questions\n\n### Is it slow?\n<!-- search: speed -->\n\nYes.\n\n```sh\nbuild/01_one --devices 2\n```\n<!-- shows: so; is -->\n' \
    >chapters/questions.md
mkdir -p build/runs/questions
printf '\tbuild/01_one --devices 2\tshows: so; is\nso it is\n' >build/runs/questions/shown
echo 'a run.' >build/runs/questions/about
echo 'const PARAPHRASES = { "is-it-slow": ["speed?"] };' >plots/book/paraphrases.js
printf '# For instructors\n\nNot for students.\n' >chapters/for_instructors.md
cat >chapters/01_one/lab.md <<'END'
# Lab 01: A first lab

**Aim.** To see.

**Time.** 15 minutes.

## Steps

1. (5 min) Read `helper.h`.
2. (10 min) `make run-01 ARGS='--devices 4 --machine that-one'`.

## Questions

1. What was seen?
2. And why?

## Hand in

The answers.
END
printf '1. This.\n2. That, and\n   more.\n\n## For the instructor\n\nThey get stuck.\n<!-- figure: 1 =\nrun-01: marked[] -->\n' >chapters/01_one/lab_answers.md
printf '# Lab 02: A second lab\n\n**Time.** 5 minutes.\n\n## Steps\n\n1. (5 min) Look.\n\n## Questions\n\n1. What?\n\n## Hand in\n\nIt.\n' \
    >chapters/02_two/lab.md
printf '1. It.\n\n## For the instructor\n\nNothing.\n' >chapters/02_two/lab_answers.md

printf -- '--devices 2\nIt has some images.\n' >chapters/01_one/in_browser

# Runs of it: of the first chapter a real one.
record() { # NN_name
    "${CC:-cc}" -D_GNU_SOURCE -g -no-pie -finstrument-functions -I. -iquote "$root" -o "$work/$1" "chapters/$1"/*.c plots/book/record.c -lpthread \
        -Wl,--wrap=predict_first,--wrap=predict_compare &&
        sh plots/book/run.sh "$work/$1" "$1" "build/runs/$1"
}
put_pictures() {
    mkdir -p build/runs/01_one/plots
    cp plots/readme/lenet_curves.png build/runs/01_one/plots/p.png
    {
        echo '<svg xmlns="http://www.w3.org/2000/svg" version="1.1" viewBox="0 0 100 40" aria-label="p">'
        echo '<rect x="1" y="1" width="50" height="20" fill="#5ab4e6"><title>conv1: 1 ms, 20 `$1` bytes</title></rect></svg>'
    } >build/runs/01_one/plots/p.svg
}
make_book() { sh plots/book/book.sh build student >"$out" 2>&1; }

record 01_one >"$out" 2>&1 || complain "the first chapter does not run: $(cat "$out")"
put_pictures
make_book || complain "no book: $(cat "$out")"
verdict "a book is made"

# ---- its pages -----------------------------------------------------------------------------------

expect_in() { # PAGE PATTERN
    tr '\n' ' ' <"build/book/$1" | grep -q -e "$2" || complain "$1 lacks: $2"
}
expect_in 01.html 'The output on this page is from .*make run-01'
expect_in 01.html 'id="tab-1-2".*int</span> <a class="d" href="ref/common-base.html#n-range_first">range_first.*class="pytorch".*first.*print_section'
expect_in index.html '<pre class="commands"><code><span><span><span>make</span> .*<span class="gap">   </span><span># on four.*class="gap">          </span><span>says'
expect_in 01.html 'print_section.*class="output">.*range_first(3) is 3 &lt;tag&gt;.*<p>A sentence that is too long [^<]* is wrapped.</p>.*<th[^>]*>ms</th>.*three.*Is this a question'
expect_in 01.html '<details id="file-chapters-01-one-main-c"><summary>The rest of main.c</summary> *<div class="output">.*all:.*A child says so.*<summary>helper.h</summary>.*<summary>The rest of part.c and part.h</summary>.*part_two.*id="file-chapters-01-one-part-h".*part_one'
expect_in 01.html '<div id="file-chapters-01-one-all-c">.*all_of_it.*id="rest"'
[ "$(grep -o 'all_of_it\|>part_one' build/book/01.html | wc -l)" = 3 ] || complain "what the story shows is there again"
expect_in 01.html 'Is this a question?</p> *<details> <summary>Answer</summary> *<p>Yes.</p> *</details>.*Is this one, too?</p> *<details>.*Yes, and no.</p> *<p>It <a[^>]*><code[^>]*>range_first()</code></a>.</p> *</details></li>'
mkdir "$work/page"
sh plots/book/book.sh build student whole "$work/page" >"$work/page/said" 2>&1 || complain "no book in one page: $(cat "$work/page/said")"
tr '\n' ' ' <"$work/page/whole.html" | grep -q 'Is this one, too?.*Answers.*Yes, and no.' || complain "no answers behind the questions"
grep -q -e '<details' -e 'child says so' "$work/page/whole.html" && complain "one page of the whole book has what is folded"
expect_in 01.html '<figure class="timeline" data-timeline="pictures/01/p">.*alt="A point".*Figure 1.1</strong> What to see in it\..*<svg[^>]*diagram.*<path.*aria-label="A ring"'
expect_in 01.html 'class="predict" data-answer="79.5" data-unit="characters".*How long are they'
expect_in 01.html 'class="predict".*How many .lines. does it print?.*static.*print_section'
expect_in 01.html 'How long are they?.*How many .lines. does it print?.*print_section.*<details id="file-chapters-01-one-main-c">.*What is asked.*ask_about_lines'
[ "$(grep -c 'How long are they' build/book/01.html)" = 2 ] || complain "a question is there twice besides its code"
expect_in 01.html '<details><summary> *<h3 id="exercise-01-1">Exercise 01-1: Do it</h3> *<p>★ .*yours.*</details>.*id="rest"'
expect_in 01.html '<h3 id="exercise-01-2">Exercise 01-2: Why</h3>.*a question and an experiment.*Why is it so?.*experiment.c.*measured'
expect_in 01.html '<strong>What you will learn</strong>.*<li>.*<math.*<msup>'
expect_in 01.html 'the first <a href="references.html#one">\[1\]</a>.*“quoted”, of --flags'
expect_in 01.html 'id="file-chapters-01-one-helper-c".*id="a-section-2".*Others\.'
grep -q 'The first of them' build/book/01.html || complain "the comment above a function that is placed is gone"
grep -q 'stdio' build/book/01.html && complain "it shows what files include"
expect_in 01.html 'data-column="of"'
expect_in 01.html 'rel="next" href="02.html"'
expect_in 02.html '<a href="glossary.html#term-worker-0" [^>]*>worker</a>'
expect_in glossary.html 'id="term-worker-0"'
expect_in sections.js '"01.html#a-section", "A section", "01 A first chapter", ".*"glossary.html#term-worker-0"'
expect_in questions.html 'commands.*<span>--devices</span>.*class="output">.*so it is.*this page is from a run'
grep -q 'shows:' build/book/questions.html && complain "a page has the mark of what it shows"
expect_in 02.html 'After <a href="01.html">the first</a>, not more\. '
expect_in index.html 'href="01.html">A first chapter.*that pages show what programs print.*href="02.html">A second'
expect_in index.html 'class="cover" href="01.html".*pictures/01/p.png'
expect_in index.html 'training-on-multiple-gpus.epub.*href="glossary.html".*href="ref/common-base.html#file-common-base-range-h"'
expect_in 01.html 'href="01-lab.html">Lab</a>'
expect_in index.html 'href="01-lab.html">Lab sheet</a>'
expect_in 01-lab.html '<body class="lab">.*href="01.html">Chapter</a>.*Lab 01</span> A first lab</h1>.*class="who"'
expect_in 01-lab.html 'What was seen?.*rel="next" href="02-lab.html"'
expect_in 01-lab.html '<span>run-01</span> <span>ARGS=.--devices</span> <span>4</span> <span>--machine</span>'
expect_in ref/common-base.html 'Some of n things.*id="n-range_first"'
grep -q -e 'That, and' -e 'get stuck' -e 'or instructors' build/book/*.html &&
    complain "the student's edition has answers to the lab's questions"
grep -q 'marked' build/book/*.html && complain "pages show from where a figure is"
[ ! -e build/book/for_instructors.html ] || complain "the student's edition has the page for instructors"
[ -s build/book/training-on-multiple-gpus.epub ] || complain "no EPUB"
verdict "a page has prose, code, what its functions printed, pictures, formulas, links and answers"

grep -q '^book: no WebAssembly, so no program runs in a page: ' "$out" || complain "came: $(cat "$out")"
expect_in 01.html 'range_first(3) is 3.*The program of this chapter could run here.*no compiler for WebAssembly.*make setup book'
[ "$(grep -o 'could run here' build/book/*.html | wc -l)" = 1 ] || complain "it is not said once"
expect_in index.html 'Programs cannot run in these pages.*make setup book'
verdict "without WebAssembly pages say why nothing runs in them"

# A chapter that was changed since, without a run: what has no place any more is not lost.
cp $one "$work/kept"
while IFS='@' read -r change wanted; do
    sed -i "$change" $one
    make_book || complain "no book of changed sources: $(cat "$out")"
    expect_in 01.html "$wanted"
done <<'END'
3s|^|//\n//\n|@print_section.*class="output">.*range_first(3) is 3.*The rest of main
s|print_section|print_other|@The rest of main.c</summary> *<div class="output">.*range_first(3) is 3
END
cp "$work/kept" $one
verdict "a run of older sources"

mkdir build/wasm "$work/images"
touch build/wasm/01_one.wasm
for name in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
    head -c 3000000 /dev/zero >"$work/images/$name-ubyte"
done
FASHION_MNIST_DIR=$work/images env --ignore-signal=PIPE sh plots/book/book.sh build instructor >"$out" 2>&1 || complain "no instructor's edition: $(cat "$out")"
rm -r build/wasm
grep -e 'no WebAssembly' -e 'Broken pipe' "$out" >>"$problems" # (some that start a make have SIGPIPE ignored)
grep -e 'could run here' -e 'cannot run in these' build/book/*.html >>"$problems"
expect_in 01.html 'data-program="01_one" data-flags="--devices 2" data-note="It has some images."'
verdict "with it, they have what runs it"
expect_in 01.html 'Is this one, too?.*Yes, and no.'
grep -q 'marked' build/book/*.html && complain "pages show from where a figure in a lab's answers is"
expect_in 01-lab.html 'The answers.*class="lab-answers".*This.*That, and more.*For the instructor.*They get stuck.</p>'
expect_in index.html 'href="for_instructors.html"'
expect_in for_instructors.html 'Not for students'
verdict "the instructor's edition has answers to labs"

# What students have: no answers to labs. And a chapter may have none to its questions yet.
mkdir "$work/answers"
mv chapters/01_one/*answers.md "$work/answers"
make_book || complain "no student's edition without answers: $(cat "$out")"
[ "$(grep -c . "$out")" -le 4 ] || complain "a student's edition complains: $(cat "$out")"
expect_in 01.html 'Is this one, too?</li>'
expect_in 01-lab.html 'What was seen?'

# ---- bad input -----------------------------------------------------------------------------------

only= # what of the book is made
# Something is wrong with the sources: an error with that place, a hint, no traceback, and the old book is there.
expect_refusal() { # PLACE WORDS [COMMAND...]
    place=$1 words=$2
    shift 2
    [ $# -gt 0 ] || set -- sh plots/book/book.sh build "${edition:-student}" $only
    echo old >build/book/mark
    if "$@" >"$out" 2>&1; then complain "$words: no error"; fi
    grep -q "^book: error: $place.*$words" "$out" && grep -q '^hint: .' "$out" && ! grep -qi 'traceback\|\.lua:' "$out" &&
        [ -e build/book/mark ] && [ ! -e build/book.new ] && return
    complain "expected 'book: error: $place ... $words', a hint and the old book; came:"
    sed 's/^/#     /' "$out" >>"$problems"
}
# FILE is for a while what the command makes of it.
with() { # FILE SED_COMMAND PLACE WORDS
    cp "$1" "$work/kept"
    sed -i "$2" "$1"
    expect_refusal "$3" "$4"
    cp "$work/kept" "$1"
}

expect_refusal 'chapters/01_one/lab_answers.md:' "not there, and so no instructor's edition" sh plots/book/book.sh build instructor tools
cp "$work"/answers/*answers.md chapters/01_one
verdict "without a lab's answers there is a student's edition, and no instructor's"

with $one 's|"quoted"|```|' "$one:9:" 'has no partner'
with $one 's|"quoted"|a `tick|' "$one:9:" 'has no partner'
with $one 's|"quoted"|[a](nowhere.md)|' "$one:9:" 'nowhere.md'
with $one 's|## A section|##A section|' "$one:7:" 'heading needs a space'
with $one 's|helper.c:range_first|helper.c:range_last|' "$one:23:" 'helper.c:range_last is not there'
with $one 's|"quoted"|helper.c:range_last|' "$one:9:" 'helper.c:range_last is not there'
with $one 's|(plots/p.png|(plots/q.png|' "$one:" 'no caption for plots/p.png'
with $one 's|exchange:all "A ring"|exchange:all|' "$one:21:" 'without words for those who cannot see'
with chapters/01_one/README.md 's|@one|@two|' 'chapters/01_one/README.md:3:' 'no source two'
with chapters/01_one/helper.h '1s|$|\n//\n// ```|' 'chapters/01_one/helper.h:3:' 'has no partner'
with common/base/range.h '5s|$|\n// a `tick|' 'common/base/range.h:6:' 'has no partner'
with chapters/glossary.md '$s|$| [a](nowhere.md)|' 'chapters/glossary.md:7:' 'nowhere.md'
verdict "comments that are no Markdown, or name what is not there"

with chapters/01_one/README.md '1s|# ||' "chapters/01_one/README.md:1:" 'title'
with chapters/glossary.md '1s|# ||' 'chapters/glossary.md:1:' 'title'
verdict "no title"

with chapters/01_one/answers.md '2s|2|3|' 'chapters/01_one/answers.md:2:' 'answer 3 where answer 2'
with chapters/01_one/answers.md '1d;s|^2|1|' 'chapters/01_one/answers.md:5:' '1 answers to 2 questions'
with chapters/01_one/answers.md '1s|^|Answers\n|' 'chapters/01_one/answers.md:1:' 'belongs to no answer'
with chapters/01_one/answers.md '5s|^   It| It|' 'chapters/01_one/answers.md:5:' 'belongs to no answer'
with chapters/01_one/answers.md '3s|no|`no|' 'chapters/01_one/answers.md:3:' 'has no partner'
with $one 's|## Questions|## Others|' 'chapters/01_one/answers.md:1:' 'without questions'
verdict "answers that are not those of the questions"

only="labs $work/page"
lab=chapters/01_one/lab
with $lab.md '1s|01|02|' "$lab.md:1:" 'begins with its title'
with $lab.md '/^## Questions/d' "$lab.md:1:" 'without ## Questions'
with $lab.md 's|^1. (5 min)|1. (50 min)|' "$lab.md:5:" '15 minutes, and its steps take 60'
with $lab.md '/Time/d' "$lab.md:1:" 'how long it takes'
with $lab.md 's|^2. (10 min)|2.|' "$lab.md:10:" 'without its number or its time'
with $lab.md 's|^2. And|And|' "${lab}_answers.md:3:" '2 answers to 1 questions'
with $lab.md '3s|see|`see|' "$lab.md:3:" 'has no partner'
with ${lab}_answers.md '2s|2|3|' "${lab}_answers.md:2:" 'answer 3 where answer 2'
with ${lab}_answers.md '5s|For|To|' "${lab}_answers.md:1:" 'nothing for the instructor'
only=
verdict "lab sheets that are not as they should be"

rm build/runs/01_one/plots/p.png
expect_refusal 'build/runs/01_one/stdout:12:' 'plots/p.png and did not write it'
echo "no picture" >build/runs/01_one/plots/p.png
expect_refusal 'build/runs/01_one/plots/p.png:' 'not a PNG'
put_pictures
verdict "a picture that is not there, or none"

expect_refusal 'chapters/02_two/main.c:4:' 'ended with status 3' record 02_two
mkdir -p build/runs/02_two
echo old >build/runs/02_two/stdout
expect_refusal 'chapters/02_two/main.c:4:' 'ended with status 3' record 02_two
[ "$(cat build/runs/02_two/stdout)" = old ] || complain "what the last run printed is gone"
verdict "a chapter whose program fails"

mkdir "$work/bin" "$work/old"
ln -s /bin/* /usr/bin/* "$work/bin" 2>/dev/null
rm -f "$work/bin/pandoc" "$work/bin/chromium"
printf '#!/bin/sh\necho pandoc 2.9.2.1\n' >"$work/old/pandoc"
chmod +x "$work/old/pandoc"
expect_refusal '' 'pandoc is missing' env PATH="$work/bin" sh plots/book/book.sh build student
expect_refusal '' 'pandoc 2.9.2.1 is too old' env PATH="$work/old:$PATH" sh plots/book/book.sh build student
expect_refusal '' 'no such edition: teacher' sh plots/book/book.sh build teacher
expect_refusal '' 'chromium is missing' env PATH="$work/bin" sh plots/book/check.sh build/book
printf '#!/bin/sh\necho pandoc 3.1\n' >"$work/bin/pandoc"
chmod +x "$work/bin/pandoc"
expect_refusal '' 'chromium is missing' env PATH="$work/bin" sh plots/book/sheets.sh build student labs
verdict "tools that are missing or too old"

# ---- make book-serve -----------------------------------------------------------------------------

# Two at once: the second one says that the first port is taken, and both show the book until Ctrl-C.
serving=
trap 'kill $serving 2>/dev/null; rm -rf "$work"' EXIT
for n in 1 2; do
    env --default-signal=INT python3 plots/book/serve.py build/book >"$work/served.$n" 2>&1 &
    serving="$serving $!"
    for tenth in $(seq 100); do grep -q http "$work/served.$n" && break || sleep 0.1; done
    address=$(sed -n 's|^book: \(http://127.0.0.1:[0-9]*/\) until Ctrl-C$|\1|p' "$work/served.$n")
    python3 -c 'import sys, urllib.request as r; sys.stdout.buffer.write(r.urlopen(sys.argv[1] + "01.html").read())' "$address" |
        cmp -s - build/book/01.html || complain "nothing comes from '$address': $(cat "$work/served.$n")"
done
grep -q '^book: port 8000 is taken$' "$work/served.2" || complain "it does not say why it is another port: $(cat "$work/served.2")"
cmp -s "$work/served.1" "$work/served.2" && complain "both have one port"
kill -INT $serving
wait $serving || complain "status $? after Ctrl-C"
serving=
grep -i traceback "$work/served.1" "$work/served.2" >>"$problems"
mkdir "$work/no-python"
ln -s "$(command -v sh)" "$(command -v dirname)" "$work/no-python"
expect_refusal '' 'python3 is missing' env PATH="$work/no-python" sh plots/book/serve.sh build/book
expect_refusal '' 'no book in build/nothing' sh plots/book/serve.sh build/nothing
verdict "the pages are served at a port that is free"

# ---- the check in a browser ----------------------------------------------------------------------

if ! command -v chromium >/dev/null; then
    skip "pages and lab sheets in a browser" "no chromium (make setup book-check)"
else
    rm build/book/mark
    sh plots/book/check.sh build/book >"$out" 2>&1 || complain "$(cat "$out")"
    grep -q '^book: checked 11 pages$' "$out" || complain "not all pages were looked at: $(cat "$out")"
    verdict "pages in a browser"

    plant() { printf '%s\n' "$2" >>"build/book/$1"; } # PAGE HTML
    plant index.html '<script>throw new Error("planted")</script>'
    plant 02.html '<script>console.error("planted, too")</script>'
    plant 01.html '<img src="pictures/none.png" alt="" width="1" height="1"><img src="pictures/01/p.png">'
    plant 01.html '<a href="nowhere.html">x</a> <a href="#nowhere">x</a> <a href="02.html#nowhere">x</a>'
    plant 02.html '<p class="planted" style="width: 500px">wide</p><script src="http://localhost/x.js"></script>'
    plant 02.html '<pre class="commands">make run-02   # a comment that is not moved below, on a phone</pre>'
    plant 02.html '<p id="text">a second text</p><h1>a second title</h1>'
    plant glossary.html "<!-- $(head -c 1000000 /dev/zero | tr '\0' x) -->"
    plant questions.html '<h3 id="planted-question">Is it?</h3>'
    echo 'PARAPHRASES["is-it-slow"].push("xyzzy");' >>plots/book/paraphrases.js
    sed -i '/ref.*n-range_first"/d' build/book/names.js
    sed -i 's|<title>conv1.*</title>||' build/book/pictures/01/p.js
    sh plots/book/check.sh build/book >"$out" 2>&1 && complain "the check found nothing"
    while read -r fault; do
        grep -q "^book: error: $fault" "$out" || complain "not found: $fault"
    done <<'END'
index.html: in the console: Uncaught Error: planted
02.html: in the console: planted, too
01.html: a picture without pixels: pictures/none.png
01.html: a picture without width: pictures/01/p.png
01.html: a picture without height: pictures/01/p.png
01.html: a picture without alt: pictures/01/p.png
01.html: a link that leads nowhere: nowhere.html
01.html: a link that leads nowhere: #nowhere
01.html: a link that leads nowhere: 02.html#nowhere
01.html: a timeline whose bars say nothing
02.html: 5[0-9]* pixels across in a window of 390; widest: <p class="planted" style="width: 500px"> wide
02.html: commands are cut off in a window of 390: make run-02
02.html: loads what is not in the book: http://localhost/x.js
02.html: two elements have the id text
02.html: 2 elements h1, where one belongs
questions.html: no other words for the question planted-question
questions.html: the search does not find is-it-slow by xyzzy
ref/common-base.html: pointing at range_first does not show its declaration
glossary.html: 10[0-9]* bytes, more than 1000000
END
    grep -q '^hint: .' "$out" || complain "no hint"
    [ -s "$problems" ] && sed 's/^/#     /' "$out" >>"$problems"
    verdict "faults in pages are found"

    sh plots/book/sheets.sh build student labs >"$out" 2>&1 || complain "no sheets: $(cat "$out")"
    pages_of() { grep -a -c '/Type */Page$' "build/book/labs/lab-$1.pdf"; }
    [ "$(pages_of 01)$(pages_of 02)" = 11 ] || complain "a sheet is not one page"
    rm chapters/02_two/lab*.md
    sh plots/book/sheets.sh build instructor labs >"$out" 2>&1 || complain "no sheets with answers: $(cat "$out")"
    [ "$(pages_of 01)" = 2 ] || complain "the answers are not on a page of their own"
    for i in $(seq 100); do printf '\nAnd so on, %s.\n' "$i"; done >>$lab.md
    expect_refusal "$lab.md:" 'its sheet is [2-9] pages' sh plots/book/sheets.sh build student labs
    verdict "lab sheets are printed, one page each"
fi
echo "1..$tests"
