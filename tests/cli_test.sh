#!/bin/sh
# cli_test.sh BUILD: each program once for the flags that it has; and chapter 4's from the outside: what it writes, where,
# and what is left when gnuplot, the disk, memory, a pipe or a user stops it. Prints TAP. (What flags and bad files are
# answered with: test_flags.c, test_data.c, test_safetensors.c, test_files.c.) The data set, 64 images of ten simple
# patterns, is made here.
set -u
build=$(cd "${1:?usage: cli_test.sh BUILD}" && pwd) || exit 1
name=04_lenet_multi_gpu
program=$build/$name
[ -x "$program" ] || { echo "Bail out! $program: no such program"; exit 1; }
work=$(mktemp -d) || exit 1
running=
trap '[ -n "$running" ] && kill -9 $running 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
unset DISPLAY WAYLAND_DISPLAY
LC_ALL=C FASHION_MNIST_DIR=$work/nowhere # --data wins
export LC_ALL FASHION_MNIST_DIR
out=$work/stdout err=$work/stderr problems=$work/problems
. "$(dirname "$0")/tap.sh"

# ---- a test: fresh, run, expect_.., and last verdict NAME ---------------------------------------------------

folders=0
fresh() { # an empty folder to run in, with an old file
    folders=$((folders + 1)) here=$work/run$folders
    mkdir -p "$here/plots"
    cd "$here" && echo old >old || exit 1
}
# (The line that a program built with CUDA says on a machine without a GPU is no error.)
run() { # WORDS..: the program, in $here; leaves $status, $out, $err
    command="$name $*"
    PATH=${path:-$PATH} "$timeout" -k 2 60 "$program" "$@" >"$out" 2>"$err" </dev/null
    status=$?
    sed -i "/^$name: no GPU (..*): using CPU devices\$/d" "$err"
}
timeout=$(command -v timeout)
backend=cpu # what most runs share
train() { run --backend "$backend" --data "$work/data" --batch-size 16 --lr 1 --test-size 5 "$@"; }

complain_of() { # WHAT FILE
    complain "$1; came:"
    sed 's/^/#     /; 12q' "$2" >>"$problems"
}
expect() { "$@" || complain_of "not so: $*" "$err"; }
expect_status() { [ "$status" -eq "$1" ] || complain_of "expected status $1, was $status" "$err"; }
expect_good() { # LINES: status 0, and so many lines on stderr
    expect_status 0
    [ "$(wc -l <"$err")" -eq "${1:-0}" ] || complain_of "expected ${1:-0} lines on stderr" "$err"
}
expect_error() { # STATUS WORDS: ended with an error that has these words, and a hint
    expect_status "$1"
    [ "$(wc -l <"$err")" -eq 2 ] && sed -n 1p "$err" | grep -q "^$name: error: .*$2" && sed -n 2p "$err" | grep -q '^hint: .' ||
        complain_of "expected an error '$2' and a hint" "$err"
}
expect_refusal() { # the same before anything was done: nothing on stdout, no new file
    expect_error "$@"
    [ ! -s "$out" ] && [ -z "$(find . -newer old -type f)" ] || complain_of "expected nothing" "$out"
}
whole_png() { [ "$(tail -c 8 "$1" | od -An -tx1 | tr -d ' ')" = 49454e44ae426082 ]; }
pictures() { for picture in _filters _predictions ${gnuplot:+''}; do whole_png "plots/$name$picture.png" || return; done; }
# FILE HEADER: its first columns (two of the curves, one of losses), and "." if it is whole rows of finite numbers.
csv() { awk -F, -v header="$2" 'NR == 1 { bad = $0 != header; columns = NF; next }
    { for (i = 1; i <= NF; i++) if ($i !~ /^[0-9.]+(e[-+][0-9]+)?$/) bad = 1
      if (NF != columns) bad = 1
      printf("%s ", NF > 2 ? $1 "," $2 : $1) }
    END { print bad ? "bad" : "." }' "$1"; }
expect_curves() { # FILE "1,1 1,2": of these devices and epochs
    [ "$(csv "$1" devices,epoch,train_loss,test_acc,seconds)" = "$2 ." ] || complain_of "expected the points $2" "$1"
}
expect_losses() { # FILE N
    [ "$(csv "$1" step,loss)" = "$(seq -s ' ' "$2") ." ] || complain_of "expected $2 losses" "$1"
}
no_leftovers() { [ -z "$(find . -name '*.tmp.*')" ]; }
same() { cmp "$@" >>"$problems" 2>&1; }
different() { [ -s "$1" ] && [ -s "$2" ] && ! cmp -s "$1" "$2"; }
close() { # FILE FILE: the same steps, losses within 1e-4; and they move, so that this says something
    paste -d , "$1" "$2" | awk -F, 'NR > 1 {
        d = $2 - $4; if (!($1 == $3 && NF == 4 && d * d <= 1e-8)) bad = 1
        if (NR == 2 || $2 < low) low = $2
        if (NR == 2 || $2 > high) high = $2 }
        END { exit bad || NR < 3 || !(high - low > 0.01) }'
}

