#!/bin/sh
# chapter_05_test.sh BUILD: chapter 5's figures: its two runs, modelled epochs, the ways of batch norm, and its
# experiment, as it runs and as it was recorded. (Checkpoints: chapter_05_resume_test.sh.) Prints TAP.
name=05_resnet18_concise
. "$(dirname "$0")/chapter.sh"
small="--backend cpu --train-size 8 --test-size 4 --batch-size 4 --lr 0.02" # two minibatches
run() { run_program $small "$@"; }
trains() { # FLAGS
    command="$name $*"
    run "$@" || complain "status $status"
}

trains --epochs 1
has '8 of 60000 images, 4 of 10000 test images' 'parameter "0.weight" is not initialized on host' \
    'training on \[cpu:0\]: batch size 4, lr 0.02 ' 'training on \[cpu:0, cpu:1\]: batch size 8, lr 0.04, ' \
    'each step moved 89,406,544 between the devices'
[ "$(wc -l <log)" -le 32 ] || complain "$(wc -l <log) lines" # 40 with five epochs
figures log '/^first weights: / { weights[$NF] = $3 $4 $5 }
    /^test acc: [01][.][0-9][0-9], [0-9.]+ sec.epoch on .*; modelled on dgx-a100: [0-9.]+ sec.epoch$/ { runs++ }
    END { if (!weights["cpu:0"] || weights["cpu:0"] != weights["cpu:1"] || runs != 2) print weights["cpu:0"], weights["cpu:1"], runs }'
figures plots/$name.csv 'NR == 1 ? $0 != "devices,epoch,train_loss,test_acc,seconds" : !($3 > 0 && $3 < 10 && $4 >= 0 && $4 <= 1) { print }
    END { if (NR != 3) print NR }'
log_rows <<'ROWS'
1 | 0..1e9 1.00 0..1e9 1.00 0..1e9
2 | 0..1e9 1..2 0..1e9 1..2 0..1e9
4 | 0..1e9 2..4 0..1e9 2..4 0..1e9
8 | 0..1e9 4..8 0..1e9 4..8 0..1e9
ROWS
is_png plots/$name.png plots/${name}_effects.png
verdict "the book's two runs: rates, the same weights on both devices, accuracies, curves, modelled epochs, 40 lines"
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
2 the machine colab-t4 has 1 | --machine colab-t4
2 no values | --save none; --load none; --checkpoint none; --resume none; --csv none
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
trains --devices 1 --epochs 2 --save both
trains --devices 1 --epochs 1 --save first
trains --devices 1 --epochs 1 --load first --save same_order
cmp -s both same_order && complain "epochs 1 and 2 have one order"
verdict "each epoch has another order"

# One change at a time: all ways from all seeds.
changes='/^  [a-z][a-z0-9 ()]* -?[0-9][.][0-9]+ +[0-9][.][0-9]+$/ { n++ } END { if (n != 6) print n + 0, "changes" }'
trains --experiment --train-size 16 --test-size 20 --batch-size 8 --lr 0.1 --epochs 1
figures log "$changes"
figures plots/${name}_factors.csv 'NR > 1 { n[$1]++; seeds[$5]++; if (!($6 >= 0 && $6 <= 1 && $7 >= 0 && $7 <= 1) || $2 == 1 && $6 != $7) print }
    END { for (way in n) if (n[way] != 10) print way, n[way]; for (s = 0; s < 10; s++) if (seeds[s] != 6) print "seed", s; if (NR != 61) print NR }'
is_png plots/${name}_effects.png
verdict "--experiment: the figures of all 60 trainings"
# The recorded one: the program's table, and what the text says of it, are what the file has.
trains --epochs 1
figures log "$changes"
awk -F, '
    function change(name, to, averaged,    s, w, n, by, mean, squares) {
        for (s = 0; s < 10; s++) {
            by[s] = 0
            n = split(to, w, "|")
            for (i = 1; i <= n; i++) by[s] += (averaged ? other[w[i], s] : acc[w[i], s]) / n
            by[s] -= acc[from, s]
            mean += by[s] / 10
        }
        for (s = 0; s < 10; s++) squares += (by[s] - mean) ^ 2
        printf "%s %.3f %.3f\n", name, mean, 3.36 * sqrt(squares / 90)
    }
    NR > 1 { acc[$1, $5] = $6; other[$1, $5] = $7; if (!($1 in least) || $6 < least[$1]) least[$1] = $6; if ($6 > most[$1]) most[$1] = $6 }
    END {
        from = "d2l'"'"'s first run"
        change("twice the batch size", "twice the batch size")
        change("twice the learning rate", "twice the learning rate")
        change("twice both", "twice both|twice both on 2 devices|twice both with sync")
        print "from", least[from], "to", most[from]
        from = "twice both"
        change("a second device (rank0)", "twice both on 2 devices")
        change("a second device (sync)", "twice both with sync")
        from = "twice both on 2 devices"
        change("averaged statistics", "twice both on 2 devices", 1)
    }' "$root/plots/recorded/resnet18_factors.csv" >figures
grep -v ^from figures | while read -r row; do words | grep -qF "$row" || complain "no '$row'"; done
tr -s ' \n/' ' ' <"$chapter/main.c" >prose
grep -qx 'from 0.6750 to 0.7785' figures && words | grep -q 'test acc 0.675 to 0.778' &&
    grep -q 'from 0.675 to 0.778[.]' prose && grep -q '(0.041 ± 0.031)' prose || complain "$(grep ^from figures)"
verdict "the recorded experiment: its table and the text"
trains --devices 1 --steps 0 --load averaged
has 'test acc: '
verdict "--load and --steps 0 evaluate"
refusals <<'ROWS'
2 --experiment takes 1 and 2 devices | --experiment --devices 2; --experiment --backend model
2 quick and --full | --quick --full
2 not a possible value: 'global' | --bn global
ROWS
echo "1..$tests"
