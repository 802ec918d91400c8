#!/bin/sh
# cli_test.sh BUILD: each program once for the flags that it has; and chapter 4's from the outside: what it writes, where,
# and what is left when gnuplot, the disk, memory or a user stops it. Prints TAP. (What flags and bad files are
# answered with: test_flags.c, test_data.c, test_safetensors.c, test_files.c.)
name=04_lenet_multi_gpu
. "$(dirname "$0")/chapter.sh"
small_data_set
for file in images-idx3 labels-idx1; do cp "$out/data/train-$file-ubyte" "$out/data/t10k-$file-ubyte"; done
unset DISPLAY WAYLAND_DISPLAY shown
FASHION_MNIST_DIR=$out/nowhere path= # --data wins; where gnuplot is to be found
export FASHION_MNIST_DIR path
printf '#!/bin/sh\nPATH=${path:-$PATH} exec "%s" -k 2 60 "%s" "$@"\n' "$(command -v timeout)" "$program" >"$out/limited"
chmod +x "$out/limited"
program=$out/limited problems=$out/problems log=$out/log err=$out/error backend=cpu folders=0 running=
trap '[ -n "$running" ] && kill -9 $running 2>/dev/null; rm -rf "$out"' EXIT
gnuplot=$(command -v gnuplot)

# ---- a test: fresh, run, expect_.., and last verdict NAME ---------------------------------------------------

fresh() { # an empty folder to run in, with an old file
    folders=$((folders + 1)) here=$out/run$folders
    mkdir -p "$here/plots" "$here/bin"
    cd "$here" && echo old >old || exit 1
}
run() {
    command="$name $*"
    run_program "$@"
}
small="--data $out/data --batch-size 16 --test-size 5" # what most runs share
train() { run --backend $backend $small --lr 1 "$@"; }

complain_of() { # WHAT FILE
    complain "$1; came:"
    sed 's/^/#     /; 12q' "$2" >>"$problems"
}
expect() { "$@" || complain_of "not so: $*" "$err"; }
expect_end() { # STATUS LINES: with so many lines on stderr
    [ "$status" -eq "$1" ] && [ "$(wc -l <"$err")" -eq "$2" ] || complain_of "status $status, expected $1 and $2 lines" "$err"
}
expect_good() { expect_end 0 0; }
expect_error() { # STATUS WORDS: ended with an error that has these words, and a hint
    expect_end "$1" 2
    sed -n 1p "$err" | grep -q "^$name: error: .*$2" && sed -n 2p "$err" | grep -q '^hint: .' || complain_of "expected $2" "$err"
}
expect_refusal() { # the same before anything was done: nothing on stdout, no new file
    expect_error "$@"
    [ ! -s "$log" ] && [ -z "$(find . -newer old -type f)" ] || complain_of "expected nothing" "$log"
}
# FILE HEADER: its first columns (two of the curves, one of losses), and "." if it is whole rows of finite numbers.
csv() { awk -F, -v header="$2" 'NR == 1 { bad = $0 != header; columns = NF; next }
    { for (i = 1; i <= NF; i++) if ($i !~ /^[0-9.]+(e[-+][0-9]+)?$/) bad = 1
      if (NF != columns) bad = 1
      printf("%s ", NF > 2 ? $1 "," $2 : $1) }
    END { print bad ? "bad" : "." }' "$1"; }
curves() { csv "$1" devices,epoch,train_loss,test_acc,seconds; } # "1,1 1,2 .": of these devices and epochs
expect_curves() { [ "$(curves "$1")" = "$2 ." ] || complain_of "expected the points $2" "$1"; }
expect_losses() { [ "$(csv "$1" step,loss)" = "$(seq -s ' ' "$2") ." ] || complain_of "expected $2 losses" "$1"; }
expect_pictures() { for kind in _predictions ${gnuplot:+""}; do expect is_png "plots/$name$kind.png"; done; }
no_leftovers() { [ -z "$(find . -name '*.tmp.*')" ]; }
different() { [ -s "$1" ] && [ -s "$2" ] && ! cmp -s "$1" "$2"; }
close() { # FILE FILE: the same steps, losses within 1e-4; and they move, so that this says something
    paste -d , "$1" "$2" | awk -F, 'NR > 1 {
        d = $2 - $4; if (!($1 == $3 && NF == 4 && d * d <= 1e-8)) bad = 1
        if (NR == 2 || $2 < low) low = $2
        if (NR == 2 || $2 > high) high = $2 }
        END { exit bad || NR < 3 || !(high - low > 0.01) }'
}

