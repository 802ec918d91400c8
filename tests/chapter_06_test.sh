#!/bin/sh
# chapter_06_test.sh BUILD: chapter 6's numbers: bytes, memory, modelled times, what the six claims come to, the planted
# mistakes. (That all ways train alike: test_ddp.c.) Prints TAP.
name=06_data_parallel_and_ddp
. "$(dirname "$0")/chapter.sh"
small_data_set 1024 500

main_run --train-size 1024 --epochs 1
good
verdict "ends without an error, and prints no NaN"
is_png plots/${name}_modelled.png plots/${name}_measured.png plots/${name}_buckets.png
is_svg plots/${name}_modelled.svg communication
grep -q 'exchange bucket 0' plots/${name}_modelled.json && [ "$(tail -c 2 plots/${name}_modelled.json)" = '}' ] || complain "no trace"
verdict "the pictures, and a trace for Perfetto"
# P = 516272 bytes of LeNet: on k devices, DP's device 0 sends (k-1) P, a rank of a ring 2 (k-1)/k P.
log_rows <<'ROWS'
replicate | 516,272
replicate | 1,548,816
replicate | 3,613,904
gradients | 516,272
gradients | 774,408
gradients | 903,472
ROWS
figures log '/10,000 classes/ { many = 1 } many && / 8  DP  / { dp = $6 } many && / 8  DP, loss/ { loss = $9 } many && / 8  DDP  / { ddp = $6 }
    /the largest difference  / { ways = NR } ways && !compared { if (NF) rows = NR - ways; else compared = 1; bits += gsub(/0 [(]bits[)]/, "") }
    /^   -> / { answers = answers substr($2, 1, 1) }
    /^  (padded|dropped|exact)  *[0-9]+ images/ { images[$1] = $2 }
    END { if (!(dp > 2 && loss < dp && loss > 1 && ddp == 1)) print "10,000 classes: device 0 needs", dp, loss, ddp
        if (rows != 7 || bits < 6) print rows, "ways, the bits", bits, "times"
        if (length(answers) != 6 || gsub("f", "", answers) != 3 || gsub("h", "", answers) != 2) print answers
        n = images["exact"]; if (!(n % 3 && images["dropped"] == n - n % 3 && images["padded"] == n - n % 3 + 3)) print n }'
verdict "bytes, memory with many classes, agreement of seven ways, six claims, and test sets on 3 ranks"
figures plots/${name}_buckets.csv '{ s[$1, $2, $5] = $7; if ($6 == 1) one[$1, $2] = $7; without[$1, $2] = $8; if ($9 == 1) best[$1, $2] = $7 }
    END { r = "ResNet-18" SUBSEP "rtx4090-pcie"; l = "LeNet" SUBSEP "rtx4090-pcie"; ten = s[r, 10485760]
        if (!(without[r] > 0 && without[r] < ten && ten < 0.85 * one[r])) print "10 MiB", without[r], ten, one[r]
        if (!(best[l] > 0.9 * one[l])) print "LeNet", best[l], one[l] }'
verdict "modelled: ResNet-18 on PCIe gains by buckets of 10 MiB, and LeNet little"
has 'bucket 0 of rank 1 is sent before the gradient of' 'rank 0 is at bucket 0, rank 1 at bucket 1' \
    'the parameter 3.weight got no gradient on rank 0' '100.0 % of the places' '0.500 times' '21 and 12 where 11 and 22'
verdict "the five mistakes are noticed"

fit() { # REFUSED RUN: so many of four ways to a network that is too large
    figures log '/eight fully connected/ { n = 1 } n && /out of memory on model:0: / { out++ } n && /^    it runs: / { runs++ }
        END { if (out + 0 != '"$1"' || runs + 0 != '"$2"') print out, "out of memory,", runs, "run" }'
}
fit 2 2
has 'out of memory on model:0: 33,587,200 bytes for tensors, and of its 64,000,000 bytes 33,587,200 are in use'
verdict "a network that is too large: both wrappers are refused, both splits run"
run() { run_program --train-size 300 --test-size 100 "$@"; }
works --backend model --memory 200MB --predict
fit 0 4
cp log first
works --backend model --memory 200MB
lacks 'measured here'
cmp log first >>problems
verdict "--backend model, --memory 200MB: all fit; the same in every run, and --predict is silent without a terminal"
works --backend model --memory 20MB --devices 2
fit 4 0
verdict "--memory 20MB --devices 2: none fits"
for flags in '--devices 3 --allreduce star' '--devices 8 --machine dgx-a100' '--devices 16 --machine p100-25gbe --batch-size 33' '--machine d2l-pcie'; do
    works --backend model $flags
    verdict "$flags"
done
works --machine none --batch-size 31 --epochs 1
lacks 'modelled on'
verdict "--machine none: bytes and values, no modelled time"
refusals <<'ROWS'
2 | --devices 1; --machine colab-t4; --devices 65 --machine p100-25gbe; --devices 9 --machine rtx4090-pcie
2 | --memory 0; --memory 60; --memory 60MiB; --memory x; --allreduce line; --steps 3
ROWS
echo "1..$tests"
