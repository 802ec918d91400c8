#!/bin/sh
# chapter_05_resume_test.sh BUILD: trainings that are killed go on to the same bits: two runs that begin with
# --load, killed in the first, between them or in the second, whatever became of the file, and one run whose
# devices keep their own statistics. What comes out (--log-loss, curves) is that of the whole training, and
# what cannot be kept is refused. Prints TAP.
name=05_resnet18_concise
. "$(dirname "$0")/chapter.sh"
cd "$out" || exit 1
pid=
trap '[ -n "$pid" ] && kill -9 $pid 2>/dev/null; rm -rf "$out"' EXIT
places="first between second"
small="--backend cpu --full --train-size 8 --test-size 4 --batch-size 4 --lr 0.02"
train() { "$program" $small --out plots "$@" >log 2>error </dev/null; }
refused() { # STATUS TEXT NAME: how the last training ended
    status=$?
    [ $status -eq "$1" ] && grep -q "error: .*$2" error && grep -q '^hint: ' error && [ "$(wc -l <error)" -eq 2 ]
    verdict $? "$3"
}

# Kills the training of two runs once it has come to a place; what it left is in `part`.
kill_it() { # PLACE FLAGS
    case $1 in
    first) file=plots/05_resnet18_concise.csv sign='^1,2,' ;;
    between) file=log sign='^training on \[cpu:0, cpu:1\]' ;;
    second) file=plots/05_resnet18_concise.csv sign='^2,2,' ;;
    "one run") file=part sign= ;; # after its first epoch, the first checkpoint is there
    esac
    shift
    rm -rf part plots log
    "$program" $small --out plots --epochs 4 --checkpoint part "$@" >log 2>error </dev/null &
    pid=$!
    tries=0
    while ! grep -q "$sign" $file 2>/dev/null && kill -0 $pid 2>/dev/null && [ $tries -lt 6000 ]; do
        sleep 0.02
        tries=$((tries + 1))
    done
    kill -9 $pid 2>/dev/null
    killed=$?
    wait $pid 2>/dev/null
    pid=
    [ $killed -eq 0 ] && [ -s part ]
}

train --devices 1 --epochs 1 --seed 9 --save w && cp w both &&
    train --epochs 4 --load both --save both --log-loss whole_losses.csv --csv whole.csv && mv both whole
verdict $? "two runs that begin with --load; --save goes to the same file"
second="--devices 2 --batch-size 8 --lr 0.04 --steps 1" # the first step of the second run (lr: the last --lr counts)
loss=$(awk -F, '$1 == 1 { loss = $2 } END { print loss }' whole_losses.csv)
train $second --load w --log-loss one.csv && [ "$(sed -n 's/^1,//p' one.csv)" = "$loss" ]
verdict $? "the second run begins with what was loaded, not with what the first saved"
train $second --save from_seed --log-loss one.csv && [ -n "$loss" ] && [ "$(sed -n 's/^1,//p' one.csv)" != "$loss" ]
verdict $? "which is not the seed"

for place in $places; do
    cp w loaded
    kill_it $place --load loaded --log-loss losses.csv
    verdict $? "killed, place: $place"
    case $place in first) cp from_seed loaded ;; *) rm loaded ;; esac # another file now, or none
    cp part "part_$place"
    cp losses.csv "losses_$place.csv"
    train --epochs 4 --resume part --save parts --log-loss losses.csv && grep -q '^going on after epoch' log && cmp whole parts >>error
    verdict $? "$place: goes on to the same bits, without the file that was loaded"
    cmp losses.csv whole_losses.csv >>error
    verdict $? "$place: with all losses, each once"
    cut -d, -f1-4 plots/05_resnet18_concise.csv >a && cut -d, -f1-4 whole.csv | cmp - a >>error
    verdict $? "$place: with the whole curves"
    find . -name '*.tmp.*' >error
    [ ! -s error ]
    verdict $? "$place: what the killed run left is gone"
done

# The statistics of batch norm that each device keeps to itself (--bn local) are in the checkpoint too.
own="--devices 2 --bn local"
train $own --epochs 3 --save whole
verdict $? "--bn local: a training that is left alone"
cut -d, -f1-4 plots/05_resnet18_concise.csv >whole.csv
kill_it "one run" $own --epochs 3
verdict $? "--bn local: killed after its first epoch"
train $own --epochs 3 --resume part --save parts && grep -Eq '^going on after epoch [12] of ' log && cmp whole parts >>error
verdict $? "--bn local: goes on to the same bits"
cut -d, -f1-4 plots/05_resnet18_concise.csv | cmp - whole.csv >>error
verdict $? "--bn local: with the whole curve"

# --steps may end within an epoch, which is then not in the checkpoint.
train $own --epochs 3 --steps 3 --checkpoint part &&
    train $own --epochs 3 --resume part --save parts && grep -q '^going on after epoch 1 of ' log && cmp whole parts >>error
