#!/bin/sh
# chapter_05_resume_test.sh BUILD: a training run that is killed goes on to the same bits, also if it began with --load, if
# its devices keep their own statistics, and if --steps ended it within an epoch. The curve is that of the whole training,
# and what cannot be kept is refused. Prints TAP.
name=05_resnet18_concise
. "$(dirname "$0")/chapter.sh"
small_data_set
pid=
trap '[ -n "$pid" ] && kill -9 $pid 2>/dev/null; rm -rf "$out"' EXIT
small="--backend cpu --full --train-size 8 --test-size 4 --batch-size 4 --lr 0.02"
run() { run_program $small "$@"; }
trains() { # FLAGS
    command="$name $*"
    run "$@" || complain "status $status"
}
curve() { cut -d, -f1-4 plots/$name.csv; } # all but the seconds
same() { cmp "$1" "$2" >>problems 2>&1; }

# Kills a training after its first epochs; what it left is in `part`.
kill_it() { # FLAGS
    rm -rf part plots
    "$program" $small --checkpoint part "$@" >log 2>error </dev/null &
    pid=$!
    tries=0
    while [ ! -s part ] && kill -0 $pid 2>/dev/null && [ $tries -lt 6000 ]; do
        sleep 0.02
        tries=$((tries + 1))
    done
    kill -9 $pid 2>/dev/null && [ -s part ] || complain "not killed, or no checkpoint"
    wait $pid 2>/dev/null
    pid=
}

trains --devices 1 --epochs 1 --seed 9 --save w
while IFS='|' read -r way flags start; do
    trains $flags $start --save whole
    curve >whole.csv
    case $way in killed) kill_it $flags $start ;; *) trains $flags $start --steps 3 --checkpoint part ;; esac
    trains $flags --resume part --save parts
    has 'going on after epoch [123] of '
    same whole parts
    curve | cmp - whole.csv >>problems
    verdict "$flags $start, $way: goes on to the same bits, with the whole curve"
done <<'ROWS'
killed|--devices 1 --epochs 4|--load w
killed|--devices 2 --epochs 3 --bn local|
--steps|--devices 2 --epochs 3 --bn local|
killed|--devices 2 --epochs 3 --bn sync --no-shuffle|
ROWS
cp part once
trains --devices 2 --epochs 3 --bn sync --no-shuffle --resume part
has "test acc: $(awk -F, 'NR == 4 { printf "%.2f", $4 }' whole.csv)"
verdict "a training that was at its end says how it ended"
trains --devices 1 --steps 0 --load once # a checkpoint is a file of parameters, too
has 'test acc: '
verdict "--load reads a checkpoint"

# ---- what is refused -------------------------------------------------------------------------------------

trains --devices 1 --epochs 2 --checkpoint single
for number in 0 x; do sed "s/\"epoch\":\"2\"/\"epoch\":\"$number\"/" single >bad_$number; done # (The header keeps its length.)
sed 's/"history":"1,/"history":"x,/' single >bad_history
cp w keep
refusals <<ROWS
1 was written with devices 1, batch size 4, lr 0.02.*now: .*lr 0.020000001, | --devices 1 --lr 0.020000001 --resume single
1 was written with devices 1, .*now: devices 2, | --devices 2 --resume single
1 is no checkpoint | --devices 1 --resume whole
1 cannot read | --devices 1 --resume nothing
1 is after epoch 2, the training ends after 1 | --devices 1 --epochs 1 --resume single; --devices 1 --steps 3 --resume single
1 the "epoch" is no number from 1 | --devices 1 --resume bad_0; --devices 1 --resume bad_x
1 the "history" is no curve of 2 epochs | --devices 1 --resume bad_history
2 are for one training run | --checkpoint new; --resume single
2 each gives the parameters | --devices 1 --load w --resume single
2 single: an output would replace this file, which is read | --devices 1 --resume single --save single
2 single: an output would replace | --devices 1 --resume single --checkpoint other --csv single
2 new: two outputs would go to this file | --devices 1 --checkpoint new --save new
2 keep: an output would replace | --devices 1 --load keep --checkpoint keep; --devices 1 --load keep --csv plots/../keep
2 05_resnet18_concise.png: two outputs | --devices 1 --checkpoint plots/05_resnet18_concise.png
ROWS
same keep w
verdict "and nothing was lost"
echo "1..$tests"
