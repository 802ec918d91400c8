#!/bin/sh
# truth_test.sh BUILD: published figures beside modelled ones (make truth): the book's page has what the program prints,
# each row that is far off says why, and a figure that cannot be read is an error. Prints TAP.
. "$(dirname "$0")/tap.sh"
cd "$work" || exit 1
mkdir -p tests
cp -R "$root/tests/published" tests
truth=$build/tests/bench/truth

"$truth" >printed || complain "status $?"
sed '1,/^## Row by row/d' "$root/chapters/how_true.md" | diff printed - >>"$problems"
verdict "chapters/how_true.md has the tables of make truth (make truth-page)"
grep 'no cause named' printed >>"$problems"
verdict "each row that is more than 15 % off names its cause"

refused() { # FILE LINE SED WANTED: with this change, the program ends and says where and what
    cp "$root/tests/published/$1" tests/published
    sed -i "$2$3" "tests/published/$1"
    cmp -s "$root/tests/published/$1" "tests/published/$1" && complain "nothing changed: $3"
    "$truth" >printed 2>error && complain "status 0"
    grep -q "tests/published/$1:$2: .*$4" error || complain "no '$4' in: $(cat error)"
    cp "$root/tests/published/$1" tests/published
    verdict "$1:$2 $3"
}
refused steps.csv 2 's/0.347/nan/' 'ms is "nan"'
refused steps.csv 3 's/0.445/0.4x/' 'ms is "0.4x"'
refused scaling.csv 2 's/87.2388//' 'ms is ""'
refused scaling.csv 3 's/^heldout/held/' 'use is "held"'
refused scaling.csv 2 's/0.7"/&x/' 'quotes'
refused transformers.csv 4 's/1357/nan/' 'value is "nan"'
refused allreduce.csv 2 's/43.83/-43.83/' 'time_us is'
refused allreduce.csv 4 's/,[^,]*$//' 'cells'
echo "1..$tests"
