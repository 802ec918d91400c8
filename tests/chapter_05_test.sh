#!/bin/sh
# chapter_05_test.sh BUILD: chapter 5 runs, prints the book's lines and draws its curves; what does not fit is
# refused. (chapter_05_resume_test.sh has what is about checkpoints.) Prints TAP.
name=05_resnet18_concise
. "$(dirname "$0")/chapter.sh"
ways="local rank0 averaged sync"
small="--backend cpu --train-size 8 --test-size 4 --batch-size 4 --lr 0.02" # two minibatches
train() { # FLAGS: a small training
    "$program" $small --out "$out" "$@" >"$out/log" 2>"$out/error" </dev/null
}
refused() { # STATUS TEXT NAME: how the last training ended
    status=$?
    [ $status -eq "$1" ] && grep -q "error: .*$2" "$out/error" && grep -q '^hint: ' "$out/error"
    verdict $? "$3"
}

# The two runs.
train --epochs 1
verdict $? "the book's two runs"
sed '/^ResNet-18:/q' "$out/log" | tr '\n' ' ' | grep -Eq "^quick: the first 8 of 60000 training images and 4 of 10000 test images, 1 epoch, batch size 4; the full run \(--full\) would take about [0-9.]+ hours here ResNet-18:"
verdict $? "the first paragraph says how much is left out"
grep -q 'parameter "0.weight" is not initialized on host' "$out/log"
verdict $? "the host holds only the start"
[ "$(grep -c '^    \[.* on cpu:[01]$' "$out/log")" -eq 2 ] &&
    [ "$(grep '^    \[.* on cpu:[01]$' "$out/log" | sed 's/ on .*//' | sort -u | wc -l)" -eq 1 ]
verdict $? "the first filter is the same on both devices"
grep -Eq '^training on \[cpu:0\]: batch size 4, lr 0.02$' "$out/log" &&
    grep -Eq '^training on \[cpu:0, cpu:1\]: batch size 8, lr 0.04, ' "$out/log"
verdict $? "twice the batch size and learning rate on two devices"
for devices in cpu:0 'cpu:0, cpu:1'; do # measured, and modelled
    grep -Eq "^test acc: [01]\.[0-9]{2}, [0-9.]+ sec/epoch on \[$devices\]; modelled on dgx-a100: [0-9.]+\$" "$out/log"
    verdict $? "the book's last line, [$devices]"
done
awk -F, 'NR == 1 { good = $0 == "devices,epoch,train_loss,test_acc,seconds" } NR > 1 { good = good && $3 > 0 && $3 < 10 && $4 >= 0 && $4 <= 1 }
    END { exit !(good && NR == 3) }' "$out/05_resnet18_concise.csv"
verdict $? "the figures of the curves"
is_png "$out/05_resnet18_concise.png"
verdict $? "the picture of the curves"

# Beside the measured times those of another machine, and what the book's training would take there.
words() { tr '\n' ' ' <"$out/log" | tr -s ' '; } # of a paragraph, wherever its lines end
words | grep -q 'Time, measured, on 2 .*: too noisy to compare' && # an epoch of each says nothing
    words | grep -Eq "Time, modelled: on dgx-a100, 2 devices would take [0-9.]+ times as long for it as 1\."
verdict $? "measured and modelled times, and which is which"
[ "$(grep -Ec '^ +[1248]( +[0-9.]+ +[0-9.]+ +[0-9.]+){2}$' "$out/log")" -eq 4 ] &&
    words | grep -q "Modelled: the book's ResNet-18 on dgx-a100 .* 14.0 s on 1, 9.1 s on 2, "
verdict $? "modelled epochs on 1, 2, 4 and 8 devices, beside the book's"
[ "$(grep -Ec '^  [a-z]+[a-z0-9-]+ +[0-9.]+ +[0-9]+$' "$out/log")" -eq "$(ls "$(dirname "$0")"/../common/model/machines/*.machine | wc -l)" ]
verdict $? "the largest minibatch of each machine"
train --epochs 1 --steps 1 --machine none && ! grep -qi 'modelled' "$out/log"
verdict $? "--machine none: nothing is modelled"