# ---- each program: the flags that it has --------------------------------------------------------------------

all="backend threads threads-per-device help out trace timeline"
training="tf32 quick batch-size lr epochs seed train-size test-size data"
while read -r one flags; do
    command=$one
    "$build/$one" --help >"$out" 2>"$err" || complain "--help: status $?"
    sed -n 's/^  --\([a-z0-9-]*\) .*/\1/p' "$out" | sort >"$work/has"
    echo "$all $flags" | tr ' ' '\n' | sort | diff - "$work/has" >>"$problems"
    "$build/$one" --out= >"$out" 2>"$err"
    [ $? -eq 2 ] && [ ! -s "$out" ] && grep -q "^$one: error: --out" "$err" || complain_of "expected a refusal" "$err"
    verdict "$one has its flags, and refuses a wrong value"
done <<FLAGS
00_devices_and_queues devices machine predict tf32
01_splitting_strategies devices machine predict tf32 batch-size lr seed train-size steps no-shuffle part data csv
02_get_params_and_allreduce devices machine predict seed allreduce csv
03_split_batch devices machine predict tf32 seed no-shuffle data
04_lenet_multi_gpu devices machine predict $training steps no-shuffle allreduce graph load save log-loss csv live
05_resnet18_concise devices machine predict $training full steps no-shuffle allreduce bn experiment load save checkpoint resume log-loss csv live
06_data_parallel_and_ddp devices machine predict $training allreduce memory
07_parameter_servers machine predict $training workers servers staleness backup slow dies schedule staleness-lr real
08_many_machines $training train full seeds steps no-shuffle network rule collective exchange bucket fusion cycle hierarchical devices-per-rank ranks-per-host timeout plant checkpoint resume csv
FLAGS

# ---- what is read -------------------------------------------------------------------------------------------

byte() { printf "\\$(printf %03o "$1")"; }
bytes() { head -c "$1" /dev/zero | tr '\0' "\\$2"; } # COUNT OCTAL
make_data() { # a bright bar on gray; place and gray belong to the class
    mkdir "$work/data"
    cd "$work/data" || exit 1
    for class in 0 1 2 3 4 5 6 7 8 9; do
        { bytes $((class * 64)) 020; bytes 112 "$((class % 4))77"; bytes $((672 - class * 64)) 010; } >"$work/class$class"
    done
    printf '\000\000\010\003\000\000\000\100\000\000\000\034\000\000\000\034' >train-images-idx3-ubyte
    printf '\000\000\010\001\000\000\000\100' >train-labels-idx1-ubyte
    for i in $(seq 0 31); do
        for class in $((i * 7 % 10)) $((i * i % 10)); do
            cat "$work/class$class" >>train-images-idx3-ubyte
            byte $class >>train-labels-idx1-ubyte
        done
    done
    for file in images-idx3 labels-idx1; do cp train-$file-ubyte t10k-$file-ubyte; done
}
make_data
gnuplot=$(command -v gnuplot)

