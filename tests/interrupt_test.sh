#!/bin/sh
# interrupt_test.sh BUILD: SIGTERM and Ctrl-C end every program, whatever it is doing: reading, training, in
# gnuplot, saving; and nothing half-written is left. Prints TAP.
set -u
. "$(dirname "$0")/tap.sh"
[ -x "$build/04_lenet_multi_gpu" ] || { echo "Bail out! no programs in $build"; exit 1; }
unset DISPLAY WAYLAND_DISPLAY
running= reader= full=
trap 'for p in $running $reader; do kill -9 $p 2>/dev/null; done; rm -rf "$work"' EXIT
path=$PATH
folders=0

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
    [ -z "$full" ] || ln -s "$full" "$here/log"
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
    if has_hung && ! until_true 10 gone "$(cat "$work/hung")"; then
        complain "left gnuplot running"
        kill -9 "$(cat "$work/hung")"
    fi
}
ended() { case $(sed 's/.*) //' "/proc/$running/stat" 2>/dev/null) in '' | Z*) return 0 ;; esac; return 1; }


# Rows PROGRAM | GNUPLOT | FLAGS | WHEN | SIGNALS | STATUS.. SECONDS | FILE=REGEX..: it runs until WHEN (seconds, a gnuplot
# that hangs, or FILE=REGEX, and half a second more after a +), gets the signals (numbers: seconds between them), ends with
# one of these statuses within so many seconds, and has written these lines. A dot in a regex stands for a space, too.
small="--devices 2 --train-size 512 --test-size 64 --batch-size 64 --epochs 1000000"
one="05_resnet18_concise|real|--full --devices 1"
try_all() {
    while IFS='|' read -r program gnuplot flags when signals how lines; do
        [ -x "$build/$program" ] || continue # students have the exercises that were handed out
        case $gnuplot in real) path=$PATH ;; *) path=$work/$gnuplot:$PATH ;; esac
        start $program $flags
        case $when in
        hung) until_true 60 has_hung || complain "gnuplot does not begin" ;;
        *=*) until_true 60 wrote "${when%%=*}" "$(echo "${when#*=}" | tr -d +)" || complain "never: $when" ;;
        *) sleep "${when%+}" ;;
        esac
        case $when in *+) sleep 0.5 ;; esac
        for one in $signals; do case $one in [0-9]*) sleep $one ;; *) signal $one ;; esac; done
        ends $how
        for line in $lines; do wrote "${line%%=*}" "${line#*=}" || complain "$line was not written"; done
        verdict "$program $flags, $gnuplot gnuplot, at $when: SIG$signals"
    done
}
reading="real|--data $work/data|0.4|TERM|143 2|"
try_all <<ROWS
01_splitting_strategies|$reading
03_split_batch|$reading
05_resnet18_concise|$reading
04_lenet_multi_gpu_exercise_2|$reading
05_resnet18_concise_exercise_1|$reading
04_lenet_multi_gpu|real|--data $work/data|0.4|INT|130 2|error=^04_lenet_multi_gpu:.interrupted:.nothing.unfinished.is.kept$
02_get_params_and_allreduce|real||log=^Four.ways|TERM|143 2|
04_lenet_multi_gpu|hangs||hung|TERM|143 2|
02_get_params_and_allreduce|hangs_drawing|--devices 2|hung|TERM|143 2|
04_lenet_multi_gpu|hangs_drawing|$small --save saved --log-loss losses.csv|hung|TERM|130 12|log=^interrupted.after.epoch.[0-9]*,.the.curves.are.kept$ plots/04_lenet_multi_gpu.csv=^2,1, losses.csv=^8, saved=. error=gnuplot.could.not.draw
04_lenet_multi_gpu|hangs_drawing|$small --save saved|hung|TERM 0.6 TERM|143 2|
04_lenet_multi_gpu|hangs_drawing|$small --save saved|hung|INT INT|130 12|saved=.
$one --steps 0|log=^training.on+|TERM|143 2|
$one --train-size 4 --batch-size 4 --epochs 2 --save saved|log=^training.on+|3 TERM|130 20|log=^interrupted.in.the.first.epoch: saved=.
ROWS
# Nobody reads what it prints: the pipe takes a part, and the rest waits. The time that it has is 10 seconds.
mkfifo "$work/pipe"
# shellcheck disable=SC2217
sleep 600 <"$work/pipe" &
reader=$!
head -c 65116 /dev/zero >"$work/pipe" # then there is room for the lines of six epochs
full=$work/pipe
try_all <<ROWS
04_lenet_multi_gpu|real|$small|plots/04_lenet_multi_gpu.csv=^2,6,|TERM|143 25|error=did.not.come.to.an.orderly.end.in.time
ROWS
kill $reader
reader= full=
for delay in 0.02 0.1 0.2 0.3 0.5 0.7 1 1.3; do # at any time (143 of a process that does not catch signals yet, too)
    echo "04_lenet_multi_gpu|real|$small|$delay|TERM|130 143 15|" >>"$work/any_time"
done
try_all <"$work/any_time"
echo "1..$tests"
