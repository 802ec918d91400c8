#!/bin/sh
# chapter_03_test.sh BUILD: chapter 3 runs, its own checks pass, it prints the book's figures and
# draws its picture. Prints TAP.
name=03_split_batch
. "$(dirname "$0")/chapter.sh"

main_run
verdict $? "ends without an error"
[ ! -s "$out/error" ]
verdict $? "says nothing on stderr"

# The book's matrix: arange(20) as 4 x 5, two rows for each device.
tr -d ' \n' <"$out/log" >"$out/joined"
grep -q 'input:\[\[0.,1.,2.,3.,4.\],\[5.,6.,7.,8.,9.\],\[10.,11.,12.,13.,14.\],\[15.,16.,17.,18.,19.\]\]' "$out/joined"
verdict $? "the book's input"
device='\(cpu\|cuda\):[0-9#]*'
grep -q "loadinto\[$device,$device\]output:\[\[0.,1.,2.,3.,4.\],\[5.,6.,7.,8.,9.\]\]on$device:\[\[10.,11.,12.,13.,14.\],\[15.,16.,17.,18.,19.\]\]on" "$out/joined"
verdict $? "the book's output: the first two rows on one device, the others on the next"

grep -q '^ *96 *7  14 14 14 14 14 13 13$' "$out/log" && grep -q '^ *3 *4  1 1 1 0$' "$out/log"
verdict $? "uneven shards, and more devices than rows"

error() { # N K: the errors of the sum and of the average of averages
    awk -v n="$1" -v k="$2" '/^Errors/ { table = 1 } table && $1 == n && $2 == k { print $3, $4 }' "$out/log"
}
error 96 7 | awk '{ good = $1 < 1e-5 && $2 > 1e-4 && $2 < 1 } END { exit !good }'
verdict $? "96 rows over 7 devices: the sum is right, the average of averages is not"
error 96 4 | awk '{ good = $1 < 1e-5 && $2 < 1e-5 } END { exit !good }'
verdict $? "96 rows over 4 devices: both are right"
error 3 4 | awk '{ good = $1 < 1e-5 && $2 == "nan" } END { exit !good }'
verdict $? "3 rows over 4 devices: the sum is right, the average of averages is no number"

[ "$(png_size "$out/plots/03_split_batch.png")" = "2184 1120" ]
verdict $? "the picture"

for k in 1 2 64; do
    "$build"/03_split_batch --devices $k --seed $k --backend cpu --out "$out" >"$out/log" 2>"$out/error"
    verdict $? "--devices $k"
done

# What every program can write: what its devices did.
"$build"/03_split_batch --devices 2 --backend cpu --out "$out" --trace "$out/trace.json" --timeline "$out/timeline.png" \
    >"$out/log" 2>"$out/error" &&
    grep -q '"name":"measured here"' "$out/trace.json" &&
    grep -q '"name":"cpu:1 compute"' "$out/trace.json" &&
    grep -q '"name":"gemm","cat":"forward"' "$out/trace.json" &&
    grep -q '"from":"host","to":"cpu:1","bytes":' "$out/trace.json" &&
    grep -q '^timeline: ' "$out/log" && grep -q "^timeline, .*: $out/timeline.svg\$" "$out/log" && [ -s "$out/timeline.svg" ]
verdict $? "--trace and --timeline"
[ "$(png_size "$out/timeline.png")" = "1900 1200" ] # seven, measured and modelled: some demonstrations use seven
verdict $? "the picture of the timeline has a lane for each device"
rm -f "$out/03_split_batch.png"
"$build"/03_split_batch --backend cpu --out "$out" --trace "$out/nowhere/trace.json" >"$out/log" 2>"$out/error"
[ $? -eq 1 ] && grep -q 'nowhere/trace.json' "$out/error" && [ ! -e "$out/03_split_batch.png" ]
verdict $? "a trace that cannot be written is refused before any work"
"$build/03_split_batch" --backend model --out "$out/model" >"$out/log" 2>&1 && ! grep -q 'nan' "$out/log" &&
    grep -q 'output: (2, 5) on model:0, no values' "$out/log" && ! grep -q 'came out' "$out/log" &&
    [ -z "$(ls -A "$out/model" 2>/dev/null)" ]
verdict $? "--backend model: it runs through, and shows no values"
echo "1..$tests"
