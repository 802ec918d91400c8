#!/bin/sh
# interrupt_test.sh BUILD: SIGTERM and Ctrl-C end every program, whatever it is doing: reading, training, in
# gnuplot, saving; and nothing half-written is left. Prints TAP.
set -u
build=$(cd "${1:?usage: interrupt_test.sh BUILD}" && pwd) || exit 1
[ -x "$build/04_lenet_multi_gpu" ] || { echo "Bail out! no programs in $build"; exit 1; }
unset DISPLAY WAYLAND_DISPLAY
work=$(mktemp -d) || exit 1
running= reader=
trap 'for p in $running $reader; do kill -9 $p 2>/dev/null; done; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
path=$PATH
folders=0
problems=$work/problems
. "$(dirname "$0")/tap.sh"

# A gnuplot that is there but hangs: at once, or only when it is to draw. It leaves its number in $work/hung.
mkdir "$work/hangs" "$work/hangs_drawing"
hang="echo \$\$ >'$work/hung'; exec sleep 600"
printf '#!/bin/sh\n%s\n' "$hang" >"$work/hangs/gnuplot"
printf '#!/bin/sh\ncase $1 in --version | -e) exit 0 ;; esac\n%s\n' "$hang" >"$work/hangs_drawing/gnuplot"
chmod +x "$work"/hang*/gnuplot
# A data set that never comes.
mkdir "$work/data"
for file in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do mkfifo "$work/data/$file-ubyte.gz"; done

# A shell's background jobs begin with SIGINT ignored; env gives them back what a terminal gives.
defaults='env --default-signal=INT'
$defaults true 2>/dev/null || defaults='env'

start() { # PROGRAM FLAGS: in a folder of its own
    folders=$((folders + 1)) here=$work/run$folders program=$1
    shown="$problems $here/error"
    mkdir "$here"
    rm -f "$work/hung"
    shift
    (cd "$here" && PATH=$path exec $defaults "$build/$program" --backend cpu "$@") >"$here/log" 2>"$here/error" </dev/null &
    running=$!
}
until_true() { # SECONDS COMMAND..
    tries=$(($1 * 20))
    shift
    while ! "$@" 2>/dev/null && [ $tries -gt 0 ]; do
        sleep 0.05
        tries=$((tries - 1))
    done
    [ $tries -gt 0 ]
}
gone() { ! kill -0 "$1" 2>/dev/null; }
has_hung() { [ -s "$work/hung" ]; }
wrote() { grep -q "$2" "$here/$1"; } # FILE REGEX

signal() { # NAME: while the program is still running
    kill -0 $running 2>/dev/null || complain "it had ended before the signal"
    kill -s "$1" $running 2>/dev/null
}
ends() { # STATUS.. SECONDS: it ends with one of these within so many seconds, and leaves nothing
    for limit; do :; done
    # ($running stays a zombie until wait: its state tells.)
    until_true "$limit" ended || { complain "still running after $limit seconds"; kill -9 $running; }
    wait $running
    status=$?
    running=
    case " $* " in *" $status "*) ;; *) complain "ended with status $status" ;; esac
    left=$(cd "$here" && find . -name '*.tmp.*')
    [ -z "$left" ] || complain "left $left"
    has_hung && ! gone "$(cat "$work/hung")" && until_true 2 gone "$(cat "$work/hung")"
    if has_hung && ! gone "$(cat "$work/hung")"; then
        complain "left gnuplot running"
        kill -9 "$(cat "$work/hung")"
    fi
}
ended() { case $(sed 's/.*) //' "/proc/$running/stat" 2>/dev/null) in '' | Z*) return 0 ;; esac; return 1; }
expect() { "$@" || complain "not so: $*"; }

# While it waits for the data, or for its first gnuplot.
for program in 01_splitting_strategies 03_split_batch 04_lenet_multi_gpu 05_resnet18_concise \
    04_lenet_multi_gpu_exercise_2 05_resnet18_concise_exercise_1; do
    [ -x "$build/$program" ] || continue # students have the exercises that were handed out
    start $program --data "$work/data"
    sleep 0.4
    signal TERM
    ends 143 2
    verdict "$program: SIGTERM while it reads the data"
