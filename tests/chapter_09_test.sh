#!/bin/sh
# chapter_09_test.sh BUILD: chapter 9's numbers: memory and bytes of each stage, bits, a limit that only ZeRO-3 keeps to,
# modelled times. (Memory of more networks and numbers of devices, planted mistakes: test_zero.c; bits: test_trainers.c.) Prints TAP.
name=09_what_each_device_keeps
. "$(dirname "$0")/chapter.sh"
small_data_set 645

main_run --train-size 128
good
[ "$(wc -l <log)" -le 60 ] || complain "$(wc -l <log) lines"
figures log 'length > 100 && !/: error: /'
verdict "ends without an error, and prints no NaN"
is_png plots/${name}_modelled.png
is_svg plots/${name}_modelled.svg 'backward (add_backward) on'
is_png plots/${name}_step.png
figures plots/${name}_step.csv 'NR > 1 { n++; t = $5 + $6 + $7; if (t > most) { most = t; at = $1 " " $2 } } END { if (n != 22 || at != "backward 4.0" || int(most / 1e5 + 0.5) != 672) print n, at, most }' # the 67.2 MB
verdict "the picture"
# P = 44.70 MB of ResNet-18 and 2 P of moments. Of k = 4 devices each keeps P/4 of what a stage shards, sends 2 (k-1)/k P in
# a step, and with ZeRO-3 half as much again. Of k = 8: P/8 and 2 7/8 P.
log_rows <<'ROWS'
parameters | 44.7 44.7 4
gradients | 44.7 44.7 4
moments | 89.4 89.4 8
DDP | 44.7 44.7 89.4 33.5 * R + G 67.1 -
ZeRO-1 | 44.7 44.7 22.4 33.5 * R + G 67.1 0
ZeRO-2 | 44.7 11.2 22.4 47.7 * R + G 67.1 0
ZeRO-3 | 11.2 11.2 22.4 67.2 * G + G + R 100.6 0
with recomputation | 32.3 144.2 0
4 devices | 0 * 0
3 devices | 0 * 10000000..12000000
1 device | 0 * 10000000..12000000
DDP | 78.2 553.4 22..24 74..80
ZeRO-3 | 117.3 427.3 22..24 108..117
DDP, recomputation | 78.2 407.3 29..32 76..82
ZeRO-1, recomputation | 78.2 332.1 29..32 94..100
ZeRO-3, recomputation | 117.3 284.3 29..32 111..119
ROWS
figures log '/^ *[1-5] +[0-9.]+ +[0-9.]+ / { n++; if ($2 != $3) print "step", $1, $2, $3 } END { if (n != 5) print n, "steps" }'
grep -q 'keeps 44.7 + 44.7 + 22.4 = 111.8 MB, where DDP keeps 178.8 MB' log || complain "ZeRO-1 does not keep 111.8 MB"
verdict "memory, bytes, times; losses and parameters have DDP's bits"
# 7 billion parameters, e = 4 or 2 bytes for a number: what a block needs is 114 s h bytes where e is 2, and its masks do not grow.
figures log 'function near(text, x) { x /= 1e9; return text - x < 0.051 && x - text < 0.051 }
    function activations(c,    e) { e = c < 2 ? 4 : 2; return c % 2 ? 32 * e * sh + (e == 2 ? 114 : 210) * sh : 32 * (e == 2 ? 114 : 210) * sh }
    { sub(/GPU, /, "GPUs, "); sh = 2048 * 4096; n = 7e9 }
    /^ *activations of a GPU / { rows++; for (c = 0; c < 4; c++) if (!near($(5 + c), activations(c))) print $0 }
    /^ *[128] GPUs, / {
        rows++; k = $1; s = substr($3, 6) + 0; unit = n / 32; part = 1 - 1 / k
        for (c = 0; c < 4; c++) {
            e = c < 2 ? 4 : 2
            need = (s < 3 ? n : n / k) * e + (s < 2 ? n : n / k) * e + (s < 1 ? n : n / k) * (16 - 2 * e)
            need += e * (s < 2 ? part * n : s == 2 ? (2 + part) * unit : (4 + part) * unit)
            if (!near($(4 + c), need + activations(c))) print $0, need + activations(c)
        } }
    /^With GPUs of 80 GB, ZeRO-3 needs 6, 2, 3 and 2 of them/ { rows++ }
    END { if (rows != 11) print rows, "rows" }'
verdict "a transformer in four stages, by arithmetic"