verdict $? "--steps and --resume"
train $own --epochs 3 --resume part && grep -q "^test acc: $(awk -F, 'NR == 4 { printf "%.2f", $4 }' whole.csv)" log
verdict $? "a training that was at its end says how it ended"
train $own --epochs 3 --lr 0.03 --resume part
refused 1 'was written with devices 2, batch size 4, lr 0.02' "a checkpoint of other settings"
train $own --epochs 3 --resume whole
refused 1 'is no checkpoint' "parameters are no checkpoint"
train $own --epochs 3 --resume nothing
refused 1 'cannot read' "a checkpoint that is not there"
mkfifo pipe
timeout 60 "$program" $small --epochs 3 --resume pipe >log 2>error </dev/null
refused 1 'pipe: is not a file' "a pipe is no checkpoint"
accuracies() { sed -n '/^Accuracy:/,/^[TB]/{/^[TB]/!p;}' log; } # what the comparison says of them
train --epochs 1 --checkpoint two && accuracies >first &&
    train --epochs 1 --resume two && accuracies | cmp - first >>error && [ -s first ]
verdict $? "the comparison of both runs, the first of them before --resume"

# A checkpoint is a file of parameters, too.
train --devices 1 --steps 0 --load part_between && grep -q '^test acc: ' log
verdict $? "--load of a checkpoint that holds a start"

# A log that is not that of the training.
sed '2s/,.*/,1/;3s/,.*/,1/;4s/,.*/,1/;5s/,.*/,1/;6s/,.*/,1/;7s/,.*/,1/;8s/,.*/,1/;9s/,.*/,1/' losses_between.csv >losses.csv
cp part_between part && cp losses.csv before
train --epochs 4 --resume part --log-loss losses.csv
refused 1 'losses.csv: does not hold the losses up to the checkpoint: its losses are others' "--log-loss: a file with other losses"
head -n 3 losses_between.csv >losses.csv
train --epochs 4 --resume part --log-loss losses.csv
refused 1 'losses.csv: does not hold .*: it ends before' "--log-loss: a file that ends before the checkpoint"
train --epochs 4 --resume part --log-loss nothing.csv
refused 1 'nothing.csv: does not hold .*: No such file' "--log-loss: no such file"
printf 'devices,epoch\n' >losses.csv
train --epochs 4 --resume part --log-loss losses.csv
refused 1 'losses.csv: does not hold .*step,loss' "--log-loss: a file that is no log"

# A promise that cannot be kept.
train --epochs 2 --resume part
refused 1 'is after minibatch 8, the training ends after 4' "fewer --epochs than are done"
train --epochs 4 --steps 0 --resume part
refused 1 'is after minibatch 8, the training ends after 0' "--steps 0 and --resume"
if [ -e part_second ]; then
    cp part_second part
    train --epochs 5 --resume part
    refused 1 'the run before had --epochs 4; now: --epochs 5' "other --epochs in the second run than in the first"
fi
train --devices 1 --epochs 1 --load w --checkpoint single &&
    train --epochs 2 --resume single
refused 1 'single: is of a single run that began with --load' "the second run of one that had none"
cp single part
train --devices 1 --epochs 2 --resume part --save parts && train --devices 1 --epochs 2 --load w --save whole && cmp whole parts >>error
verdict $? "a single run that began with --load goes on, and for more epochs than it was begun with"
train --devices 1 --epochs 2 --lr 0.020000001 --resume single
refused 1 'was written with .*lr 0.02, .*lr 0.020000001, ' "a learning rate that differs in its last digits"

# Numbers that are too large for a C int, or wrong. (The header keeps its length.)
damaged() { # SED-EXPRESSION TEXT
    LC_ALL=C sed "$1" single >part
    [ "$(wc -c <part)" -eq "$(wc -c <single)" ] && ! cmp -s part single || echo "# the test is wrong: $1"
    train --devices 1 --epochs 2 --resume part
    refused 1 "$2" "a damaged checkpoint: $1"
}
damaged 's/"run":"0"/"run":"4294967296"/;s/"devices 1/"/' 'the "run" is no number from 0 to 1: .4294967296'
damaged 's/"epoch":"1"/"epoch":"4294967297"/;s/"devices 1/"/' 'the "epoch" is no number from 1 to 1000000: .4294967297'
damaged 's/"step":"2"/"step":"99999999999999999999"/;s/"devices 1, batch size /"abc/' 'the "step" is no number'
damaged 's/"step":"2"/"step":"4"/' '4 minibatches are not the 1 epochs'
damaged 's/"epoch":"1"/"epoch":"0"/' 'the "epoch" is no number'
damaged 's/"start":"file"/"start":"fire"/' 'the "start" is neither'
damaged 's/"settings":"devices/"settings":"\\u001b[/' 'was written with ?\[ 1, batch size'

# One file for two purposes.
cp w keep
train --devices 1 --epochs 2 --resume single --save single
refused 2 'single: an output would replace this file, which is read' "--resume and --save of one file"
ln -s single link
train --devices 1 --epochs 2 --resume link --checkpoint other --save ./plots/../single
refused 2 'single: an output would replace this file, which is read' "the same, through a link"
train --devices 1 --epochs 2 --resume single --checkpoint other --csv single
refused 2 'single: an output would replace' "--resume and --csv"
train --devices 1 --checkpoint new --save ../"$(basename "$out")"/new
refused 2 'new: two outputs would go to this file, also called' "--checkpoint and --save of one file that is not there yet"
train --devices 1 --load keep --checkpoint keep
refused 2 'keep: an output would replace' "--load and --checkpoint"
train --devices 1 --load keep --log-loss plots/../keep
refused 2 'keep: an output would replace' "--load and --log-loss"
train --devices 1 --checkpoint plots/05_resnet18_concise.png
refused 2 '05_resnet18_concise.png: two outputs' "--checkpoint onto the picture"
cmp -s keep w
verdict $? "and nothing was lost"
echo "1..$tests"