fresh
run --backend cpu
expect_refusal 1 "$work/nowhere"
train --train-size 65
expect_refusal 1 65
train --test-size 65
expect_refusal 1 65
train --load old
expect_refusal 1 'old: .*too few'
train --save nowhere/file
expect_refusal 1 'nowhere/file: '
train --save "plots/${name}_filters.png"
expect_refusal 2 'two outputs'
train --csv "$work/data/t10k-labels-idx1-ubyte"
expect_refusal 2 'which is read'
verdict "the data, the parameters, the outputs: what cannot be is refused before any work"

# ---- the same numbers ---------------------------------------------------------------------------------------

for backend in cpu cuda; do
    fresh
    train --devices 1 --steps 0
    if [ $backend = cuda ] && [ $status -ne 0 ]; then
        expect_error 1 'no GPU'
        verdict "--backend cuda without a GPU is refused"
        for test in "seeds, devices, steps" "a last minibatch of 1 row" "--lr 1e30"; do skip "$test (cuda)" "no GPU"; done
        continue
    fi
    train --devices 2 --steps 6 --seed 5 --log-loss a.csv --save a --csv curves.csv
    expect_good
    expect_losses a.csv 6
    expect_curves curves.csv '2,1 2,1.5'
    expect pictures
    train --devices 2 --steps 6 --seed 5 --log-loss b.csv --save b --threads 1
    expect same a.csv b.csv
    expect same a b
    train --devices 1 --steps 6 --seed 5 --log-loss one.csv
    expect close one.csv a.csv
    train --devices 1 --steps 4 --seed 6 --load a --log-loss c.csv
    expect_losses c.csv 4
    train --devices 1 --steps 4 --seed 6 --load a --no-shuffle --log-loss d.csv
    train --devices 1 --steps 4 --seed 5 --load a --no-shuffle --log-loss e.csv
    expect same d.csv e.csv
    expect different c.csv d.csv
    train --devices 2 --steps 0 --seed 6 --load a --save a
    expect_good
    expect same a b
    train --devices 2 --steps 0 --seed 6 --save c
    train --devices 2 --steps 0 --seed 5 --save d
    expect different c d
    verdict "seeds, devices, threads, order, steps, --load and --save ($backend)"

    train --devices 5 --train-size 33 --epochs 2 --log-loss five.csv --csv five_curves.csv
    expect_good
    expect_losses five.csv 6
    expect_curves five_curves.csv '5,1 5,2'
    train --devices 1 --train-size 33 --epochs 2 --log-loss one.csv
    expect close one.csv five.csv
    verdict "a last minibatch of 1 row on 5 devices: as on 1 ($backend)"

    train --devices 1 --batch-size 64 --lr 1e30 --csv curves.csv --log-loss losses.csv --save saved
    expect_error 1 'step 2 .*lr 1e+30'
    expect_curves curves.csv '1,1'
    expect_losses losses.csv 1
    cp curves.csv before
    train --devices 1 --lr 1e30 --csv curves.csv
    expect_error 1 'step 2'
    expect same curves.csv before
    expect no_leftovers
    expect [ ! -e saved ]
    verdict "--lr 1e30 stops, names step and lr, keeps what was done, and what was there ($backend)"
done
backend=cpu

# ---- what is written ----------------------------------------------------------------------------------------

fresh
train --epochs 2 --log-loss losses.csv
expect_good
expect_curves plots/$name.csv '1,1 1,2 2,1 2,2'
expect pictures
expect [ "$(find plots -type f | wc -l)" -eq $((4 + ${gnuplot:+2}+0)) ]
verdict "without --devices: both runs, curves and pictures, and nothing else"

# Names that gnuplot would take for a command, for its own input, for a home folder, for a terminal.
cd /
for strange in '<touch ran' '|touch ran' - '~' "it's" dumb; do
    fresh
    train --devices 1 --steps 1 "--csv=$strange" --out "far/away/$strange.d"
    expect_good
    expect_curves "./$strange" '1,0.25'
    expect [ ! -e ran ]
    [ ! "$gnuplot" ] || expect whole_png "far/away/$strange.d/$name.png"
    verdict "a file with the name $strange, a folder that is made"
done