# ---- each program: the flags that it has --------------------------------------------------------------------

all="backend threads threads-per-device memory help out trace timeline"
training="tf32 quick batch-size lr epochs seed train-size test-size data"
while read -r one flags; do
    command=$one
    "$build/$one" --help >"$log" 2>"$err" || complain "--help: status $?"
    sed -n 's/^  --\([a-z0-9-]*\) .*/\1/p' "$log" | sort >"$out/has"
    echo "$all $flags" | tr ' ' '\n' | sort | diff - "$out/has" >>"$problems"
    "$build/$one" --out= >"$log" 2>"$err"
    [ $? -eq 2 ] && [ ! -s "$log" ] && grep -q "^$one: error: --out" "$err" || complain_of "expected a refusal" "$err"
    verdict "$one has its flags, and refuses a wrong value"
done <<FLAGS
00_devices_and_queues devices machine predict tf32
01_splitting_strategies devices machine predict tf32 batch-size lr seed train-size no-shuffle microbatches pipeline data csv
02_get_params_and_allreduce devices machine predict seed allreduce csv curves
03_split_batch devices machine predict tf32 seed no-shuffle data rows
04_lenet_multi_gpu devices machine predict $training steps no-shuffle allreduce curves load save log-loss csv live
05_resnet18_concise devices machine predict $training full steps no-shuffle allreduce bn experiment load save checkpoint resume csv live
06_data_parallel_and_ddp devices machine predict tf32 batch-size seed train-size data allreduce overlap bucket
07_parameter_servers machine predict $training workers servers staleness backup slow staleness-lr schedule
08_many_machines $training predict train steps no-shuffle ranks-per-host timeout plant checkpoint resume csv
09_what_each_device_keeps devices machine predict tf32 batch-size seed train-size data stage recompute checkpoint resume memory-of
10_a_transformer devices machine predict $training steps no-shuffle csv live width sequence costs
11_a_mesh_of_devices machine predict $training steps no-shuffle csv live width mesh sequence
FLAGS

# ---- what is refused before any work ------------------------------------------------------------------------

fresh
run --backend cpu
expect_refusal 1 "$out/nowhere"
while read -r status_wanted words flags; do
    train $flags
    expect_refusal $status_wanted "$words"
done <<REFUSED
1 65 --train-size 65
1 65 --test-size 65
1 not.a.safetensors.file --load old
1 nowhere/file --save nowhere/file
1 is.not.a.regular.file --csv /dev/full
2 outputs --save plots/${name}_predictions.png
2 read --csv $out/data/t10k-labels-idx1-ubyte
REFUSED
verdict "the data, the parameters, the outputs: what cannot be is refused before any work"

# ---- the same numbers ---------------------------------------------------------------------------------------

