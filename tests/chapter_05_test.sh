#!/bin/sh
# chapter_05_test.sh BUILD: chapter 5's figures: its two runs, modelled epochs and memory, the ways of batch norm, and the
# table of its experiment. (Checkpoints: chapter_05_resume_test.sh.) Prints TAP.
name=05_resnet18_concise
. "$(dirname "$0")/chapter.sh"
small="--backend cpu --train-size 8 --test-size 4 --batch-size 4 --lr 0.02" # two minibatches
run() { run_program $small "$@"; }
trains() { # FLAGS. (On stderr is what the host says of its parameters.)
    command="$name $*"
    run "$@" || complain "status $status"
}

trains --epochs 1
has 'the first 8 of 60000 training images and 4 of 10000 test images' 'parameter "0.weight" is not initialized on host' \
    'training on \[cpu:0\]: batch size 4, lr 0.02 ' 'training on \[cpu:0, cpu:1\]: batch size 8, lr 0.04, ' \
    'on dgx-a100, 2 devices would take [0-9.]* times as long' 'too noisy to compare' # an epoch of each
figures log '/^    \[.* on cpu:[01]$/ { sub(/ on.*/, ""); if (n++ && $0 != filter) print "another filter" n; filter = $0 }
    /^test acc: [01][.][0-9][0-9], [0-9.]+ sec.epoch on .*; modelled on dgx-a100: [0-9.]+$/ { runs++ }
    /^  [a-z][a-z0-9-]+ +[0-9.]+ +[0-9]+$/ { machines++ }
    END { if (n != 2 || runs != 2 || machines != '"$(ls "$root"/common/model/machines/*.machine | wc -l)"') print n, runs, machines }'
figures plots/$name.csv 'NR == 1 ? $0 != "devices,epoch,train_loss,test_acc,seconds" : !($3 > 0 && $3 < 10 && $4 >= 0 && $4 <= 1) { print }
    END { if (NR != 3) print NR }'
log_rows <<'ROWS'
1 | 0..1e9 1.00 0..100 0..1e9 1.00 0..100
2 | 0..1e9 1..2 0..100 0..1e9 1..2 0..100
4 | 0..1e9 2..4 0..100 0..1e9 2..4 0..100
8 | 0..1e9 4..8 0..100 0..1e9 4..8 0..100
ROWS
is_png plots/$name.png
verdict "the book's two runs: rates, one first filter on both devices, accuracies, curves, modelled epochs, machines"
trains --devices 1 --epochs 1 --steps 1 --machine none
lacks modelled
verdict "--machine none: nothing is modelled"

# Devices without values: the chapter runs through, on any number of them, and nothing looks like a value.
run() { run_program --backend model --train-size 600 --test-size 100 --out model "$@"; }
while read -r k machine flags; do
    works --devices $k --machine $machine $flags
    lacks loss acc
    [ -z "$(ls -A model 2>/dev/null)" ] || complain "files"
    case $flags in *--steps*) ;; *) has "modelled: [0-9.e-]* sec/epoch on $k devices* of $machine" ;; esac
    verdict "--backend model: time and no values: $k devices of $machine $flags"
done <<'RUNS'
4 dgx-a100 --bn local
4 dgx-a100 --bn rank0
4 dgx-a100 --bn averaged
4 dgx-a100 --bn sync
64 dgx-a100
2 dgx-a100 --steps 0
1 colab-t4
RUNS
works --train-size 60000 --test-size 10 # both runs
epoch=$(sed -n 's/^modelled: \([^ ]*\) sec.* on 2 devices .*/\1/p' log)
echo "2 | ${epoch:-none}" | log_rows
verdict "an epoch of 60000 images takes what the table says of it"
refusals <<'ROWS'
2 colab-t4 has one | --machine colab-t4
2 no values | --save none; --load none; --checkpoint none; --resume none; --log-loss none; --csv none
ROWS
[ ! -e none ]
verdict $? "and nothing was written"

# Ways to treat batch norm's statistics: each trains, says which it is, and is repeated to the bit.
small_data_set
run() { run_program $small "$@"; }
for bn in local rank0 averaged sync; do
    trains --devices 2 --epochs 1 --bn $bn --save $bn
    has "batch norm's statistics: $bn"
    verdict "--bn $bn"
done
trains --devices 2 --epochs 1 --bn averaged --threads 1 --save again
cmp averaged again >>problems
[ -s sync ] && ! cmp -s averaged sync || complain "averaged and sync are the same"
verdict "the same seed and number of devices: the same bits, on one core too; averaged and sync differ"

# One change at a time: all ways from all seeds, and no conclusion from what has learned nothing.
trains --experiment --train-size 16 --test-size 20 --batch-size 8 --lr 0.1 --epochs 1
has 'Nothing is learned yet'
lacks cost
figures log "/^  .* [+-][0-9][.][0-9]+  [+]- [0-9][.][0-9]+ +(yes|no)\$/ { n++ } END { if (n != 13) print n, \"changes\" }"
figures plots/${name}_factors.csv 'NR > 1 { n[$1]++; seeds[$5]++; if (!($6 > 0 && $7 >= 0 && $7 <= 1 && $9 >= 0 && $10 <= 1) || $2 == 1 && !($7 == $8 && $7 == $9)) print }
    END { for (way in n) if (n[way] != 10) print way, n[way]; for (s = 0; s < 10; s++) if (seeds[s] != 7) print "seed", s; if (NR != 71) print NR }'
verdict "--experiment: the figures of all 70 trainings, and no conclusion where nothing is learned"
trains --devices 1 --steps 0 --load averaged
has 'test acc: '
verdict "--load and --steps 0 evaluate"
refusals <<'ROWS'
2 experiment and --devices | --experiment --devices 2
2 quick and --full | --quick --full
2 load and --resume | --load averaged --resume nothing
2 not a possible value: 'global' | --bn global
ROWS
echo "1..$tests"