fresh
: >"$out"
for flags in "--backend cpu --data $work/data --devices 1 --steps 1" --help '--machine list' '--machine print:dgx-a100'; do
    command="$name $flags >/dev/full"
    "$program" $flags >/dev/full 2>"$err"
    status=$?
    expect_error 1 'standard output'
done
cp old plots/${name}_filters.png
train --devices 1 --epochs 2 --csv /dev/full
expect_error 1 '/dev/full.*No space'
sleep 1 # a gnuplot that was left behind would write now
expect same plots/${name}_filters.png old
expect no_leftovers
verdict "out of disk: standard output, and a file while gnuplot draws"

# An output may be a pipe with a name: its reader gets all of it, and then the end. A reader that leaves is not waited for.
fresh
for flag in csv save log-loss trace left; do
    mkfifo $flag
    [ $flag = left ] || "$timeout" 60 cat $flag >read_$flag &
done
train --devices 1 --epochs 2 --csv csv --save save --log-loss log-loss --trace trace
expect_good
wait
expect_curves read_csv '1,1 1,2'
expect [ "$(wc -c <read_save)" -gt 516272 ]
expect_losses read_log-loss 8
expect [ "$(tail -c 2 read_trace)" = '}' ]
verdict "pipes with a name get all"
head -n 1 left >read_left &
train --devices 1 --epochs 9 --csv left
expect [ $status -ne 124 ]
verdict "a pipe whose reader leaves is not waited for"

# A gnuplot that reads the pipe would wait for itself to end.
fresh
mkdir bin
printf '#!/bin/sh\nexec "%s" 5 "%s" "$@"\n' "$timeout" "${gnuplot:-false}" >bin/gnuplot
chmod +x bin/gnuplot
command="$name --csv /dev/stdout | cat"
(PATH=$here/bin:$PATH; "$timeout" -k 2 20 "$program" --data "$work/data" --backend cpu --devices 1 --batch-size 16 --epochs 2 \
    --csv /dev/stdout 2>"$err" </dev/null; echo "status $?") | "$timeout" 30 cat >"$out"
grep -E '^(devices,|[0-9]+,)' "$out" >last.csv
expect_curves last.csv '1,1 1,2'
[ ! "$gnuplot" ] || expect whole_png plots/$name.png
expect grep -q '^status 0' "$out"
expect no_leftovers
verdict "--csv /dev/stdout, a pipe"

# Little memory: each run ends by itself, well or with an error and a hint. (Sanitizers want more than there is. Shells
# that have no ulimit -v skip this.)
# shellcheck disable=SC3045
if ! (ulimit -v 4000000 && "$program" --help) >/dev/null 2>&1; then
    skip "little memory" "this program wants too much to begin with"
else
    failed=0 done=0
    for kilobytes in 30000 40000 50000 60000 80000 120000 200000 500000; do
        fresh
        (ulimit -v $kilobytes && train --devices 2 --threads 8 --steps 2 --save saved && echo "$status" >limited) 2>/dev/null
        status=$(cat limited 2>/dev/null || echo 999) command="$name, under ulimit -v $kilobytes"
        [ "$status" -eq 0 ] && done=1 || { # (libraries may say something, too, one for each thread that did not start)
            failed=1
            grep -v -e '^$' -e '^libgomp: ' "$err" | tail -n 2 >last
            cp last "$err"
            expect_error 1 ''
        }
        expect no_leftovers
    done
    [ $failed$done = 11 ] || complain "expected some to succeed and some to fail: $done, $failed"
    verdict "little memory: an error and a hint, or a good run"
fi

# ---- gnuplot, terminal --------------------------------------------------------------------------------------

