#!/bin/sh
# chapter_04_test.sh BUILD: what chapter 4 says of time on modelled machines, and that it says nothing else where devices
# have no values. (cli_test.sh and defaults_test.sh are about its training.) Prints TAP.
name=04_lenet_multi_gpu
. "$(dirname "$0")/chapter.sh"
small_data_set 512 40
run() { run_program "$@"; }
bytes='each step moved 1,032,544 bytes'
only_modelled() { lacks nan acc loss measured ' -[0-9]'; }

works --backend model --curves --train-size 512 --out curves --devices 2
lacks epoch
is_svg curves/${name}_step.svg 'as a CUDA graph<'
is_svg curves/${name}_step.svg '<title>.*(conv2d_forward) on model:1, '
works --backend model --epochs 2 --out model
grep -v ,16, curves/${name}_modelled.csv >small.csv
grep -v 'graph of' model/${name}_modelled.csv | cmp small.csv - >>problems
modelled=$(sed -n 's/^  epoch  2: modelled \([0-9.e-]*\) sec$/\1/p' log | head -n 1)
has "$bytes"
only_modelled
! command -v gnuplot >/dev/null || is_png model/${name}_modelled.png
is_svg model/${name}_step.svg 'launched one by one<'
rm -f model/${name}_modelled.png model/${name}_step.???
[ "$(ls model)" = ${name}_modelled.csv ] || complain "$(ls model)"
verdict "--backend model: times and bytes, one table and two pictures; nothing that would be a value or a measurement"
# As a graph, an epoch takes what the training's second one took (three digits are printed). Graphs are faster; eight
# devices, one by one, are slower than one. A step's launches are counted, twice as many for two devices and 24 for
# their exchange. A larger minibatch makes better use of eight devices.
figures small.csv 'NR == 1 {
        if ($0 !~ /^machine,launches,devices,modelled_seconds_per_epoch,exchange_seconds,launching_seconds/) print
        next }
    $1 != "dgx-a100" || !($4 > 0 && $6 > 0 && $6 <= $4) || ($3 == 1 ? $5 != 0 : !($5 > 0 && $5 < $4)) { print }
    { seconds[$2, $3] = $4 }
    END { for (k = 1; k <= 8; k *= 2) if (!(seconds["graph", k] < seconds["program", k])) print "graph", k
        r = '"${modelled:-0}"' / seconds["graph", 1]
        if (NR != 9 || !(r > 0.99 && r < 1.01) || !(seconds["program", 8] > seconds["program", 1])) print NR, r }'
figures model/${name}_modelled.csv '$2 ~ /^graph/ && $3 == 1 { one[$2] = $4 } $2 ~ /^graph/ && $3 == 8 { faster[$2] = one[$2] / $4; n++ }
    END { if (n != 2 || !(faster["graph"] > 1 && faster["graph of 512"] > 1.2 * faster["graph"])) print n }'
log_rows <<'ROWS'
1 | 51
2 | 126
8 | 576
ROWS
verdict "the CSV: the training's time ($modelled), graphs, and launches"

while read -r k machine flags; do
    works --backend model --machine $machine --devices $k --out none $flags
    has "modelled: .* on $k devices* of $machine"
    only_modelled
    [ $k != 1024 ] || has 'only 256 of the 1024 devices'
    verdict "$machine, $k devices, $flags"
done <<'RUNS'
1024 dgx-h100 --steps 2
1 colab-t4 --steps 1
RUNS
works --backend model --machine d2l-pcie --epochs 1 --out copies
has "$bytes"
only_modelled
verdict "a machine on which only copies take time"
works --backend model --steps 0 --out none
lacks nan acc
[ ! -e none ] || complain "files"
verdict "--backend model --steps 0 says nothing of values, either"
refusals <<'ROWS'
2 --backend model there are no | --backend model --save file; --backend model --load file; --backend model --csv file
2 --backend model there are no | --backend model --log-loss file; --backend model --live
ROWS

works --backend cpu --threads 2 --threads-per-device 1 --epochs 2 --out cpu
has "$bytes" '129,068 numbers, equal to the bit' 'nothing is learned'
modelled=$(sed -n 's/.*cpu:0.; modelled on dgx-a100: \([0-9.e-]*\) sec.epoch$/\1/p' log)
figures cpu/${name}_modelled.csv '$2 == "program" && $3 == 1 { r = '"${modelled:-0}"' / $4; if (!(r > 0.99 && r < 1.01)) print r }'
cmp cpu/${name}_modelled.csv model/${name}_modelled.csv >>problems
verdict "values or not: the same modelled times to the last digit, here of launches one by one; nothing is praised"
works --backend cpu --machine none --epochs 1 --batch-size 48 --out none
lacks modelled
has '129,068 numbers, they differ by up to [0-9.]*e-[0-9]' 'came out: .* to open: .* next: '
[ ! -e none/${name}_modelled.csv ] || complain "a modelled table"
verdict "--machine none: no modelled time; what is not equal to the bit, is not called equal"
works --backend cpu --machine none --lr 1000 --batch-size 64 --steps 6 --out none
has 'sec: diverged' 'on 2: diverged' 'sec/epoch (extrapolated from 6 of 8 steps) on'
lacks 'nothing is learned'
verdict "a training that has diverged says so, and a part of an epoch that it is one"
spins() { # VARIABLE=VALUE: how often OpenMP's threads look before they sleep
    (unset OMP_WAIT_POLICY; OMP_DISPLAY_ENV=verbose env "$@" "$program" --devices 1 --steps 1 --train-size 8 2>&1) |
        sed -n "s/.*\(GOMP_SPINCOUNT\|KMP_BLOCKTIME\) *= *'\(.*\)'/\2/p" | tail -n 1
}
active=$(spins OMP_WAIT_POLICY=active)
short=$(spins A=1)
[ "$short" -le 3000 ] && [ "${active:-$short}" != "$short" ] && [ "$(spins GOMP_SPINCOUNT=7)" -le 7 ]
verdict $? "OpenMP's threads soon sleep while they wait, unless the user has set something else"
echo "1..$tests"
