#!/bin/sh
# chapter_01_test.sh BUILD: chapter 1 runs, its own checks pass, and it draws its pictures. (Other numbers
# of devices and flags: chapter_01_flags_test.sh.) Prints TAP.
build=$1
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
tests=0
verdict() { # STATUS NAME
    tests=$((tests + 1))
    [ "$1" -eq 0 ] && echo "ok $tests - $2" && return
    echo "not ok $tests - $2"
    sed 's/^/# /' "$out/log" "$out/error"
}
skip() { # NAME WHY
    tests=$((tests + 1))
    echo "ok $tests - $1 # SKIP $2"
}
is_svg() { # FILE TEXT
    [ "$(head -c 5 "$1")" = '<svg ' ] && [ "$(tail -n 1 "$1")" = '</svg>' ] && grep -q "$2" "$1"
}
is_png() { [ "$(od -An -tx1 -N8 "$1" 2>/dev/null | tr -d ' \n')" = 89504e470d0a1a0a ]; }

# A data set of 64 images; their pixels are bytes of the program.
mkdir "$out/data"
{
    printf '\000\000\010\003\000\000\000\100\000\000\000\034\000\000\000\034'
    tail -c $((64 * 784)) "$build/01_splitting_strategies"
} >"$out/data/train-images-idx3-ubyte"
{
    printf '\000\000\010\001\000\000\000\100'
    for i in 1 2 3 4 5 6 7 8; do printf '\001\005\000\011\003\007\002\004'; done
} >"$out/data/train-labels-idx1-ubyte"

run() {
    "$build"/01_splitting_strategies --data "$out/data" --out "$out/plots" "$@" >"$out/log" 2>"$out/error"
}
says_nothing_on_stderr() { ! grep -v 'no GPU' "$out/error" | grep -q .; }

run --batch-size 32 --steps 2
verdict $? "ends without an error"
command -v gnuplot >/dev/null && { says_nothing_on_stderr; verdict $? "says nothing on stderr"; }
# The last five columns: counted, formula, syncs, measured, modelled
sed -n '/^strategy .* counted /,/^From the host/p' "$out/log" | sed '1d;$d' |
    awk '{ rows++; if (NF < 10 || $(NF - 4) != $(NF - 3) || $NF <= 0 || $(NF - 1) <= 0) bad++ } END { exit !(rows == 9 && !bad) }'
verdict $? "nine rows, the bytes that were counted are those of the formula, and there are both times"
# 2 (k-1) times the parameters, whatever the minibatch
grep -q '^  *2 .* 1032544  *1032544  *1 ' "$out/log" && grep -q '^  *4 .* 3097632  *3097632  *1 ' "$out/log"
verdict $? "across data: 2 (k-1) times the bytes of the parameters"
[ "$(grep -c 'same loss .* same gradients .* same loss after update' "$out/log")" -eq 9 ]
verdict $? "three ways on 1, 2 and 4 devices give what one device gives"
grep -q '^AlexNet  *1  one device  *489 ' "$out/log" && grep -q '^ResNet-18  *1  one device  *94 ' "$out/log"
verdict $? "the larger networks"
# A line for each of 2 and of 4 devices, three ways; a pipeline's first stage has the most activations.
[ "$(grep -c '^    [a-z]*:[0-9#]* [0-9.]* + [0-9.]* MB: conv\|^    [a-z]*:[0-9#]* [0-9.]* + [0-9.]* MB: linear' "$out/log")" -eq 18 ] &&
    grep -q '^    [a-z]*:0[#0-9]* 0.002 + 5.29 MB: conv1$' "$out/log"
verdict $? "the bytes that each device holds"
for picture in timeline_2 timeline_4 bubble; do
    is_png "$out/plots/01_splitting_strategies_$picture.png"
    verdict $? "the picture $picture"
    is_svg "$out/plots/01_splitting_strategies_$picture.svg" "<title>forward 1 (.*) on .*:1, [0-9.]* ms to [0-9.]* ms</title>"
    verdict $? "the picture $picture as SVG: its bars say what they are"
done
if command -v gnuplot >/dev/null; then
    is_png "$out/plots/01_splitting_strategies_model.png"
    verdict $? "the picture model"
else
    skip "the picture model" "no gnuplot"
fi
# AlexNet fits each machine: pipelines of 1, 2, 4, 8 devices, up to 32 within layers, 128 across data. A
# pipeline of ResNet-18 can have 10 stages, too; and one laptop has too little memory for it.
csv=$out/plots/01_splitting_strategies_model.csv
[ "$(grep -c '^AlexNet,' "$csv")" -eq $((3 * (4 + 6 + 8))) ] && [ "$(grep -c '^ResNet-18,dgx-a100,' "$csv")" -eq $((5 + 6 + 8)) ] &&
    grep -q '^ResNet-18,dgx-a100,across layers,10,' "$csv" && ! grep -q '^ResNet-18,laptops-1gbe,across data,1,' "$csv"
verdict $? "the modelled figures"
# A pipeline of equal stages is idle for (k-1)/(m+k-1) of the time, and for loading and sending: k, m, formula, these
# stages, idle
awk '/^  eight wide layers/ { rows++; if ($7 + 0 < $6 - 0.1 || $8 + 0 < $7 || $8 > $6 + 5) bad++ } END { exit !(rows == 8 && !bad) }' "$out/log"
verdict $? "the modelled bubble is the formula's, and a little more"
cp "$out/log" "$out/log_with_values"
cp "$csv" "$out/csv_with_values"

# Modelled time is the same without values, of which nothing is said.
modelled() { # LOG
    sed -n '/^strategy .* counted /,/^From the host/p' "$1" | sed '1d;$d' | awk '{ print $NF }'
    grep '^  eight wide layers' "$1"
    sed -n '/^Larger networks/,/^Why split/p' "$1"
}
run --batch-size 32 --backend model && ! grep -q 'same loss\|measured here' "$out/log" && grep -q '^across data .* - ' "$out/log"
verdict $? "--backend model: no values, nothing measured"
modelled "$out/log_with_values" >"$out/with"
modelled "$out/log" >"$out/without"
[ -s "$out/with" ] && cmp -s "$out/with" "$out/without" && cmp -s "$csv" "$out/csv_with_values"
verdict $? "--backend model: the same modelled times"
echo "1..$tests"
