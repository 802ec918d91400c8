#!/bin/sh
# chapter_02_test.sh BUILD: chapter 2 runs, its own checks pass, it prints the book's figures, and writes its table and
# picture: on its own machine, on others and on none, by each algorithm, with values and without. Prints TAP.
name=02_get_params_and_allreduce
. "$(dirname "$0")/chapter.sh"

# FILE MACHINE K..: on that machine all ways have nine sizes for the first K, and both sizes for each further K; the only
# measured row is the ring's.
is_table() {
    file=$1 machine=$2
    shift 2
    awk -F, -v machine="$machine" -v ks="$*" '
        NR == 1 { if ($0 != "time,machine,algorithm,devices,bytes,seconds,algbw,busbw,about") bad = 1; next }
        NF != 9 || !($6 > 0) || !($7 > 0) || !($8 > 0) { bad = 1 }
        $1 == "measured" { if ($2 != "here" || $3 != "ring" || ++measured > 1) bad = 1; next }
        $1 != "modelled" || $2 != machine { bad = 1 }
        $3 != "NCCL" { rows[$3, $4, $5 ~ /^(8192|160000000)$/]++; all++ }
        END {
            n = split(ks, k, " "); m = split("star,star in pieces,sharded,ring,tree", names, ",")
            for (j = 1; j <= m; j++) if (rows[names[j], k[1], 0] != 9) bad = 1
            for (i = 2; i <= n; i++) for (j = 1; j <= m; j++) if (rows[names[j], k[i], 1] != 2) bad = 1
            exit bad || all != m * (9 + 2 * (n - 1))
        }' "$file"
}
csv=$out/plots/$name.csv

main_run
verdict $status "ends without an error"
[ ! -s "$out/error" ] && [ "$(wc -l <"$out/log")" -le 40 ]
verdict $? "says nothing on stderr, and at most 40 lines"
device='\(cpu\|cuda\):[0-9#]*'
zeros='\[0.\(, 0.\)\{19\}\]'
has "^b1 weight: $zeros on $device\$" && has "^b1 grad: $zeros on $device\$"
verdict $? "the book's prints after get_params"
has "^before allreduce, data\[0\]: \[\[1., 1.\]\] on" && has "^before allreduce, data\[1\]: \[\[2., 2.\]\] on" &&
    has "^after allreduce,  data\[0\]: \[\[3., 3.\]\] on" && has "^after allreduce,  data\[1\]: \[\[3., 3.\]\] on"
verdict $? "the book's prints before and after allreduce"
has 'list.*\[\[3., 3.\]\]' && has 'W\[1\].grad.*\[\[2., 2.\]\]' && has 'W\[0\].*\[\[0.7, 0.7\]\]' &&
    has 'W\[1\].*\[\[0.8, 0.8\]\]' && has '  ok: .*noticed'
verdict $? "a rebound pointer is noticed"
has '\[\[4., 4.\]\]' && has '  ok: .*two devices share one buffer'
verdict $? "a shared buffer is noticed"
has '^  star  *60 ms  *60.0 ms' && has '^  through the CPU  *80 ms  *80.0 ms' && has '^  sharded  *15 ms  *15.0 ms'
verdict $? "the book's example: 60 ms by the star, 80 ms by the CPU, 15 ms sharded"
# (LeNet's 516,272 bytes; 129068 floats are divided by 4.)
for row in 'star  *6 of N  *1,548,816  *3.00  *9' 'star in pieces  *6 of N  *1,548,816  *3.00  *9' \
    'sharded  *6 of N/k  *774,408  *1.50  *36' 'ring  *6 of N/k  *774,408  *1.50  *36' 'tree  *4 of N  *1,032,544  *2.00  *9'; do
    has "^  $row " || verdict 1 "a row: $row"
done
has '  ok: .*bytes are the formula.s on 2, 4 and 8 devices, and all replicas are equal to the bit' &&
    has '  ok: on 1, 2, 3, 5 and 8 devices all sum whole numbers exactly' && has 'came out: .* 1.75 N'
verdict $? "counted bytes are the formula's, replicas are equal, and sums are exact"
is_table "$csv" dgx-a100 4 2 4 8 16 32 64 128 256 512 1024 && grep -q '^measured,here,ring,4,67108864,' "$csv"
verdict $? "the figures as CSV"
# In the table are the CSV's times. A short vector: the stars and the tree; a long one: the ring and the sharded one.
awk -F, 'NR == FNR { if ($1 != "modelled") next; if ($4 == 4) us[$3, $5] = 1e6 * $6; if ($4 == 1024) ms[$3, $5] = 1e3 * $6; next }
    { split($0, word, " +"); if (sub(/ *[0-9]+ of N.*/, "")) { sub(/^ */, ""); n = length(word); rows++
        short = word[n - 1] / us[$0, 1024]; long = 1e3 * word[n] / us[$0, 67108864]
        if (!(short > 0.99 && short < 1.01 && long > 0.99 && long < 1.01)) bad = 1 } }
    END { exit bad || rows != 5 || !(us["tree", 1024] < us["ring", 1024] && us["star in pieces", 1024] < us["ring", 1024] &&
        us["ring", 67108864] < us["tree", 67108864] && us["sharded", 67108864] < us["star in pieces", 67108864] &&
        us["star in pieces", 67108864] < us["star", 67108864] && ms["tree", 8192] < ms["star", 8192] &&
        ms["star", 8192] < ms["ring", 8192] && ms["ring", 160000000] < ms["tree", 160000000]) }' FS=, "$csv" FS='\n' "$out/log"
