#!/bin/sh
# chapter_09_test.sh BUILD: chapter 9's numbers: what each stage keeps, needs and sends, that it fits, modelled times. (All
# stages in bits, bytes and peaks, and what goes wrong: test_zero.c.) Prints TAP.
name=09_what_each_device_keeps
. "$(dirname "$0")/chapter.sh"
small_data_set 256

main_run --train-size 256
good
[ "$(wc -l <log)" -le 40 ] || complain "$(wc -l <log) lines"
figures log 'length > 100'
verdict "ends without an error, and prints no NaN"
is_png plots/${name}_modelled.png
is_svg plots/${name}_modelled.svg communication
grep -q 'device 0 compute' plots/${name}_modelled.svg || complain "no device 0"
verdict "the picture"
# P = 44.7 MB. With k = 4, DDP keeps P + P + 2 P, and ZeRO a quarter of more and more. Temporary: 3/4 P; two units'
# gradients; besides, the parameters of two. Sent: two halves, 3/4 P each, and three.
log_rows <<'ROWS'
parameters | 44.7 44.7 4
gradients | 44.7 44.7 4
moments | 89.4 89.4 8
activations | 21.4 - -
all | 200.2 - -
DDP | 44.7 44.7 89.4 33.5 21.4 233.8 67.1 -
ZeRO-1 | 44.7 44.7 22.4 33.5 21.4 166.7 67.1 0
ZeRO-2 | 44.7 11.2 22.4 47.7 21.4 147.4 67.1 0
ZeRO-3 | 11.2 11.2 22.4 67.2 21.4 133.3 100.6 0
DDP | 239.4 78.2 4..4.5 68..72
ZeRO-1 | 161.1 78.2 4..4.6 68..73
ZeRO-2 | 133.0 78.2 4..4.6 70..76
ZeRO-3 | 113.3 117.3 4..4.5 105..110
ROWS
verdict "memory and bytes of each stage, as the formulas say; no parameter differs; times on fast and slow links"
figures log 'NF == 4 && $1 ~ /^[1-5]$/ { n++; if ($2 != $3 || $2 + 0 < 1) print "step", $0; differ = $4 } END { if (n != 5 || differ != "0") print n, "steps,", differ }'
has 'ZeRO-3, 140 MB'
verdict "it fits: with a limit, ZeRO-3 has the losses and the parameters of DDP without one"

run() { run_program --train-size 256 "$@"; }
refusals <<'ROWS'
1 44,703,272 for parameters, 44,703,272 for gradients | --stage ddp --memory 140MB
1 out of memory on .*140,000,000 bytes .* for what is being exchanged | --stage zero-2 --memory 140MB
1 for activations | --stage zero-3 --memory 110MB
1 out of memory | --stage zero-3 --memory 30MB; --memory 140MB
2 | --stage zero-4; --stage; --memory 1; --batch-size 3; --batch-size 0; --allreduce ring; --devices 0
1 129 devices cannot share the 128 parameters from 1.weight on | --backend model --machine p100-25gbe --devices 129 --batch-size 129 --stage zero-2
ROWS
works --stage zero-3 --memory 133.4MB
log_rows <<'ROWS'
ZeRO-3 | 11.2 11.2 22.4 67.2 21.4 133.3 100.6 -
5 | 1..4
ROWS
verdict "--stage zero-3 with a limit just above its peak"
works --devices 7 --batch-size 9 --seed 3
log_rows <<'ROWS'
DDP | 44.7 44.7 89.4 38.3 19.1 236.2 76.6 -
ZeRO-3 | 6.4 6.4 12.8 69.2 19.1 113.9 115.0 0
ROWS
verdict "--devices 7: parts of unequal size, shards of one and two images"
works --devices 1 --backend model
log_rows <<'ROWS'
ZeRO-1 | 44.7 44.7 89.4 0.0 * * 0.0 -
ZeRO-3 | 44.7 44.7 89.4 53.0 * * 0.0 -
ROWS
verdict "--devices 1: all of it, and nothing is sent"
works --backend model --predict
cp log first
works --backend model
cmp log first >>problems
works --machine none --backend inline --batch-size 4
lacks ' ms'
verdict "--backend model, the same in every run; --machine none and --backend inline"
echo "1..$tests"
