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
row 'SGD, sum (the text)' | grep -q ' 4\.0000 ' && row 'SGD, mean' | grep -q ' 1\.0000 ' && row 'Adam, sum (the text)' | awk '{ exit !($6 > 0.9 && $6 < 1.2) }'
verdict $? "a sum of 4 towers moves 4 times as far with SGD, and as far with Adam"
grep -q 'to the bit' "$out/log"
verdict $? "synchronous training has the bits of chapter 4"
row 'the host of W towers' | grep -q ' 4,130,176 ' && row 'device 0 of a star' | grep -q ' 3,097,632 ' && row 'a worker' | grep -q ' 1,032,544 ' && row 'server 0 of 1' | grep -q ' 4,130,176 ' &&
    row 'worker and server in one' | grep -q ' 1,548,816 ' && row 'a device of a ring' | grep -q ' 1,548,816 '
verdict $? "bytes of towers, star, server and worker; who is both has a ring's"
awk '/^ *[0-9]+ +[0-9]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+$/ { rows++; if (!($5 >= 0.999 && $5 < 1.5)) bad++ } END { exit !(rows >= 10 && bad == 0) }' "$out/log"
verdict $? "an exchange takes as long as the formula says at least, and not half as long again"
[ "$(grep -c '^   -> ' "$out/log")" -eq 3 ]
verdict $? "the text's three sentences are answered"
seconds() { row "$1" | awk '{ print $(NF - 2) }'; }
sync=$(seconds synchronous) async=$(seconds asynchronous) ssp=$(seconds 'SSP 3') backup=$(seconds '1 backup')
awk -v s="$sync" -v a="$async" -v p="$ssp" -v b="$backup" 'BEGIN { exit !(a < s && p < 1.05 * s && p > a && b < s) }'
verdict $? "modelled times: asynchronous ($async) before SSP 3 ($ssp) and synchronous ($sync); backup workers ($backup)"
[ "$(grep -c ' of 129068 parameters' "$out/log")" -eq 1 ] && tr -s ' \n' ' ' <"$out/log" | grep -q '64 pushes: 0 of 129068 parameters differ .* 0 of 128 pulls were torn' &&
    row modelled | grep -q '(modelled)$' && row 'for real' | grep -q '(measured)$'
verdict $? "for real: every push once and as a whole, and a training beside the modelled one"
awk '/^  lr\/8 for each push/ { shared = $NF } /^  the full lr/ { full = $NF } END { exit !(full > 0 && full < shared) }' "$out/log"
verdict $? "eight asynchronous workers: the full learning rate is worse than lr/8"
points() { awk -F, -v way="$1" '$6 == way && $9 >= $10 && $9 <= $11' "$out/${name}_disciplines.csv" | wc -l; }
[ "$(points synchronous)" -eq 10 ] && [ "$(points 'SSP 1')" -eq 10 ] && [ "$(points '1 backup')" -eq 10 ]
verdict $? "ten points of each way, the mean between the least and the most"
cp "$out/${name}_disciplines.csv" "$out/first.csv"
row '1 backup' >"$out/backup"
run --epochs 2 && cmp -s "$out/${name}_disciplines.csv" "$out/first.csv"
verdict $? "the same accuracies and times in the next run"
run --epochs 2 --backup 1 && [ "$(row '1 backup' | awk '{ print $3 }')" -eq "$(awk '{ print $3 }' "$out/backup")" ]
verdict $? "one way alone has as many pushes as in the table"

