#!/bin/sh
# chapter_04_test.sh BUILD: what chapter 4 prints of time on modelled machines, and that it prints nothing else where
# devices have no values. (cli_test.sh and defaults_test.sh are about its training.) Prints TAP.
name=04_lenet_multi_gpu
. "$(dirname "$0")/chapter.sh"
cd "$out" || exit 1
run() { run_program --train-size 512 --test-size 40 "$@"; }
good() { [ $status -eq 0 ] && [ ! -s error ]; }
has() { grep -q -e "$1" log; }
bytes='^Bytes: each step moved 1,032,544 bytes between the devices, as the formula says$'

# ---- without values ----------------------------------------------------------------------------------------

run --backend model --graph off --epochs 2 --out model
modelled=$(sed -n 's/^modelled: \([0-9.e-]*\) sec.epoch on 1 device of dgx-a100$/\1/p' log)
good && has '^modelled: .* on 2 devices of dgx-a100$' && has "$bytes" && ! grep -qi -e nan -e acc -e loss -e measured log
verdict $? "--backend model: times and bytes, and nothing that would be a value or a measurement"
pictures=
command -v gnuplot >/dev/null && pictures=${name}_modelled.png
[ "$(echo $(ls model))" = "$(echo ${name}_modelled.csv $pictures)" ] && { [ ! "$pictures" ] || is_png model/$pictures; }
verdict $? "--backend model: one table, one picture, no others"

# In the CSV: one by one, an epoch takes what the training took (three digits are printed). Graphs are faster; eight
# devices, one by one, are slower than one.
awk -F, -v training="$modelled" 'NR == 1 {
        if ($0 != "machine,launches,devices,modelled_seconds_per_epoch,exchange_seconds,launching_seconds") bad = 1
        next }
    NF != 6 || $1 != "dgx-a100" || !($4 > 0) || !($6 > 0 && $6 <= $4) { bad = 1 }
    $3 == 1 && $5 != 0 || $3 > 1 && !($5 > 0 && $5 < $4) { bad = 1 }
    { seconds[$2, $3] = $4 }
    END {
        for (k = 1; k <= 8; k *= 2)
            if (!(seconds["graph", k] < seconds["program", k])) bad = 1
        r = training / seconds["program", 1]
        exit bad || NR != 9 || !(r > 0.99 && r < 1.01) || !(seconds["program", 8] > seconds["program", 1])
    }' model/${name}_modelled.csv
verdict $? "the CSV: the training's time ($modelled), and graphs"
awk '/^Modelled seconds per epoch on dgx-a100: 2 steps of 256 images$/ { rows = 9 } rows-- > 0 && NF == 6 { launches[$1] = $2 }
    END { exit launches[1] != 51 || launches[2] != 2 * 51 + 24 || launches[8] != 8 * 51 + 7 * 24 }' log
verdict $? "the table: a step's launches are counted, twice as many for two devices and 24 for their exchange"

run --backend model --machine dgx-h100 --devices 1024 --steps 2 --out many
good && has '^modelled: .* sec/epoch on 1024 devices of dgx-h100$' && [ ! -e many ]
verdict $? "1024 devices answer, and write nothing"
has 'so only 256 of the 1024 devices have'
verdict $? "devices without images are spoken of"
run --backend model --machine d2l-pcie --epochs 1 --out copies
good && has "$bytes" && ! grep -qi -e nan -e ' -[0-9]' log
verdict $? "a machine on which only copies take time"
run --backend model --machine colab-t4 --devices 1 --steps 1
good && has '^modelled: .* on 1 device of colab-t4$'
verdict $? "a machine of one device"
run --backend model --steps 0 --out none
good && ! grep -qi -e nan -e acc log && [ ! -e none ]
verdict $? "--backend model --steps 0 says nothing of values, either"

for flag in --save --load --log-loss --csv --live; do # status 2, an error and a hint, and nothing else
    run --backend model --out refused $flag $([ $flag = --live ] || echo file)
    [ $status -eq 2 ] && [ ! -s log ] && [ ! -e refused ] && [ "$(wc -l <error)" -eq 2 ] &&
        grep -q "^$name: error: $flag: with --backend model there are no" error && grep -q '^hint: ' error
    verdict $? "--backend model refuses $flag"
done

# ---- with values -------------------------------------------------------------------------------------------

run --backend cpu --threads 2 --threads-per-device 1 --graph off --epochs 2 --out cpu
good && has " sec/epoch on \[cpu:0\]; modelled on dgx-a100: $modelled\$" && cmp -s cpu/${name}_modelled.csv model/${name}_modelled.csv
verdict $? "values or not: the same modelled time of the training, the same table to the last digit"
has '^Time, measured, on 2 devices of 1 core each: ' && has "$bytes" && has '^Parameters: 129,068 numbers, equal to the bit$'
verdict $? "measured times say whose cores; parameters are compared to the bit"
has '^Accuracy: 0\..* on 1 device, 0\..* on 2: nothing is learned yet (0.1 is guessing)$'
verdict $? "two networks that have learned nothing are not praised"
run --backend cpu --machine none --epochs 1 --batch-size 48 --out none
good && ! grep -qi modelled log && [ ! -e none/${name}_modelled.csv ]
verdict $? "--machine none: no modelled time"
has '^Parameters: 129,068 numbers, they differ by up to [0-9.]*e-[0-9]*$'
verdict $? "what is not equal to the bit is not called equal"
has '^Time, measured, on 2 devices .*: too noisy to compare$'
verdict $? "one epoch each: that may be noise, and is not compared"
[ "$(tail -n 3 log | sed 's/:.*//' | tr '\n' ' ')" = "came out to open next " ]
verdict $? "it ends with what came out, what to open, and what is next"
wait_policy() { (unset OMP_WAIT_POLICY; OMP_DISPLAY_ENV=verbose env "$@" "$program" --devices 1 --steps 1 --train-size 8 --out omp 2>&1) |
    sed -n "s/.*\(GOMP_SPINCOUNT\|KMP_BLOCKTIME\) *= *'\(.*\)'/\2/p" | tail -n 1; }
active=$(wait_policy OMP_WAIT_POLICY=active)
[ "$(wait_policy A=1)" = 0 ] && [ "$active" ] && [ "$active" != 0 ]
verdict $? "OpenMP's threads sleep while they wait, unless OMP_WAIT_POLICY says otherwise"
echo "1..$tests"