# Devices without values: the chapter runs through, on any number of them, and nothing looks like a value.
model() { # FLAGS
    "$program" --backend model --train-size 600 --test-size 100 --out "$out/model" "$@" >"$out/log" 2>"$out/error" </dev/null
}
no_values() { ! grep -Eqi 'nan|loss|acc' "$out/log" && [ -z "$(ls -A "$out/model")" ]; }
model && no_values && [ "$(grep -c '^modelled: .* of dgx-a100$' "$out/log")" -eq 2 ]
verdict $? "--backend model: time and no values"
whole=$(sed -n 's/^modelled: \([^ ]*\) sec.* on 2 devices .*/\1/p' "$out/log")
"$program" --backend model --test-size 10 --out "$out/model" >"$out/log" 2>"$out/error" </dev/null &&
    [ -n "$whole" ] && [ "$(sed -n 's/^modelled: \([^ ]*\) sec.* on 2 devices .*/\1/p' "$out/log")" = "$(awk '$1 == 2 && NF == 7 { print $2 }' "$out/log")" ]
verdict $? "an epoch of 60000 images takes what the table says of it"
for bn in $ways; do
    model --devices 4 --bn $bn && no_values
    verdict $? "--backend model --bn $bn"
done
model --devices 64 && no_values && grep -q '^modelled: .* on 64 devices of dgx-a100$' "$out/log"
verdict $? "--backend model --devices 64"
model --steps 0 && no_values
verdict $? "--backend model --steps 0"
model --devices 1 --machine colab-t4 && no_values && grep -q 'colab-t4 has one device' "$out/log"
verdict $? "a machine with one device"
model --machine colab-t4
refused 2 'colab-t4 has one' "two runs on a machine with one device"
for flag in save load checkpoint resume log-loss csv; do
    model --$flag "$out/none"
    refused 2 "$flag: .*no values" "--backend model --$flag"
done
[ ! -e "$out/none" ]
verdict $? "and nothing was written"

# Ways to treat batch norm's statistics: each trains, says which it is, and is repeated to the bit.
for bn in $ways; do
    train --devices 2 --epochs 1 --bn $bn --save "$out/$bn.safetensors" &&
        grep -q "batch norm's statistics: $bn" "$out/log" && [ -s "$out/$bn.safetensors" ]
    verdict $? "--bn $bn"
done
train --devices 2 --epochs 1 --bn averaged --threads 1 --save "$out/again.safetensors" &&
    cmp -s "$out/averaged.safetensors" "$out/again.safetensors"
verdict $? "the same seed and number of devices: the same bits, on one core too"
cmp -s "$out/averaged.safetensors" "$out/sync.safetensors"
[ $? -eq 1 ]
verdict $? "averaged and sync differ"

# One change at a time: all ways from all seeds, and no conclusion from what has learned nothing.
train --experiment --train-size 16 --test-size 20 --batch-size 8 --lr 0.1 --epochs 1
[ $? -eq 0 ] && grep -Eq "^  the book's second run +2 +16 +0.2( +[0-9]+\.[0-9]{3}){5}$" "$out/log" &&
    [ "$(grep -Ec '^  .* [+-][0-9]\.[0-9]{3}  \+- [0-9]\.[0-9]{3} +(yes|no)$' "$out/log")" -eq 13 ] &&
    grep -q 'Nothing is learned yet' "$out/log" && ! grep -q 'cost' "$out/log"
verdict $? "--experiment: a table, and no conclusion where nothing is learned"
awk -F, 'NR > 1 { if (!($6 > 0 && $7 >= 0 && $7 <= 1 && $9 >= 0 && $10 <= 1)) bad = 1
        if ($2 == 1 && !($7 == $8 && $7 == $9)) bad = 1; n[$1]++}
    END { for (way in n) { ways++; if (n[way] != 10) bad = 1 }; exit bad || ways != 7 }' "$out/05_resnet18_concise_factors.csv"
verdict $? "--experiment: the figures of all 70 trainings"

# What is refused.
train --experiment --devices 2
refused 2 'experiment and --devices' "--experiment with a number of devices"
train --quick --full
refused 2 'quick and --full' "--quick and --full"
train --load "$out/averaged.safetensors" --resume "$out/nothing"
refused 2 'load and --resume' "--load and --resume"
train --bn global
refused 2 "not a possible value: 'global'" "no such way to treat batch norm"
train --devices 1 --steps 0 --load "$out/averaged.safetensors" && grep -q '^test acc: ' "$out/log"
verdict $? "--load and --steps 0 evaluate"
echo "1..$tests"