# What follows is about who comes when, not about what is learned.
short() { run --train-size 512 --epochs 1 "$@"; }
nothing_stale() { row synchronous | grep -q ' 0\.00  *0 ' && row '1 backup' | grep -q ' 0\.00  *0 '; }
short --workers 8 && nothing_stale && [ "$(grep -c '^   -> ' "$out/log")" -eq 3 ]
verdict $? "--workers 8: the whole program, and in rounds nothing is stale"
short --servers 1 && nothing_stale && [ "$(grep -c '^   -> ' "$out/log")" -eq 3 ]
verdict $? "--servers 1: the whole program, and in rounds nothing is stale"
tr -s ' \n' ' ' <"$out/log" | grep -q 'Here it is less: between its push and its pull'
verdict $? "one server for four workers: less stale than N-1, and the reason"
short --slow 0=1 && grep -q 'No worker is slow' "$out/log" && ! grep -q 'slow worker' "$out/log"
verdict $? "--slow 0=1: nobody is slow, and no words of a slow one"
short --workers 1 && grep -q '^Four ways to wait, 1 worker, ' "$out/log" && is_png "$out/${name}_disciplines.png" && [ ! -s "$out/error" ]
verdict $? "--workers 1: four ways"
for flags in '--staleness 0 --workers 8' '--staleness 0 --workers 8 --servers 1' '--backup 0 --servers 1'; do
    # shellcheck disable=SC2086
    short $flags && row synchronous | grep -q ' 0\.00  *0 '
    verdict $? "$flags: nothing is stale"
done
short --backup 1 --workers 8 && row '1 backup' | grep -q ' 0\.00  *0 '
verdict $? "--backup 1 --workers 8: nothing is stale"

run --staleness 2 --epochs 1 --schedule "$out/schedule" && grep -q 'written' "$out/log" && row 'SSP 2' >"$out/row" &&
    run --staleness 2 --epochs 1 --schedule "$out/schedule" && grep -q 'replayed' "$out/log" && row 'SSP 2' | cmp -s - "$out/row"
verdict $? "--schedule writes, and replays to the same figures"
refused_schedule() { # WORDS FLAGS: the schedule above is of another run
    words=$1
    shift
    run --epochs 1 --schedule "$out/schedule" "$@"
    [ $status -eq 1 ] && grep -q "error: .*schedule:1: it was made with $words" "$out/error" && grep -q 'hint: ' "$out/error"
    verdict $? "a schedule of another run: $words"
}
refused_schedule 'staleness 2, and this run has 0' --staleness 0
refused_schedule 'staleness 2, and this run has none'
refused_schedule 'staleness 2, and this run has 0' --backup 1
refused_schedule 'workers 4, and this run has 5' --staleness 2 --workers 5
refused_schedule 'slow 1,1,1,4, and this run has 3,1,1,1' --staleness 2 --slow 0=3
refused_schedule 'seed 0, and this run has 1' --staleness 2 --seed 1
refused_schedule 'steps 16, and this run has 32' --staleness 2 --epochs 2
head -n 9 "$out/schedule" >"$out/part"
run --staleness 2 --epochs 1 --schedule "$out/part"
[ $status -eq 1 ] && grep -q 'part: [0-9]* pushes, and not 64' "$out/error"
verdict $? "a part of a schedule"
run --staleness inf --epochs 1 --schedule "$out/long" --slow 0=300 --train-size 8192 --batch-size 32 && row asynchronous | awk '{ exit !($5 > 256) }'
verdict $? "a push that is staler than the histogram has room for counts as it is"
run --backup 1 --workers 8 --servers 3 --epochs 1 && row '1 backup' | awk '{ exit !($4 > 0) }'
verdict $? "--backup 1 --workers 8: pushes are dropped"
run --staleness 0 --slow 0=10 --epochs 1 --workers 2 --servers 1 && row synchronous | grep -q ' 0\.00  *0 '
verdict $? "--slow, and synchronous pushes are not stale"
run --staleness 1000000 --epochs 1 && row SSP >"$out/row" && run --staleness 1000000 --staleness-lr --epochs 1 &&
    row SSP | grep -q . && ! row SSP | cmp -s - "$out/row"