for backend in cpu cuda; do
    fresh
    train --devices 1 --steps 0
    if [ $backend = cuda ] && [ $status -ne 0 ]; then
        expect_error 1 'no GPU'
        verdict "--backend cuda without a GPU is refused"
        skip "numbers (cuda)" "no GPU"
        continue
    fi
    train --devices 2 --steps 6 --seed 5 --log-loss a.csv --save a --csv curves.csv
    expect_good
    expect_losses a.csv 6
    expect_curves curves.csv '2,1 2,1.5'
    expect_pictures
    train --devices 2 --steps 6 --seed 5 --log-loss b.csv --save b --threads 1
    expect cmp a.csv b.csv
    expect cmp a b
    train --devices 1 --steps 6 --seed 5 --log-loss one.csv
    expect close one.csv a.csv
    train --devices 1 --steps 4 --seed 6 --load a --log-loss c.csv
    expect_losses c.csv 4
    train --devices 1 --steps 4 --seed 6 --load a --no-shuffle --log-loss d.csv
    train --devices 1 --steps 4 --seed 5 --load a --no-shuffle --log-loss e.csv
    expect cmp d.csv e.csv
    expect different c.csv d.csv
    train --devices 2 --steps 0 --seed 6 --load a --save a
    expect_good
    expect cmp a b
    train --devices 2 --steps 0 --seed 6 --save c
    train --devices 2 --steps 0 --seed 5 --save d
    expect different c d
    verdict "seeds, devices, threads, order, steps, --load and --save ($backend)"

    train --devices 5 --train-size 33 --epochs 2 --log-loss five.csv --csv five_curves.csv
    expect_good
    expect_losses five.csv 6
    expect_curves five_curves.csv '5,1 5,2'
    # An epoch's loss is the mean over its rows, 16, 16 and 1.
    expect awk -F, 'FNR == 1 { file++; next }
        file == 1 { sum[int((FNR - 2) / 3)] += $2 * ((FNR - 2) % 3 == 2 ? 1 : 16) }
        file == 2 { d = $3 - sum[FNR - 2] / 33; if (!(d < 2e-6 && d > -2e-6)) wrong = 1 }
        END { exit wrong || file != 2 }' five.csv five_curves.csv
    train --devices 1 --train-size 33 --epochs 2 --log-loss one.csv
    expect close one.csv five.csv
    train --devices 1 --train-size 33 --epochs 2 --lr 1e-9 --log-loss still.csv # each epoch has another order
    expect [ "$(sed -n '2,4s/.*,//p' still.csv)" != "$(sed -n '5,7s/.*,//p' still.csv)" ]
    verdict "a last minibatch of 1 row on 5 devices: as on 1 ($backend)"

    train --devices 1 --batch-size 64 --lr 1e30 --csv curves.csv --log-loss losses.csv --save saved
    expect_error 1 'step 2 .*lr 1e+30'
    expect_curves curves.csv '1,1'
    expect_losses losses.csv 1
    cp curves.csv before
    train --devices 1 --lr 1e30 --csv curves.csv
    expect_error 1 'step 2'
    expect cmp curves.csv before
    expect no_leftovers
    expect [ ! -e saved ]
    verdict "--lr 1e30 stops, names step and lr, keeps what was done, and what was there ($backend)"
done
backend=cpu

# ---- what is written ----------------------------------------------------------------------------------------

fresh
train --epochs 2
expect_good
expect_curves plots/$name.csv '1,1 1,2 2,1 2,2'
expect_pictures
expect [ "$(find plots -type f | wc -l)" -eq $((5 + ${gnuplot:+2}+0)) ]
cp plots/${name}_predictions.png ../whole.png
verdict "without --devices: both runs, curves and pictures, and nothing else"

# Names that gnuplot would take for a command, for its own input, for a home folder, for a terminal.
for strange in '<touch ran' '|touch ran' - '~' "it's" dumb; do
    fresh
    train --devices 1 --steps 1 "--csv=$strange" --out "far/away/$strange.d"
    expect_good
    expect_curves "./$strange" '1,0.25'
    expect [ ! -e ran ]
    [ ! "$gnuplot" ] || expect is_png "far/away/$strange.d/$name.png"
    verdict "a file with the name $strange, a folder that is made"
done

fresh
for flags in "--backend cpu $small --devices 1 --steps 1" --help '--machine list' '--machine print:dgx-a100'; do
    command="$name $flags >/dev/full"
    "$program" $flags >/dev/full 2>"$out/all_errors"
    status=$?
    without_remarks <"$out/all_errors" >"$err"
    expect_error 1 'standard output'
done
command="$name, with a closed standard output"
"$program" --help >&- 2>"$out/all_errors"
status=$?
without_remarks <"$out/all_errors" >"$err"
expect_error 1 'standard output'
expect grep -q '^hint: it is closed' "$err"
verdict "out of disk: standard output"

# Whose parent ignores SIGPIPE (Python's do, and some CI) is told by the write that nobody reads any more.
for flags in --help "--backend cpu $small --devices 1 --steps 1"; do
    command="$name $flags, whose reader is gone"
    { env --ignore-signal=PIPE sh -c 'sleep 0.3; "$@" 2>all_errors; echo $? >ended' sh "$program" $flags; } | true
    status=$(cat ended)
    without_remarks <all_errors >"$err"
    expect_error 1 'standard output: .*: Broken pipe'
    grep -qi 'disk' "$err" && complain "it blames the disk"
done
verdict "a reader that is gone, where SIGPIPE is ignored"

cp old plots/${name}_predictions.png
(trap '' XFSZ && ulimit -f 25 && train --devices 1 --steps 1) # a full disk, for files of 25 times 512 or 1024 bytes
expect grep -q "^$name: error: .*plots/${name}_predictions.png: cannot write: File too large" "$err"
sleep 1 # a gnuplot that was left behind would write now
expect cmp plots/${name}_predictions.png old
expect no_leftovers
verdict "out of disk: a file while gnuplot draws"

