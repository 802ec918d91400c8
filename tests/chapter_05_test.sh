#!/bin/sh
# chapter_05_test.sh BUILD: chapter 5 runs, prints the book's lines and draws its curves; a training that is
# killed goes on to the same bits; what does not fit is refused. Prints TAP.
build=$1
program=$build/05_resnet18_concise
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
tests=0
verdict() { # STATUS NAME
    tests=$((tests + 1))
    [ "$1" -eq 0 ] && echo "ok $tests - $2" && return
    echo "not ok $tests - $2"
    sed 's/^/# /' "$out/log" "$out/error"
}
images=48 epochs=3 ways="local rank0 averaged sync" killed_with="averaged local"
case $build in *asan) images=32 epochs=2 ways="averaged sync" killed_with=local ;; esac # there a step takes seconds
small="--backend cpu --train-size $images --test-size 20 --batch-size 16 --lr 0.02"
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
sed '/^ResNet-18:/q' "$out/log" | tr '\n' ' ' | grep -Eq "^quick: the first $images of 60000 training images and 20 of 10000 test images, 1 epoch, batch size 16: about [0-9]+ minutes here; the full run \(--full\) would take about [0-9.]+ hours ResNet-18:"
verdict $? "the first paragraph says how much is left out"
grep -q 'parameter "0.weight" is not initialized on host' "$out/log"
verdict $? "the host holds no parameters"
[ "$(grep -c '^    \[.* on cpu:[01]$' "$out/log")" -eq 2 ] &&
    [ "$(grep '^    \[.* on cpu:[01]$' "$out/log" | sed 's/ on .*//' | sort -u | wc -l)" -eq 1 ]
verdict $? "the first filter is the same on both devices"
grep -Eq '^training on \[cpu:0\]: batch size 16, lr 0.02$' "$out/log" &&
    grep -Eq '^training on \[cpu:0, cpu:1\]: batch size 32, lr 0.04, ' "$out/log"
verdict $? "twice the batch size and learning rate on two devices"
grep -Eq '^test acc: [01]\.[0-9]{2}, [0-9.]+ sec/epoch on \[cpu:0\]$' "$out/log" &&
    grep -Eq '^test acc: [01]\.[0-9]{2}, [0-9.]+ sec/epoch on \[cpu:0, cpu:1\]$' "$out/log"
verdict $? "the book's last lines"
awk -F, 'NR == 1 { good = $0 == "devices,epoch,train_loss,test_acc,seconds" } NR > 1 { good = good && $3 > 0 && $3 < 10 && $4 >= 0 && $4 <= 1 }
    END { exit !(good && NR == 3) }' "$out/05_resnet18_concise.csv"
verdict $? "the figures of the curves"
[ "$(od -An -j16 -N8 -tu1 "$out/05_resnet18_concise.png" | awk '{ print $3 * 256 + $4 }')" = 1800 ]
verdict $? "the picture of the curves"

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

# Killed after its first epoch, the training goes on to the bits of one that was left alone.
for bn in $killed_with; do
    rm -f "$out/part" "$out"/05_*.csv
    train --devices 2 --epochs $epochs --bn $bn --save "$out/whole.safetensors"
    verdict $? "--bn $bn: a training that is left alone"
    cp "$out/05_resnet18_concise.csv" "$out/whole.csv"
    "$program" $small --out "$out" --devices 2 --epochs $epochs --bn $bn --checkpoint "$out/part" >/dev/null 2>&1 </dev/null &
    pid=$!
    tries=0
    while [ ! -e "$out/part" ] && kill -0 $pid 2>/dev/null && [ $tries -lt 6000 ]; do
        sleep 0.02
        tries=$((tries + 1))
    done
    kill -9 $pid 2>/dev/null
    killed=$?
    wait $pid 2>/dev/null
    [ $killed -eq 0 ] && [ -e "$out/part" ]
    verdict $? "--bn $bn: killed after its first epoch"
    train --devices 2 --epochs $epochs --bn $bn --resume "$out/part" --save "$out/parts.safetensors" &&
        grep -Eq '^going on after epoch [12] of ' "$out/log" && cmp -s "$out/whole.safetensors" "$out/parts.safetensors"
    verdict $? "--bn $bn: goes on to the same bits"
    cut -d, -f1-4 "$out/05_resnet18_concise.csv" >"$out/a" && cut -d, -f1-4 "$out/whole.csv" | cmp -s - "$out/a"
    verdict $? "--bn $bn: with the whole curve"
done

# --steps may end within an epoch, which is then not in the checkpoint.
train --devices 2 --epochs $epochs --bn local --steps $((images / 16 + 1)) --checkpoint "$out/part" &&
    train --devices 2 --epochs $epochs --bn local --resume "$out/part" --save "$out/parts.safetensors" &&
    grep -q '^going on after epoch 1 of ' "$out/log" && cmp -s "$out/whole.safetensors" "$out/parts.safetensors"
verdict $? "--steps and --resume"
train --devices 2 --epochs $epochs --bn local --resume "$out/part" &&
    grep -q "^test acc: $(awk -F, -v last=$((epochs + 1)) 'NR == last { printf "%.2f", $4 }' "$out/whole.csv")" "$out/log"
verdict $? "a training that was at its end says how it ended"
accuracies() { sed -n '/^  Accuracy:/,/^  [TB]/{/^  [TB]/!p;}' "$out/log"; } # what the comparison says of them
train --epochs 1 --checkpoint "$out/two" && accuracies >"$out/first" &&
    train --epochs 1 --resume "$out/two" && accuracies | cmp -s - "$out/first" &&
    [ -s "$out/first" ]
verdict $? "the comparison of both runs, the first of them before --resume"

# What is refused.
train --devices 2 --epochs $epochs --bn local --lr 0.03 --resume "$out/part"
refused 1 'was written with devices 2, batch size 16, lr 0.02' "a checkpoint of other settings"
train --devices 2 --epochs $epochs --resume "$out/averaged.safetensors"
refused 1 'is no checkpoint' "parameters are no checkpoint"
train --devices 2 --epochs $epochs --resume "$out/nothing"
refused 1 'cannot read' "a checkpoint that is not there"
train --quick --full
refused 2 'quick and --full' "--quick and --full"
train --load "$out/averaged.safetensors" --resume "$out/part"
refused 2 'load and --resume' "--load and --resume"
train --bn global
refused 2 "not a possible value: 'global'" "no such way to treat batch norm"
train --devices 1 --steps 0 --load "$out/averaged.safetensors" && grep -q '^test acc: ' "$out/log"
verdict $? "--load and --steps 0 evaluate"
echo "1..$tests"