verdict $? "modelled: stars and tree are best for short vectors, the ring for long ones; on 1024 devices, the tree"
# On k A100: a ring by NVLinks of 240 GB/s, in few large pieces; it starts after 8.4 us, and a step takes 3.4 us.
awk -F, '$3 == "NCCL" { n++; us = 1e6 * $6; right = 8.4 + 2 * 3 * (3.4 + $5 / 4 / 240e3)
        if ($4 != 4 || !(us > right * 0.999999 && us < right * 1.000001)) bad = 1 } END { exit bad || n != 1 }' "$csv" &&
    has '^  modelled: dgx-a100  *124  *186  *274$' && has '^  NCCL, calculated  *150  *225  *274$'
verdict $? "the ring's bandwidth, and NCCL's by the formula of its ring"
if command -v gnuplot >/dev/null 2>&1; then
    is_png "$out/plots/$name.png"
    verdict $? "the figures as a picture"
else
    skip "the figures as a picture" "no gnuplot"
fi
[ -z "$(find "$out/plots" -name '*.tmp.*')" ]
verdict $? "no temporary file is left"

for algorithm in sharded ring tree; do
    run --devices 3 --allreduce $algorithm --backend cpu --threads 2 --seed 7 --out "$out" --csv "$out/three.csv"
    [ $status -eq 0 ] && [ ! -s "$out/error" ] && has "ok: $algorithm: both devices have" && is_table "$out/three.csv" dgx-a100 3 &&
        has 'formula.s on 2, 3, 4 and 8 devices'
    verdict $? "--allreduce $algorithm --devices 3"
done

# Without values: all parts run, and nothing is checked or measured that is not there; the modelled times are the same.
run --devices 3 --backend model --seed 7 --out "$out" --csv "$out/model.csv" --timeline "$out/timeline.png"
[ $status -eq 0 ] && [ ! -s "$out/error" ] && ! has '[^a-z]nan' && has '^b1 weight: (20,) on model:0, no values$' &&
    has '^  not checked, no values: .*both devices have' && has '^  not checked, no values: .* sum whole numbers' &&
    has "ok: .*bytes are the formula's.*there are no values to compare" && ! has 'measured here' && is_table "$out/model.csv" dgx-a100 3
verdict $? "--backend model runs through, and says that there are no values"
grep -v '^measured' "$out/three.csv" | cmp -s - "$out/model.csv"
verdict $? "--backend model has the modelled times that there are beside values"
is_png "$out/timeline.png" && grep -q 'copy) on model:1, [0-9.]* .*s to [0-9.]* .*s, .*B from model:0 to model:1<' "$out/timeline.svg"
verdict $? "--timeline: a picture, as PNG and as SVG"

run --devices 3 --machine none --out "$out" --csv "$out/none.csv"
[ $status -eq 0 ] && [ ! -s "$out/error" ] && has 'measured here' && ! has 'modelled on\|NCCL' && [ "$(wc -l <"$out/none.csv")" -eq 2 ] &&
    grep -q '^measured,here,ring,3,' "$out/none.csv"
verdict $? "--machine none: nothing but the book's example is modelled"
run --machine d2l-pcie --devices 4 --backend model --out "$out" --csv "$out/four.csv"
[ $status -eq 0 ] && has 'formula.s on 2 and 4 devices' && has 'on 1, 2 and 3 devices' && is_table "$out/four.csv" d2l-pcie 4
verdict $? "a machine of four devices: no more are used on it"
has '^  modelled: d2l-pcie  *10.7  *16.0  *16.0$'
verdict $? "where nothing but bytes takes time, the ring's busbw is the speed of a link"

# Without gnuplot: one warning, and the table.
mkdir "$out/empty"
env PATH="$out/empty" "$program" --devices 2 --backend cpu --out "$out/without" >"$out/log" 2>"$out/error" </dev/null
[ $? -eq 0 ] && [ "$(grep -c 'no gnuplot' "$out/error")" -eq 1 ] && [ ! -e "$out/without/$name.png" ] &&
    is_table "$out/without/$name.csv" dgx-a100 2
verdict $? "without gnuplot there is one warning, and the table"

wrong() { # STATUS WORDS..
    expected=$1
    shift
    run "$@" --out "$out/none"
    [ $status -eq "$expected" ] && [ ! -s "$out/log" ] && [ ! -e "$out/none" ] && grep -q '^hint: ' "$out/error"
    verdict $? "wrong: $*"
}
wrong 2 --allreduce butterfly
wrong 2 --allreduce ''
wrong 2 --allreduce
wrong 2 --devices 65
wrong 2 --devices 1
wrong 2 --nonsense
wrong 2 --machine colab-t4
wrong 2 --machine d2l-pcie --devices 5
wrong 2 --machine dgx-a1
run --out "$out/log/plots"
[ $status -eq 1 ] && [ ! -s "$out/log" ] && grep -q '^hint: ' "$out/error"
verdict $? "a folder that cannot be made: an error before anything is done"
echo "1..$tests"