# One that is not there, one that fails at the script, one that writes half a picture and does not notice, as the real one
# on a full disk.
fresh
train --devices 1 --steps 1
cp plots/${name}_filters.png "$work/picture.png"
for kind in none 'exit 1' 'for png; do :; done; head -c 5000 "$0.png" >"$png"'; do
    fresh
    mkdir bin
    printf '#!/bin/sh\ncase $1 in --version | -e) exit 0 ;; esac\n%s\n' "$kind" >bin/gnuplot
    cp "$work/picture.png" bin/gnuplot.png
    chmod +x bin/gnuplot
    [ "$kind" != none ] || rm bin/gnuplot
    path=$here/bin
    [ "$kind" = none ] || path=$path:$PATH
    cp old plots/$name.png
    train --devices 1 --epochs 3 --live
    expect_good 1
    expect grep -q gnuplot "$err"
    expect_curves plots/$name.csv '1,1 1,2 1,3'
    expect same plots/$name.png old
    expect whole_png plots/${name}_filters.png
    expect no_leftovers
    verdict "a gnuplot that does this: $kind; one warning, and all else is there"
    [ "$kind" != 'exit 1' ] || (export DISPLAY=:4711 && train --devices 1 --epochs 8 --live && echo $status >ended)
done
path=
expect [ "$(cat ../run$((folders - 1))/ended)" = 0 ]
verdict "--live: the window dies, as one does that cannot open the display; training goes on"

if [ ! "$gnuplot" ]; then
    skip "out of disk: pictures" "no gnuplot"
    skip "--live without a display draws with letters, after the lines of the run" "no gnuplot"
else
    fresh
    cp old plots/$name.png
    cp old plots/${name}_filters.png
    (ulimit -f 25 && train --devices 1 --steps 1) 2>/dev/null # 25 times 512 or 1024 bytes
    expect grep -q "^$name: gnuplot could not .* plots/$name.png" "$err"
    expect grep -q "^$name: error: .*plots/${name}_filters.png: cannot write: File too large" "$err"
    expect same plots/$name.png old
    expect same plots/${name}_filters.png old
    expect no_leftovers
    verdict "out of disk: pictures, those that gnuplot draws and ours"

    fresh
    train --devices 1 --epochs 2 --live
    expect_good
    expect [ "$(sed -n 's/^  epoch  *[12]:.*/epoch/p; s/^ *+-----.*/drawing/p; s/^.*+------*+ *$/drawing/p' "$out" | uniq | tr '\n' ' ' |
        cut -c 1-28)" = 'epoch drawing epoch drawing ' ]
    verdict "--live without a display draws with letters, after the lines of the run"
fi

fresh
if ! script -qec true /dev/null </dev/null >/dev/null 2>&1; then
    skip "a terminal" "no script (util-linux)"
else
    for flags in "--epochs 2" "--lr 1e30"; do
        echo "exec '$program' --data '$work/data' --backend cpu --devices 1 --batch-size 16 $flags" >go
        "$timeout" -k 2 30 script -qec 'sh go' /dev/null >"$out" 2>&1 </dev/null
        case $flags in
        --epochs*) expect grep -q 'epoch 1/2, loss .*%.* left' "$out" ;;
        *) tr '\r' '\n' <"$out" | sed "s/^$(printf '\033')\[K//" | grep -q "^$name: error: the loss" || complain_of "$flags" "$out" ;;
        esac
    done
    verdict "a terminal has a progress bar, and an error begins a line of its own"
fi

# ---- Ctrl-C -------------------------------------------------------------------------------------------------

# A shell's background jobs begin with SIGINT ignored; env gives them back what a terminal gives.
defaults='env --default-signal=INT'
$defaults true 2>/dev/null || defaults='env'
fresh
command="$name, and SIGINT"
"$timeout" 60 $defaults "$program" --data "$work/data" --backend cpu --devices 2 --batch-size 16 --epochs 1000000 \
    --save saved --log-loss losses.csv >"$out" 2>"$err" </dev/null &
running=$!
for i in $(seq 150); do grep -q '^2,2,' plots/$name.csv 2>/dev/null && break; sleep 0.2; done
kill -INT $running
wait $running
status=$? running=
expect_status 130
expect [ ! -s "$err" ]
expect [ "$(csv plots/$name.csv devices,epoch,train_loss,test_acc,seconds | tail -c 3)" = ' .' ]
[ ! "$gnuplot" ] || expect whole_png plots/$name.png
expect_losses losses.csv "$(grep -c '^[0-9]' losses.csv)"
expect no_leftovers
train --load saved --devices 1 --steps 0
expect_good
verdict "SIGINT: ends with status 130; CSV, PNG, losses and parameters are whole"
echo "1..$tests"
