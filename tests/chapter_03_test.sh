#!/bin/sh
# chapter_03_test.sh BUILD: chapter 3's numbers, and what every program can write of what its devices did. Prints TAP.
name=03_split_batch
. "$(dirname "$0")/chapter.sh"

main_run || complain "status $?"
[ ! -s error ] || complain "it says something on stderr"
device='[a-z]*:[0-9#]*'
has 'input: \[\[0., 1., 2., 3., 4.\], \[5., 6., 7., 8., 9.\], \[10., 11., 12., 13., 14.\], \[15., 16., 17., 18., 19.\]\]' \
    "load into \[$device, $device\] output: \[\[0., 1., 2., 3., 4.\], \[5., 6., 7., 8., 9.\]\] on $device : \[\[10., 11., 12., 13., 14.\], \[15."
verdict "the book's matrix: the first two rows on one device, the others on the next"
log_rows <<'ROWS'
96 | 7 14 14 14 14 14 13 13
3 | 4 1 1 1 0
96 | 7 0..1e-5 1e-4..1
96 | 4 0..1e-5 0..1e-5
3 | 4 0..1e-5 nan
ROWS
verdict "shards; the sum is right, the average of averages only for even shards, and no number with an empty one"
png_size plots/$name.png "2184 1120"
verdict "the picture"
works --rows 10 --devices 3
log_rows <<'ROWS'
10 | 3 4 3 3
10 | 3 0..1e-5 1e-4..1
ROWS
lacks 256 output
verdict "--rows: those alone"
for k in 1 64; do
    run --devices $k --seed $k --backend cpu || complain "status $?"
    verdict "--devices $k"
done

run --devices 2 --backend cpu --trace trace.json --timeline timeline.png || complain "status $?"
for text in '"name":"measured here"' '"name":"cpu:1 compute"' '"name":"gemm","cat":"forward"' '"from":"host","to":"cpu:1","bytes":'; do
    grep -q "$text" trace.json || complain "no $text in the trace"
done
png_size timeline.png "1900 1200" # seven lanes, measured and modelled: some demonstrations use seven
is_svg timeline.svg cpu:1
verdict "--trace and --timeline"
refusals <<'ROWS'
1 nowhere/trace.json | --backend cpu --out new --trace nowhere/trace.json
ROWS
works --backend model --out new
log_rows <<'ROWS'
96 | 7 14 14 14 14 14 13 13
3 | 4 1 1 1 0
ROWS
lacks output nan
[ -z "$(ls -A new 2>/dev/null)" ] || complain "files"
verdict "--backend model shows no values, and writes nothing; nor did what was refused"
echo "1..$tests"
