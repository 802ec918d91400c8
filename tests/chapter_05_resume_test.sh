#!/bin/sh
# chapter_05_resume_test.sh BUILD: training runs that are killed go on to the same bits: two runs that begin with
# --load, killed in the first, between them or in the second, and one run whose devices keep their own statistics.
# The curves are those of the whole training, and what cannot be kept is refused. Prints TAP.
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
curves=plots/$name.csv
curve_of() { cut -d, -f1-4 "$1"; } # all but the seconds
same() { cmp "$1" "$2" >>problems 2>&1; }

# Kills the training of two runs once it has come to a place; what it left is in `part`.
kill_it() { # PLACE FLAGS
    case $1 in
    first) file=$curves sign='^1,2,' ;;
    between) file=log sign='^training on \[cpu:0, cpu:1\]' ;;
    second) file=$curves sign='^2,2,' ;;
    "one run") file=part sign= ;; # after its first epoch, the first checkpoint is there
    esac
    shift
    rm -rf part plots log
    "$program" $small --epochs 4 --checkpoint part "$@" >log 2>error </dev/null &
    pid=$!
    tries=0
    while ! grep -q "$sign" $file 2>/dev/null && kill -0 $pid 2>/dev/null && [ $tries -lt 6000 ]; do
        sleep 0.02
        tries=$((tries + 1))
    done
    kill -9 $pid 2>/dev/null && [ -s part ] || complain "not killed at $file $sign, or no checkpoint"
    wait $pid 2>/dev/null
    pid=
}

trains --devices 1 --epochs 1 --seed 9 --save w
cp w both
trains --epochs 4 --load both --save both --csv whole.csv # --save goes to the same file
mv both whole
# The second run begins with what was loaded, not with what the first saved: its first step (the last --lr counts).
trains --steps 1 --load w --csv story.csv
for start in '--load w' '--save from_seed'; do
    trains --devices 2 --batch-size 8 --lr 0.04 --steps 1 $start --csv one.csv
    curve_of story.csv | grep ^2 >a
    case "$start $(curve_of one.csv | grep ^2 | cmp -s - a && echo same)" in
    --load*same | '--save from_seed ') [ -s a ] || complain "no second run" ;;
    *) complain "the second run does not begin as it should: $start" ;;
    esac
done
verdict "two runs that begin with --load; the second begins with what was loaded, which is not the seed"

for place in first between second; do
    kill_it $place --load w
    cp part "part_$place"
    trains --epochs 4 --load w --resume part --save parts
    has 'going on after epoch'
    same whole parts
    curve_of $curves >a
    curve_of whole.csv | cmp - a >>problems
    verdict "killed, place: $place: goes on to the same bits and curves"
done

# The statistics of batch norm that each device keeps to itself (--bn local) are in the checkpoint too. And --steps may
# end within an epoch, which is then not in the checkpoint.
own="--devices 2 --bn local --epochs 3"
trains $own --save whole
curve_of $curves >whole.csv
for way in killed --steps; do
    case $way in killed) kill_it "one run" $own ;; *) trains $own --steps 3 --checkpoint part ;; esac
    trains $own --resume part --save parts
    has 'going on after epoch [12] of '
    same whole parts
    curve_of $curves | cmp - whole.csv >>problems
    verdict "--bn local, $way: goes on to the same bits, with the whole curve"
done
trains $own --resume part
has "test acc: $(awk -F, 'NR == 4 { printf "%.2f", $4 }' whole.csv)"
verdict "a training that was at its end says how it ended"
trains --epochs 1 --checkpoint two
grep '^came out: test acc .* on 1 device and .* on 2' log >first || complain "no accuracies"
trains --epochs 1 --resume two
grep '^came out:' log | cmp - first >>problems
verdict "the accuracies of both runs, the first of them before --resume"
trains --devices 1 --steps 0 --load part_between # a checkpoint is a file of parameters, too
has 'test acc: '
trains --devices 1 --epochs 1 --load w --checkpoint single
cp single once
trains --devices 1 --epochs 2 --load w --resume once --save parts
trains --devices 1 --epochs 2 --load w --save both
same both parts
verdict "a single run that began with --load goes on, and for more epochs than it was begun with"

# ---- what is refused -------------------------------------------------------------------------------------

sed 's/"length":"--epochs 1"/"start":"file"       /' single >older
mkfifo pipe
ln -s single link
cp w keep
damaged() { # SED-EXPRESSION: numbers that are too large for a C int, or wrong. (The header keeps its length.)
    count=$((${count:-0} + 1))
    sed "$1" single >bad$count
    [ "$(wc -c <bad$count)" -eq "$(wc -c <single)" ] && ! cmp -s bad$count single || complain "the test is wrong: $1"
}
damaged 's/"run":"0"/"run":"4294967296"/;s/"devices 1/"/'
damaged 's/"epoch":"1"/"epoch":"4294967297"/;s/"devices 1/"/'
damaged 's/"step":"2"/"step":"99999999999999999999"/;s/"devices 1, batch size /"abc/'
damaged 's/"step":"2"/"step":"4"/'
damaged 's/"epoch":"1"/"epoch":"0"/'
damaged 's/"settings":"devices/"settings":"\\u001b[/'
damaged 's/"history":"1,/"history":"1;/'
refusals <<ROWS
1 was written with devices 2, batch size 4, lr 0.02 | $own --lr 0.03 --resume part
1 is no checkpoint | $own --resume whole
1 cannot read | $own --resume nothing
1 pipe: is not a file | --resume pipe
1 is after minibatch 8, the training ends after 4 | --epochs 2 --load w --resume part_between
1 is after minibatch 8, the training ends after 0 | --epochs 4 --steps 0 --load w --resume part_between
1 the run before had --epochs 4; now: --epochs 5 | --epochs 5 --load w --resume part_second
1 was written with .*begun with other parameters (.*now: .*on the CPU$ | --epochs 4 --resume part_first; --devices 1 --epochs 2 --resume single
1 was written with .*begun with other parameters (.*now: .*begun with other parameters ( | --epochs 4 --load from_seed --resume part_first
1 by a version of November 2026 or before | --devices 1 --epochs 2 --load w --resume older
1 was written with .*lr 0.02, .*lr 0.020000001, | --devices 1 --epochs 2 --lr 0.020000001 --load w --resume single
1 the "run" is no number from 0 to 1: .4294967296 | --devices 1 --epochs 2 --resume bad1
1 the "epoch" is no number from 1 to 1000000: .4294967297 | --devices 1 --epochs 2 --resume bad2
1 the "step" is no number | --devices 1 --epochs 2 --resume bad3
1 4 minibatches are not the 1 epochs | --devices 1 --epochs 2 --load w --resume bad4
1 the "epoch" is no number | --devices 1 --epochs 2 --resume bad5
1 was written with ?\[ 1, batch size | --devices 1 --epochs 2 --resume bad6
1 bad7: is of another run | --devices 1 --epochs 2 --load w --resume bad7
2 single: an output would replace this file, which is read | --devices 1 --resume single --save single
2 single: an output would replace this file, which is read | --devices 1 --resume link --checkpoint other --save ./plots/../single
2 single: an output would replace | --devices 1 --resume single --checkpoint other --csv single
2 new: two outputs would go to this file | --devices 1 --checkpoint new --save new
2 keep: an output would replace | --devices 1 --load keep --checkpoint keep; --devices 1 --load keep --csv plots/../keep
2 05_resnet18_concise.png: two outputs | --devices 1 --checkpoint plots/05_resnet18_concise.png
ROWS
same keep w
verdict "and nothing was lost"
echo "1..$tests"