verdict $? "--staleness-lr: a stale push counts for less, so other parameters come out"
run --dies 1=3 --staleness 5 --epochs 1 && grep -q 'Worker 1 has not pushed its step 3 within' "$out/log"
verdict $? "--dies: the others go on"
run --dies 3=9 --backup 1 --epochs 2 --slow 0=1 && grep -q 'Worker 3 has not pushed its step \(9\|1[0-9]\) within' "$out/log"
verdict $? "--dies with backup workers: step 9, or the first after it that it begins"
run --dies 2=999 --epochs 1 && grep -q 'never came to its step 999' "$out/log"
verdict $? "--dies: if it never comes to that step, it is said"
for real in '' --real; do
    # shellcheck disable=SC2086
    run --dies 0=3 --workers 1 --epochs 1 $real
    [ $status -eq 1 ] && grep -q 'there are no others' "$out/error"
    verdict $? "--dies $real: there must be others"
done
run --dies 1=3 --real --epochs 1 && tr -s ' \n' ' ' <"$out/log" | grep -q '64 pushes, each applied at 2 servers: 128 in all. Worker 1 has not pushed'
verdict $? "--dies --real: the others make all pushes"
run --real --workers 2 --batch-size 1024 --epochs 2 --slow 1=20 && ! grep -q 'given up' "$out/log"
verdict $? "--real: who is slow is not given up"
run --staleness 1 --epochs 1 --lr 1e30
[ $status -eq 1 ] && grep -q 'is not a number any more' "$out/error"
verdict $? "a learning rate with which numbers overflow"
run --dies 1=3 --staleness 0 --epochs 1
status=$?
[ $status -eq 1 ] && grep -q 'error: worker 1 has not pushed its step 3 within' "$out/error" && grep -q 'hint: ' "$out/error"
verdict $? "--dies: synchronous training ends, and names it"
run --real --epochs 1 && grep -q '64 pushes, each applied at 2 servers: 128 in all' "$out/log"
verdict $? "--real: every push is applied once"
run --real --epochs 1 --workers 1 --servers 1 && row 'for real' | grep -q ' 0\.00,   0 '
verdict $? "--real with one worker: nothing is stale"
run --machine cluster-10gbe --epochs 1 --workers 3 --servers 3 --batch-size 50
verdict $? "another machine, other numbers"
run --backend model && [ "$(grep -c 'training' "$out/log")" -eq 0 ] && is_png "$out/${name}_exchange.png" && ! grep -q 'nan' "$out/log"
verdict $? "--backend model: the exchanges, and no values"
for wrong in '--real --staleness 1' '--real --backup 1' '--real --staleness-lr' '--real --schedule x' '--staleness 0 --staleness-lr' '--backup 1 --staleness-lr' '--staleness 2 --backup 0' \
    '--slow 4=4' '--slow 0=nan' '--slow 0=inf' '--staleness infinite' '--dies 1=-1' '--workers 0' '--backend model --real' '--servers 33' '--slow 4=2' '--slow 0=0.5' '--slow x' '--dies 1' '--dies 9=1' '--dies 1=1.5' '--staleness 1 --backup 1' \
    '--backup 4' '--machine none' '--machine colab-t4' '--batch-size 2' '--batch-size 2000' '--devices 2'; do
    # shellcheck disable=SC2086
    run $wrong
    status=$?
    [ $status -eq 2 ] && grep -q 'error: ' "$out/error" && grep -q 'hint: ' "$out/error"
    verdict $? "$wrong is refused"
done
echo 'nonsense' >"$out/bad"
run --schedule "$out/bad" --staleness 1
[ $status -eq 1 ] && grep -q 'bad:1: not the first line of a schedule' "$out/error"
verdict $? "a file that is no schedule"
run --schedule "$out" --staleness 1
[ $status -eq 1 ] && grep -q 'cannot be read' "$out/error"
verdict $? "a folder is no schedule"
run --schedule /nonexistent/dir/file
[ $status -eq 1 ] && grep -q 'error: ' "$out/error" && grep -q 'hint: ' "$out/error"
verdict $? "a schedule that cannot be written"
echo "1..$tests"