done
start 04_lenet_multi_gpu --data "$work/data"
sleep 0.4
signal INT
ends 130 2
expect wrote error '^04_lenet_multi_gpu: interrupted: nothing unfinished is kept$'
verdict "Ctrl-C while it reads the data"

start 02_get_params_and_allreduce
expect until_true 20 wrote log '^Four ways'
signal TERM
ends 143 2
verdict "02_get_params_and_allreduce: SIGTERM while its CSV is half-written"

path=$work/hangs:$PATH
start 04_lenet_multi_gpu
expect until_true 20 has_hung
signal TERM
ends 143 2
verdict "SIGTERM while the first gnuplot hangs"

path=$work/hangs_drawing:$PATH
start 02_get_params_and_allreduce --devices 2
expect until_true 60 has_hung
signal TERM
ends 143 2
verdict "02_get_params_and_allreduce: SIGTERM while gnuplot hangs"

# In the training: the orderly end, with what there is. Gnuplot gets five seconds.
small="--devices 2 --train-size 512 --test-size 64 --batch-size 64"
start 04_lenet_multi_gpu $small --epochs 1000000 --save saved --log-loss losses.csv
expect until_true 20 has_hung
signal TERM
ends 130 12
expect wrote log '^interrupted after epoch [0-9]*, the curves are kept$'
expect wrote plots/04_lenet_multi_gpu.csv '^2,1,'
expect wrote losses.csv '^8,'
expect test -s "$here/saved"
expect wrote error 'gnuplot could not draw'
verdict "the training, and gnuplot hangs: SIGTERM keeps figures, losses and parameters"

start 04_lenet_multi_gpu $small --epochs 1000000 --save saved
expect until_true 20 has_hung
signal TERM
sleep 0.6
signal TERM
ends 143 2
verdict "a second SIGTERM ends it at once"

start 04_lenet_multi_gpu $small --epochs 1000000 --save saved
expect until_true 20 has_hung
signal INT
signal INT # as `timeout` and terminals may send it
ends 130 12
expect test -s "$here/saved"
verdict "one request that is sent twice is one request"

# Nobody reads what it saves: the pipe takes a part, and the rest waits. The time that it has is 10 seconds.
path=$PATH
mkfifo "$work/pipe"
# shellcheck disable=SC2217
sleep 600 <"$work/pipe" &
reader=$!
start 04_lenet_multi_gpu $small --epochs 1000000 --save "$work/pipe"
expect until_true 20 wrote plots/04_lenet_multi_gpu.csv '^2,1,'
signal TERM
ends 143 25
expect wrote error 'did not come to an orderly end in time'
verdict "saving hangs: SIGTERM ends it all the same, after 10 seconds"
kill $reader
reader=

# Evaluation of ResNet-18 over the whole test set takes long: alone, and within a training.
start 05_resnet18_concise --full --devices 1 --steps 0
expect until_true 60 wrote log '^training on'
sleep 0.5
signal TERM
ends 143 2
verdict "ResNet-18, --steps 0: SIGTERM while it evaluates"
start 05_resnet18_concise --full --train-size 16 --batch-size 16 --epochs 2 --devices 1 --save saved --log-loss losses.csv
expect until_true 60 wrote log 'memory of the device'
sleep 0.5
signal TERM
ends 130 20
expect wrote log '^interrupted in the first epoch: this run has no curves to keep yet$'
expect wrote losses.csv '^1,'
expect test -s "$here/saved"
verdict "ResNet-18: SIGTERM while it evaluates after an epoch keeps losses and parameters"

# At any time.
for delay in 0.02 0.1 0.2 0.3 0.4 0.5 0.6 0.8 1 1.3; do
    start 04_lenet_multi_gpu $small --epochs 100000
    sleep $delay
    signal TERM
    # (143 of a process that does not catch signals yet, too.)
    ends 130 143 15
done
verdict "SIGTERM at any time"
echo "1..$tests"
