#!/bin/sh
# chapter_11_test.sh BUILD: chapter 11's numbers: bits and bytes of meshes, the fastest of them, a checkpoint for another
# number of devices, and sixteen bits. (More meshes: test_vit.c. Over ranks: chapter_11_ranks_test.sh.) Prints TAP.
name=11_a_mesh_of_devices
. "$(dirname "$0")/chapter.sh"
small_data_set 2048

run --batch-size 64 --train-size 2048 --test-size 64
good
[ "$(wc -l <log)" -le 45 ] || complain "$(wc -l <log) lines"
figures log 'length > 100'
verdict "ends without an error, and prints no NaN"
is_png plots/${name}_bf16.png
is_png plots/${name}_step.png
verdict "the pictures"
# D = 64, L = 4 blocks, 16 tokens of each of 64 images: 16 sums of 64 * 16 * 64 floats in all networks, of which each of t devices
# sends 2 (t-1)/t; and as much of its part of 204,938 parameters, in each column of the mesh.
log_rows <<'ROWS'
1 x 1 | 0 0.00 0.00
8 x 1 | 0 0.00 1.43
4 x 2 | 0 1.05 0.63
4 x 2, tokens split | 0 1.34 0.63
2 x 4 | 0 3.15 0.22
2 x 4, tokens split | 0 3.9..4.0 0.22
1 x 8 | 0 7.34 0.00
1 x 8, tokens split | 0 9.1..9.3 0.00
never | * 0
at step 10, then [12] | * 0
ROWS
verdict "bits and bytes of meshes, and of a training that goes on with fewer devices"
# The fastest mesh has split layers inside hosts of four GPUs, and split images across hosts. Hidden gradients make no step slower,
# and those without others have nothing to hide.
figures log '/^  (dgx-a100|rtx4090-pcie|p100-25gbe) +(64|512)( +[0-9.]+)+$/ && NF == 8 { n++
      if (($2 == 64 || $1 ~ /^p100/) && ($7 >= $5 || $7 >= $6 || $7 >= $8) && n <= 6) print
      for (i = 4; i <= 8; i++) if (n <= 6) usual[$1, $2, i] = $i
          else if ($i > usual[$1, $2, i] || $i < usual[$1, $2, i] / 2 || (i == 5 && $i >= usual[$1, $2, i]) || ((i == 4 || i == 8) && $i != usual[$1, $2, i])) print }
    /^  dgx-a100, bfloat16 / && NF == 9 { n++; for (i = 5; i <= 9; i++) if (!($i > 0 && $i < usual["dgx-a100", $3, i - 1] / 2)) print }
    END { if (n != 10) print n, "rows" }'
verdict "the fastest mesh"
# One rounding to nearest: an error of about 2^-9 / sqrt(3), truncation's is twice that; of nearly no weight is the copy lost.
figures plots/${name}_bf16.csv 'NR == 1 { if ($0 != "devices,ring,tree,float32") print; next } { n++ }
    $1 != 2 ^ (n - 1) || (n == 1) != ($2 + $3 + $4 == 0) { print }
    n > 1 && !($4 > 0.0012 && $4 < 0.0022 && $3 >= $4 && $3 < 0.006) { print }
    n > 2 && !($2 > $3) { print } n == 11 && !($2 > 0.04 && $2 < 0.4) { print } END { if (n != 11) print n, "rows" }'
log_rows <<'ROWS'
1024 gradients in bfloat16 | 4..40 0.12..0.6 0.12..0.22
0.001 with a float32 copy | * 1000..20000 1..400
0.001 only in bfloat16 | * 1000..20000 576
0.0001 with a float32 copy | * 5000..40000 1..575
0.0001 only in bfloat16 | * 120000..180000 576
ROWS
figures log '/^ +0.0001 +(with|only)/ { loss[n++] = $(NF - 2) } END { if (n != 2 || !(loss[1] > loss[0] + 0.1)) print n, loss[0], loss[1] }'
verdict "sixteen bits"

works --mesh 2x2 --sequence --epochs 1 --steps 3 --batch-size 16 --train-size 320 --test-size 15
log_rows <<'ROWS'
2 x 2, tokens split | 0 * *
ROWS
figures plots/$name.csv 'END { if (NR != 2) print NR, "lines" }'
verdict "--mesh 2x2 --sequence: trained, and compared with one device"
works --train-size 84 --test-size 8 --batch-size 6
lacks 'tokens split'
verdict "minibatches that eight devices do not divide"
works --backend model
lacks ' nan'
verdict "--backend model: bytes without values"
for machine in colab-t4 d2l-pcie; do
    works --machine $machine --train-size 64 --test-size 8 --batch-size 8
    verdict "a modelled machine with fewer than eight devices: $machine"
done
refusals <<ROWS
1 out of memory | --mesh 4x1 --width 512 --batch-size 16 --epochs 1 --steps 2 --test-size 64 --memory 100MB
2 8 heads | --width 68; --mesh 1x9
2 is no mesh | --mesh 9x1; --mesh 0x2; --mesh 4; --mesh 2x2x2
2 not a multiple of 8 | --mesh 2x4 --sequence --batch-size 12; --mesh 2x4 --sequence --batch-size 16 --train-size 100
2 without --mesh | --sequence
2 | --width 4; --devices 4; --costs
ROWS
echo "1..$tests"
