#!/bin/sh
# defaults_test.sh BUILD: each chapter as a reader first runs it, with its default flags and on the real data: the runs
# that the book is made of (BUILD/runs, by plots/book/run.sh; a program that fails leaves none). They come to their end,
# say nothing on stderr, and leave the picture that they name; and chapter 4 learns. Prints TAP.
. "$(dirname "$0")/tap.sh"
problems=$(mktemp) || exit 1
trap 'rm -f "$problems"' EXIT
for chapter in "$(dirname "$0")"/../chapters/[0-9]*/main.c; do
    chapter=$(basename "$(dirname "$chapter")")
    cd "$build/runs/$chapter" || exit 1
    picture=$(tail -n 2 stdout | sed -n 's/^to open: \([^ ]*\).*/\1/p')
    [ -s "$picture" ] || complain "no picture: '$picture'"
    tail -n 1 stdout | grep -q '^next: make ' || complain "it does not say what is next"
    grep -v 'no GPU' stderr >>"$problems"
    verdict "$chapter"
done
cd "$build/runs/08_many_machines" || exit 1
if grep -q '^4 ranks on 1 host' stdout; then # there is MPI
    for line in '^  sharded .* the same$' '^  each gradient alone ' 'one rank in 4 parts$'; do
        grep -q -e "$line" stdout || complain "expected a line: $line"
    done
    verdict "chapter 8: sums, exchanges, and one rank beside four"
fi
# What it says of the rules: four times the rate trains only after warm-up, if at all, and with 1,024 images only the base
# rate does. (With CI's few images it need not be so.)
if grep -q '^4 ranks on 1 host' stdout && grep -q '^`make run-08` on' about; then
    awk -F, 'NR > 1 { mean[$1, $2] = $3 }
        function expect(good, text) { if (!good) print "not so: " text }
        END {
            warm = "linear with warm-up"
            expect(mean[256, "linear"] < mean[256, warm], "256 images: warm-up helps the linear rule")
            expect(mean[256, "none"] < mean[64, "none"], "256 images lose accuracy")
            expect(mean[1024, "none"] > 0.6, "1024 images: the base rate trains")
            expect(mean[1024, "square root"] < 0.5 && mean[1024, "linear"] < 0.5 && mean[1024, warm] < 0.5, "the others do not")
        }' plots/08_many_machines_lr_rules.csv >>"$problems"
    verdict "chapter 8: what it says of the learning rates"
fi

# From the book's own start it must get off the plateau (loss 2.30, accuracy 0.10) at which it begins. Measured: 0.82
# to 0.83 and 0.40; other machines round differently. The book's line is printed for each run.
cd "$build/runs/04_lenet_multi_gpu" || exit 1
awk -F, '$2 == 10 { ends++; if (!($4 >= 0.75 && $3 <= 0.55)) bad = 1 } END { exit bad || ends != 2 }' \
    plots/04_lenet_multi_gpu.csv && [ "$(grep -Ec '^test acc: 0\.[0-9]{2}, [0-9.]+ sec/epoch on \[(cpu|cuda):0' stdout)" -eq 2 ] &&
    [ "$(wc -l <stdout)" -le 50 ] || complain "$(cat plots/04_lenet_multi_gpu.csv stdout)"
verdict "chapter 4 learns, on 1 device and on 2, and prints at most 50 lines"
echo "1..$tests"