# Little memory: each run ends by itself, well or with an error and a hint. (Sanitizers want more than there is. Shells
# that have no ulimit -v skip this.)
# shellcheck disable=SC3045
if ! (ulimit -v 4000000 && "$program" --help) >/dev/null 2>&1; then
    skip "little memory" "this program wants too much to begin with"
else
    failed= done=
    for limits in '30000 2 2' '40000 1 8' '50000 2 2' '60000 1 8' '80000 1 8' '120000 2 2' '200000 1 8' '500000 2 2'; do
        set -- $limits
        fresh
        (ulimit -v $1 && train --devices $2 --threads $3 --steps 2 --save saved; echo "$status" >limited) 2>/dev/null
        status=$(cat limited) command="$name with $2 devices, $3 threads, under ulimit -v $1"
        [ "$status" -eq 0 ] && done=1 || { # (libraries may say something, too, one for each thread that did not start)
            failed=1
            grep -v -e '^$' -e '^libgomp: ' "$err" | tail -n 2 >last
            cp last "$err"
            expect_error 1 ''
        }
        expect no_leftovers
    done
    expect [ "$failed$done" = 11 ]
    verdict "little memory: an error and a hint, or a good run"
fi

# ---- gnuplot, terminal --------------------------------------------------------------------------------------

# One that is not there; one that fails at the script; one that writes half a picture and does not notice, as the real one
# on a full disk.
for does in nothing 'exit 1' 'for png; do :; done; head -c 5000 ../whole.png >"$png"'; do
    fresh
    printf '#!/bin/sh\ncase $1 in --version | -e) exit 0 ;; esac\n%s\n' "$does" >bin/gnuplot
    path=$here/bin:$PATH
    [ "$does" = nothing ] && path=$here/bin || chmod +x bin/gnuplot
    cp old plots/$name.png
    train --devices 1 --epochs 3 --live
    expect_end 0 1
    expect grep -q gnuplot "$err"
    expect_curves plots/$name.csv '1,1 1,2 1,3'
    expect cmp plots/$name.png old
    expect is_png plots/${name}_predictions.png
    expect no_leftovers
    verdict "a gnuplot that does $does: one warning, and all else is there"
done
path=

if [ ! "$gnuplot" ]; then
    skip "gnuplot: pictures of letters" "no gnuplot"
else
    fresh
    train --devices 1 --epochs 2 --live
    expect_good
    expect [ "$(sed -n 's/^  epoch  *[12]:.*/epoch/p; s/^.*+-----.*/drawing/p' "$log" | uniq | xargs)" = 'epoch drawing epoch drawing' ]
    verdict "--live draws with letters, after the lines of the run"
fi

fresh
if ! script -qec true /dev/null </dev/null >/dev/null 2>&1; then
    skip "a terminal" "no script (util-linux)"
else
    for flags in "--epochs 2" "--lr 1e30"; do
        echo "exec '$program' --backend cpu $small --devices 1 $flags" >go
        timeout 60 script -qec 'sh go' /dev/null </dev/null 2>&1 | tr '\r' '\n' | sed "s/^$(printf '\033')\[K//" >>"$log"
    done
    expect grep -q '^epoch 1/2, loss .*%.* left' "$log"
    expect grep -q "^$name: error: the loss" "$log"
    verdict "a terminal has a progress bar, and an error begins a line of its own"
fi

# ---- Ctrl-C -------------------------------------------------------------------------------------------------

# A shell's background jobs begin with SIGINT ignored; env gives them back what a terminal gives.
defaults='env --default-signal=INT'
$defaults true 2>/dev/null || defaults='env'
fresh
command="$name, and SIGINT"
$defaults "$build/$name" --backend cpu $small --devices 2 --epochs 1000000 --save saved --log-loss losses.csv >"$log" 2>"$out/all_errors" </dev/null &
running=$!
for i in $(seq 150); do grep -q '^2,2,' plots/$name.csv 2>/dev/null && break; sleep 0.2; done
kill -INT $running
wait $running
status=$? running=
without_remarks <"$out/all_errors" >"$err"
expect_end 130 0
expect [ "$(curves plots/$name.csv | tail -c 3)" = ' .' ]
[ ! "$gnuplot" ] || expect is_png plots/$name.png
expect_losses losses.csv "$(grep -c '^[0-9]' losses.csv)"
expect no_leftovers
train --load saved --devices 1 --steps 0
expect_good
verdict "SIGINT: ends with status 130; CSV, PNG, losses and parameters are whole"
echo "1..$tests"