cp log trained
works --backend model
lacks ' nan'
verdict "--backend model: memory and bytes without values"
# The figure to move, at the place of the table: the numbers of the devices that trained.
rows_of() { awk -v all="$2" '/^ *(DDP|ZeRO-[123]) / && NF >= 8 && $2 ~ /^[0-9]/ && !seen[$1]++ { print $1, $2, $3, $4, $5, $all }' "$1"; }
works --backend model --memory-of resnet-18 --devices 4 --batch-size 16
rows_of trained 6 >counted
[ "$(wc -l <counted)" -eq 4 ] || complain "no rows of a training"
rows_of log 7 | diff counted - >>problems || complain "not what was counted"
verdict "--memory-of resnet-18: what devices that trained needed"
# At another: n parameters in 11 units; what is kept may be off by 4 bytes for each unit. Recomputation saves activations, and costs time.
memory=plots/${name}_memory.csv
works --backend model --memory-of resnet-18 --devices 7 --batch-size 224
cp $memory without.csv
works --backend model --memory-of resnet-18 --devices 7 --batch-size 224 --recompute
cat without.csv $memory >both.csv
figures both.csv 'function near(x, y) { return x - y <= 44 && y - x <= 44 }
    NR % 5 == 1 { next }
    { n = 4 * 11175818; k = 7; s = substr($5, 6) + 0; rows++; kept = $6 + $7 + $8
      if (!near($6, s < 3 ? n : n / k) || !near($7, s < 2 ? n : n / k) || !(near($8, s < 1 ? 2 * n : 2 * n / k) || near($8 / 2, n / k))) print $5, "keeps", kept
      if (s == 1 && !near($9 / 6, n / k)) print "temporary", $9
      if (!($11 > kept + $9 + $10 && $11 < kept + $9 + $10 + 1e5)) print $5, "needs", $11
      if ($4 == "no") { activations[s] = $10; seconds[s] = $12 }
      else if (!($10 < 0.9 * activations[s] && $12 > 1.1 * seconds[s] && $12 < 1.6 * seconds[s])) print $5, $10, $12 }
    END { if (rows != 8) print rows, "rows" }'
verdict "--memory-of resnet-18: bytes by the formulas, with and without recomputation"
works --backend model --memory-of 7b --devices 3
cp $memory without.csv
works --backend model --memory-of 7b --devices 3 --recompute
cat without.csv $memory >both.csv
figures both.csv 'NR % 5 == 1 { next }
    { n = 7e9; of_block = 210 * 2048 * 4096; activations = NR < 6 ? 32 * of_block : 32 * 4 * 2048 * 4096 + of_block; k = 3; unit = n / 32; s = substr($5, 6) + 0; rows++
      need = 8 * n + 8 * n / (s ? k : 1) + 4 * (1 - 1 / k) * n
      if (s == 2) need = 4 * n + 12 * n / k + 4 * (3 - 1 / k) * unit
      if (s == 3) need = 16 * n / k + 4 * (5 - 1 / k) * unit
      need += activations
      if ($11 - need > 1 || need - $11 > 1 || $10 != activations || $12 != "nan") print $5, $11, need }
    END { if (rows != 8) print rows, "rows" }'
verdict "--memory-of 7b: a transformer, by the formulas on the page"
for flags in '--devices 1 --stage zero-3' '--devices 7 --batch-size 9 --stage zero-2 --machine none'; do
    works $flags
    verdict "$flags"
done
works --stage zero-3 --recompute --checkpoint ck
works --stage ddp --devices 3 --resume ck
log_rows <<'ROWS'
DDP | 44.7 44.7 89.4 * * * 59.6
6 | 0..5
10 | 0..5
ROWS
[ "$(echo ck-*)" = "ck-0.safetensors ck-1.safetensors ck-2.safetensors ck-3.safetensors" ] || complain "files: $(echo ck-*)"
verdict "files for four devices, and three that go on, in another stage"
rm ck-3.safetensors
works --stage zero-3 --memory 140MB
verdict "ZeRO-3 trains with 140 MB"
refusals <<'ROWS'
1 for gradients | --stage ddp --memory 140MB; --stage zero-2 --memory 140MB; --stage zero-3 --memory 60MB
1 cannot share the 128 | --backend model --machine p100-25gbe --devices 129 --batch-size 129 --train-size 645 --stage zero-3
2 | --stage vgg; --memory-of 2b; --memory-of 7b --machine none; --devices 65; --devices 5 --batch-size 4; --memory 140; --steps 3
2 images | --train-size 64
2 for one stage | --recompute; --checkpoint ck
1 ck-3.safetensors | --stage zero-1 --resume ck
1 ck-0.safetensors | --stage zero-1 --resume ck --seed 1
ROWS
run --stage ddp --memory 140MB
grep -q "^hint: use --stage zero-3" error || complain "$(tail -n 1 error)"
verdict "out of memory: the hint names another stage"
echo "1..$tests"
