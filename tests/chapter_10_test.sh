#!/bin/sh
# chapter_10_test.sh BUILD: chapter 10's numbers: bits, bytes and memory of split layers, mistakes, modelled times, and a
# network that fits on four devices only. (More numbers of devices, late queues, gradients: test_vit.c.) Prints TAP.
name=10_a_transformer
. "$(dirname "$0")/chapter.sh"
small_data_set 2048

run --epochs 1 --batch-size 64 --train-size 2048 --test-size 64
good
[ "$(wc -l <log)" -le 80 ] || complain "$(wc -l <log) lines"
figures log 'length > 100 && !/^test acc/'
verdict "ends without an error, and prints no NaN"
is_png plots/$name.png
is_png plots/${name}_block.png
is_svg plots/${name}_block.svg 'forward (attention_forward) on'
verdict "the pictures"
# D = 64, L = 4 blocks, 16 tokens of each of 64 images: 16 sums of 64 * 16 * 64 floats, of which each of k = 4 devices sends
# 2 (k-1)/k; and as much of 204,938 parameters. A mistake's loss at step 1 is that of none, or it is not.
log_rows <<'ROWS'
1 device | 8 * 0
2 devices | 4 + 4 * 0
3 devices | 3 + 3 + 2 * 10000..200000
4 devices | 2 + 2 + 2 + 2 * 0
8 devices | 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 * 0
layers split | 6.29 6.29
images split .DDP. | 1.23 1.23
1 device | none 200..205 65..80 53.0 265..285 * 0
4 devices | 100 50..53 30..40 22.7 80..95 * 0
4 devices, tokens split | 100 50..53 15..25 13.2 65..80 * 0
the last bias on every device | * * 0 yes
no sum in the backward pass | * * 20000..204938 no
queries, keys, values cut together | * * 100000..204938 yes
shards drawn with one seed | * * 100000..204938 yes
ROWS
verdict "bits, bytes, memory and mistakes"
figures log '/^  (1|2|4|8) devices? +[18421+ ]+ [0-9.]+ +0$/ { n++; if (n > 1 && $(NF - 1) != loss) print; loss = $(NF - 1) }
    /^  none / { right = $2 }
    /^  (the last bias|no sum in)/ { n++; if ($(NF - 3) != right) print }
    /^  (queries, keys|shards drawn)/ { n++; if ($(NF - 3) == right) print }
    END { if (n != 8) print n, "rows" }'
verdict "equal losses where they must be, others where a mistake is in the forward pass"
# Over NVLink, splitting layers is faster than splitting images if a step has few, and slower if it has many; over Ethernet never.
figures log '/^  (dgx-a100|rtx4090-pcie|cluster-10gbe) +(8|32|128|512) +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+$/ { n++; images = $2; one = $3; ddp = $4; layers = $5
      if ($6 >= ddp || $6 < ddp / 2) print
      if ($1 ~ /^dgx/ && (layers > one || (layers < ddp) != (images < 128))) print
      if ($1 ~ /^cluster/ && layers < one) print }
    END { if (n != 12) print n, "rows" }'
verdict "when it pays"

works --devices 2 --epochs 1 --steps 3 --batch-size 16 --train-size 320 --test-size 16
log_rows <<'ROWS'
2 devices | 4 + 4 * 0
ROWS
verdict "--devices 2: compared with one"
works --devices 4 --sequence --epochs 1 --steps 3 --batch-size 16 --train-size 320 --test-size 15
log_rows <<'ROWS'
4 devices, tokens split | 2 + 2 + 2 + 2 * 0
layers split | 2.01 2.01
ROWS
verdict "--sequence: compared with one"
wide="--width 512 --batch-size 16 --epochs 1 --steps 2 --test-size 64 --memory 100MB"
works $wide --devices 4
verdict "100 MB are enough for four devices"
works --backend model --devices 5 --epochs 1 --steps 2 --machine cluster-10gbe
lacks ' nan'
verdict "--backend model: bytes and memory without values"
works --epochs 1 --train-size 84 --test-size 8 --batch-size 6
lacks 'tokens split'
verdict "minibatches that four devices do not divide"
for machine in colab-t4 d2l-pcie; do
    works --machine $machine --epochs 1 --steps 1 --train-size 64 --test-size 8 --batch-size 8
    verdict "a modelled machine with fewer than eight devices: $machine"
done
# The figure to move, at the place of the tables.
works --costs --backend model --devices 4 --width 1024 --batch-size 32
figures plots/${name}_costs.csv 'NR == 1 { if ($0 != "split,bytes,seconds") print } { n = NR } /^images/ { seconds = $3 }
    /^layers/ && ($2 != 16 * 32 * 16 * 1024 * 4 * 1.5 || $3 >= seconds) { print } END { if (n != 4) print n, "lines" }'
verdict "--costs: a step of another network"
refusals <<ROWS
1 out of memory | $wide --devices 1
2 8 heads | --devices 9; --width 68
2 not a multiple of 8 | --devices 8 --sequence --batch-size 12; --devices 8 --sequence --batch-size 16 --train-size 100
2 | --width 4; --mesh 2x2; --stage zero-1; --costs --machine none
ROWS
echo "1..$tests"
