#!/bin/sh
# chapter_00_test.sh BUILD: chapter 0 runs, its own checks pass, and it prints what its questions ask about:
# modelled times, bytes, gradients, and the picture. Prints TAP.
name=00_devices_and_queues
. "$(dirname "$0")/chapter.sh"
run() { run_program --out "$out" "$@"; }
row() { grep -e "^  $1 " "$out/log" | head -n 1; }

main_run
verdict $? "ends without an error"
[ ! -s "$out/error" ] && ! grep -q 'nan\|inf' "$out/log"
verdict $? "says nothing on stderr, and prints no NaN"
! awk 'length > 100' "$out/log" | grep -q .
verdict $? "no line is too long for a page"

grep -q 'asked after synchronize(): yes' "$out/log" && [ "$(grep -c '^  ok: ' "$out/log")" -eq 3 ]
verdict $? "who waits finds the work done, and the sum is right"
# The last two columns are modelled: enqueued, done.
[ "$(row 'all, side by side' | awk '{ print $(NF - 1) }')" = "$(row 'all, one after the other' | awk '{ print $(NF - 1) }')" ]
verdict $? "the host enqueues both ways as fast"
sooner() { # the column of the modelled time, and that of the measured one: the host is done before the devices are
    row 'all, side by side' | awk -v kind="$1" '{ exit !($(NF - 1 - kind) < $(NF - kind)) }'
}
sooner 0 && sooner 2
verdict $? "to enqueue takes less time than to compute"
alone=$(row 'device 0 alone' | awk '{ print $NF }')
row 'all, side by side' | awk -v alone="$alone" '{ exit !($NF >= alone && $NF < 1.1 * alone) }' &&
    row 'all, one after the other' | awk -v alone="$alone" '{ exit !($NF > 1.9 * alone && $NF < 2.1 * alone) }'
verdict $? "modelled: two devices take as long as one side by side, and twice as long one after the other"

[ "$(grep -c ': 4,194,304 bytes' "$out/log")" -eq 2 ] && grep -q ' to host: 4 bytes' "$out/log"
verdict $? "the ledger's bytes: a matrix to a device and to the host, and a sum"
tr -d ' \n' <"$out/log" >"$out/joined"
grep -q 'step1:thearenagave\([0-9]*\)bytesloss6gradientbyW:\[\[1.,0.\],\[2.,0.\],\[3.,0.\]\]on[a-z]*:[0-9#]*step2:thearenagave\1bytes,andhiswhereitwasinstep1loss4.6' "$out/joined"
verdict $? "the tape's gradient, the update, and the arena's memory once more"
[ "$(png_size "$out/plots/00_devices_and_queues.png")" = "1900 1052" ] # two lanes four times
verdict $? "the picture"

run --devices 1 && grep -q '^  \(cpu\|cuda\):0 to \(cpu\|cuda\):0: 0 bytes' "$out/log" && grep -q 'nobody to wait for' "$out/log"
verdict $? "--devices 1: a copy within a device crosses nothing"
run --devices 3 --backend cpu --machine none && ! grep -q 'nan' "$out/log" && grep -q 'not modelled' "$out/log"
verdict $? "--devices 3 --machine none: measured times only"
run --devices 8 --backend model && ! grep -q 'nan' "$out/log" && grep -q 'have no values' "$out/log" &&
    grep -q 'not measured' "$out/log" && ! grep -q 'loss [0-9]' "$out/log"
verdict $? "--backend model: it runs through, and shows no values"
alone=$(row 'device 0 alone' | awk '{ print $NF }')
row 'all, side by side' | awk -v alone="$alone" '{ exit !($NF > 1.02 * alone && $NF < 1.15 * alone) }'
verdict $? "on 8 devices side by side takes a little longer, as question 4 says"
cp "$out/log" "$out/first"
run --devices 8 --backend model && cmp -s "$out/log" "$out/first"
verdict $? "modelled times are the same in every run"
run --devices 8 --machine p100-25gbe --backend model && row 'all, side by side' | grep -q .
verdict $? "another machine"

run --help && grep -q -e '--devices K' "$out/log" && ! grep -q -e '--lr' -e '--quick' "$out/log"
verdict $? "--help"
for wrong in '--devices 0' '--devices two' '--devices 9 --machine d2l-pcie' '--epochs 1' '--backend model --machine none'; do
    # shellcheck disable=SC2086
    run $wrong
    status=$?
    [ $status -ne 0 ] && [ ! -s "$out/log" ] && grep -q 'error: ' "$out/error" && grep -q 'hint: ' "$out/error"
    verdict $? "$wrong is refused"
done
run --backend model --predict && cp "$out/log" "$out/second" && run --backend model && cmp -s "$out/log" "$out/second"
verdict $? "--predict is silent without a terminal"
run --backend model --timeline "$out/00_devices_and_queues.png"
status=$?
[ $status -ne 0 ] && grep -q 'error: ' "$out/error"
verdict $? "two pictures in one file are refused"
echo "1..$tests"
