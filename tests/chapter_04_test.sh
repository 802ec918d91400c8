#!/bin/sh
# chapter_04_test.sh BUILD: chapter 4's modelled times, and that it says nothing else where devices have no values. (cli_test.sh and defaults_test.sh are about its training.) Prints TAP.
name=04_lenet_multi_gpu
. "$(dirname "$0")/chapter.sh"
cd "$out" || exit 1
run() { run_program --train-size 512 --test-size 40 "$@"; }
good() { [ $status -eq 0 ] && [ ! -s error ]; }
has() { tr -s ' \n' ' ' <log | grep -q -e "$1"; }

# ---- without values ----------------------------------------------------------------------------------------

run --backend model --graph off --epochs 2 --out model
good && [ "$(grep -c '^modelled: .* of dgx-a100$' log)" -eq 2 ]
verdict $? "--backend model: two runs, each with its modelled time"
! grep -qi -e nan -e 'accuracy' -e 'test acc' -e 'loss' -e 'measured)' log
verdict $? "--backend model: nothing that would be a value or a measurement"
has 'Bytes: each step moved 1,032,544 bytes'
verdict $? "--backend model: bytes are compared"
ls model >files
if command -v gnuplot >/dev/null; then
    printf '%s\n' ${name}_modelled.csv ${name}_modelled.png | cmp -s - files && is_png model/${name}_modelled.png
    verdict $? "--backend model: one table, one picture, no others"
else
    skip "--backend model: one table, one picture, no others" "no gnuplot"
fi

# One by one: a training takes what the table says of so many steps (as printed, with three digits).
modelled=$(sed -n 's/^modelled: \([0-9.e-]*\) sec.epoch on 1 device of .*/\1/p' log)
awk -F, -v training="$modelled" '$2 == "program" && $3 == 1 { found = 1; r = training / $4; bad = !(r > 0.99 && r < 1.01) }
    END { exit bad || !found }' model/${name}_modelled.csv
verdict $? "the table's epoch is that of the training ($modelled)"

is_table() { # FILE MACHINE
    awk -F, -v machine="$2" 'NR == 1 {
            if ($0 != "machine,launches,devices,modelled_seconds_per_epoch,exchange_seconds,launching_seconds,busy_seconds") bad = 1
            next }
        NF != 7 || $1 != machine || !($4 > 0) || !($6 > 0 && $6 <= $4) || !($7 > 0 && $7 <= $4) { bad = 1 }
        $3 == 1 && $5 != 0 || $3 > 1 && !($5 > 0 && $5 < $4) { bad = 1 }
        { seconds[$2, $3] = $4 }
        END {
            for (k = 1; k <= 8; k *= 2)
                if (!(seconds["graph", k] < seconds["program", k]) || k > 1 && !(seconds["program", k] < seconds["framework", k])) bad = 1
            exit bad || NR != 13 || !(seconds["framework", 2] > seconds["framework", 1])
        }' "$1"
}
is_table model/${name}_modelled.csv dgx-a100
verdict $? "the table: graphs launch least, a framework most, and its second device makes it slower"

awk '/^ +[1248] +[0-9.]+ +[0-9]+ / { launches = launches " " $3 } END { exit launches != " 35 94 212 448" }' log
verdict $? "launches of a framework's step are counted: 35 on one device; on k, 35 k and those of the exchange"

run --backend model --machine dgx-h100 --devices 1024 --steps 2 --out many
good && grep -q '^modelled: .* sec/epoch on 1024 devices of dgx-h100$' log && [ ! -e many ]
verdict $? "1024 devices answer, and write nothing"
has 'so only 256 of the 1024 devices have any'
verdict $? "devices without images are spoken of"
run --backend model --machine d2l-pcie --epochs 1 --out copies
good && awk '/^ +[124] +[0-9.]+ +[0-9]+ / { rows++; if (!($2 == $5 && $4 == 0)) bad = 1 } END { exit bad || rows != 3 }' log
verdict $? "where only copies take time, it does not matter who launches"
run --backend model --steps 0 --out none
good && ! grep -qi -e nan -e acc log && [ ! -e none ]
verdict $? "--backend model --steps 0 says nothing of values, either"
run --backend model --machine colab-t4 --devices 1 --steps 1
good && grep -q '^modelled: .* on 1 device of colab-t4$' log
verdict $? "a machine of one device"

refused() { # FLAG..: status 2, an error and a hint, and nothing else
    run --backend model --out refused "$@"
    [ $status -eq 2 ] && [ ! -s log ] && [ ! -e refused ] && [ "$(wc -l <error)" -eq 2 ] &&
        grep -q "^$name: error: $1: with --backend model there are no" error && grep -q '^hint: ' error
    verdict $? "--backend model refuses $1"
}
for flag in --save --load --log-loss --csv; do refused $flag file; done
refused --live

# ---- with values -------------------------------------------------------------------------------------------

run --backend cpu --threads 2 --threads-per-device 1 --graph off --epochs 2 --out cpu
good && [ "$(sed -n 's/^test acc.* on \[cpu:0\]; modelled on dgx-a100: //p' log)" = "$modelled" ]
verdict $? "values or not: the same modelled time of the training"
cmp -s cpu/${name}_modelled.csv model/${name}_modelled.csv
verdict $? "values or not: the same table, to the last digit"
[ "$(grep -c '^  epoch .*train loss .* sec$' log)" -eq 4 ] && has 'Time, measured.* 2 devices of 1 core each' && has 'on 2 (0.1 is guessing); parameters equal'
verdict $? "what is measured, with whose cores; and two networks that have learned nothing are not praised"
[ "$(sed -n 's/^\(came out\|to open\|next\): .*/\1/p' log | tr '\n' ' ')" = "came out to open next " ] || ! command -v gnuplot >/dev/null
verdict $? "it ends with what came out, what to open, and what is next"
run --backend cpu --machine none --epochs 1 --out none
good && ! grep -qi modelled log && [ ! -e none/${name}_modelled.csv ] && has 'Time, measured, on 2 devices .*: too noisy to compare'
verdict $? "--machine none: no modelled time; one epoch each may be noise, and is not compared"
wait_policy() { (unset OMP_WAIT_POLICY; OMP_DISPLAY_ENV=verbose env "$@" "$program" --devices 1 --steps 1 --train-size 8 --out omp 2>&1) |
    sed -n "s/.*\(GOMP_SPINCOUNT\|KMP_BLOCKTIME\) *= *'\(.*\)'/\2/p" | tail -n 1; }
active=$(wait_policy OMP_WAIT_POLICY=active)
[ "$(wait_policy A=1)" = 0 ] && [ "$active" ] && [ "$active" != 0 ]
verdict $? "OpenMP's threads sleep while they wait, unless OMP_WAIT_POLICY says otherwise"
echo "1..$tests"
