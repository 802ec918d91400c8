#!/bin/sh
# chapter_07_test.sh BUILD: chapter 7 runs, its checks pass, and it prints what its text and questions speak of. Prints
# TAP.
name=07_parameter_servers
. "$(dirname "$0")/chapter.sh"
run() { run_program --out "$out" --train-size 1024 --test-size 200 "$@"; }
row() { grep -e "^  $1 " "$out/log" | head -n 1; }

run --epochs 2 # the rest as a reader has it
verdict $? "ends without an error"
[ ! -s "$out/error" ] && ! grep -q 'nan' "$out/log"
verdict $? "says nothing on stderr, and prints no NaN"
is_png "$out/${name}_exchange.png" && is_png "$out/${name}_disciplines.png"
verdict $? "two pictures"
row 'SGD, sum (the text)' | grep -q ' 4\.0000 ' && row 'SGD, mean' | grep -q ' 1\.0000 ' && row 'Adam, sum (the text)' | awk '{ exit !($5 > 0.9 && $5 < 1.2) }'
verdict $? "a sum of 4 towers moves 4 times as far with SGD, and as far with Adam"
grep -q 'to the bit' "$out/log"
verdict $? "synchronous training has the bits of chapter 4"
row 'the host of W towers' | grep -q ' 4130176 ' && row 'device 0 of a star' | grep -q ' 3097632 ' && row 'a worker' | grep -q ' 1032544 ' && row 'server 0 of 1' | grep -q ' 4130176 '
verdict $? "bytes of towers, star, server and worker"
awk '/^ *[0-9]+ +[0-9]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+$/ { rows++; if (!($5 >= 0.999 && $5 < 1.5)) bad++ } END { exit !(rows >= 10 && bad == 0) }' "$out/log"
verdict $? "an exchange takes as long as the formula says at least, and not half as long again"
[ "$(grep -c '^   -> ' "$out/log")" -eq 3 ]
verdict $? "the text's three sentences are answered"
seconds() { row "$1" | awk '{ print $(NF - 2) }'; }
sync=$(seconds synchronous) async=$(seconds asynchronous) ssp=$(seconds 'SSP 3') backup=$(seconds '1 backup')
awk -v s="$sync" -v a="$async" -v p="$ssp" -v b="$backup" 'BEGIN { exit !(a < s && p < 1.05 * s && p > a && b < s) }'
verdict $? "modelled times: asynchronous ($async) before SSP 3 ($ssp) and synchronous ($sync); backup workers ($backup)"
cp "$out/${name}_disciplines.csv" "$out/first.csv"
run --epochs 2 && cmp -s "$out/${name}_disciplines.csv" "$out/first.csv"
verdict $? "the same accuracies and times in the next run"

run --staleness 2 --epochs 1 --schedule "$out/schedule" && grep -q 'written' "$out/log" && row 'SSP 2' >"$out/row" &&
    run --staleness 2 --epochs 1 --schedule "$out/schedule" && grep -q 'replayed' "$out/log" && row 'SSP 2' | cmp -s - "$out/row"
verdict $? "--schedule writes, and replays to the same figures"
run --backup 1 --workers 8 --servers 3 --epochs 1 && row '1 backup' | awk '{ exit !($4 > 0) }'
verdict $? "--backup 1 --workers 8: pushes are dropped"
run --staleness 0 --slow 0=10 --epochs 1 --workers 2 --servers 1 && row synchronous | grep -q ' 0.00,  0 '
verdict $? "--slow, and synchronous pushes are not stale"
run --staleness 1000000 --staleness-lr --epochs 1
verdict $? "--staleness-lr"
run --dies 1=3 --staleness 5 --epochs 1 && grep -q 'Worker 1 had not pushed its step 3 within' "$out/log"
verdict $? "--dies: the others go on"
run --dies 1=3 --staleness 0 --epochs 1
status=$?
[ $status -eq 1 ] && grep -q 'error: worker 1 has not pushed its step 3 within' "$out/error" && grep -q 'hint: ' "$out/error"
verdict $? "--dies: synchronous training ends, and names it"
run --real --epochs 1 && grep -q '64 pushes, each applied at 2 servers: 128 in all' "$out/log"
verdict $? "--real: every push is applied once"
run --real --epochs 1 --workers 1 --servers 1 && grep -q 'Mean staleness 0.00' "$out/log"
verdict $? "--real with one worker: nothing is stale"
run --workers 1 --epochs 1
verdict $? "one worker"
run --machine cluster-10gbe --epochs 1 --workers 3 --servers 3 --batch-size 50
verdict $? "another machine, other numbers"
run --backend model && [ "$(grep -c 'training' "$out/log")" -eq 0 ] && is_png "$out/${name}_exchange.png" && ! grep -q 'nan' "$out/log"
verdict $? "--backend model: the exchanges, and no values"
for wrong in '--workers 0' '--backend model --real' '--servers 33' '--slow 4=2' '--slow 0=0.5' '--slow x' '--dies 1' '--dies 9=1' '--dies 1=1.5' '--staleness 1 --backup 1' \
    '--backup 4' '--machine none' '--machine colab-t4' '--batch-size 2' '--batch-size 2000' '--schedule /nonexistent/dir/file' '--devices 2'; do
    # shellcheck disable=SC2086
    run $wrong
    status=$?
    [ $status -ne 0 ] && grep -q 'error: ' "$out/error" && grep -q 'hint: ' "$out/error"
    verdict $? "$wrong is refused"
done
echo 'nonsense' >"$out/bad"
run --schedule "$out/bad" --staleness 1
[ $status -eq 1 ] && grep -q 'bad:1: not four fields' "$out/error"
verdict $? "a file that is no schedule"
echo "1..$tests"
