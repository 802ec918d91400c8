#!/bin/sh
# chapter_07_test.sh BUILD: chapter 7's numbers: bytes, staleness, modelled times, who dies; and flags do what they say.
# (Schedules, servers and real workers by themselves: test_servers.c.) Prints TAP.
name=07_parameter_servers
. "$(dirname "$0")/chapter.sh"
small_data_set 1024 200
ways=plots/${name}_disciplines.csv

works --train-size 1024 --test-size 200
log_rows <<'ROWS'
SGD, sum [(]the text[)] | 1 4.0000
SGD, mean | 1 1.0000
Adam, sum [(]the text[)] | 5 0.9..1.2
the host of W towers | 4,130,176
device 0 of a star | 3,097,632
a device of a ring | 1,548,816
server 0 of 1 | 4,130,176
a worker | 1,032,544
worker and server in one | 1,548,816
synchronous | 128 0 0.00 0
1 backup | 100..128 1..99 0.00 0
modelled | 128 * * * * (modelled)
for real | 128 * * * * (measured)
ROWS
has '64 pushes: 0 of 129068 parameters differ .* 0 of 128 pulls were torn' 'parameters are to the bit those of chapter 4'
verdict "the tables: towers, bytes, staleness; for real, each push once and as a whole"
figures plots/${name}_exchange.csv 'NR > 1 && !($4 >= 0.999 * $5 && $4 < 1.5 * $5) { print } END { if (NR < 11) print NR }'
verdict "an exchange takes as long as the formula says at least, and not half as long again"
# Ten points of each way, the mean between the least and the most; at the last point, when:
figures $ways 'NR > 1 { n[$6]++; s[$6] = $8; if (!($9 >= $10 && $9 <= $11)) print }
    END { for (way in n) if (n[way] != 10) print way, n[way]
        sync = s["synchronous"]; async = s["asynchronous"]
        if (!(async > 0 && async < sync && s["SSP 3"] < 1.05 * sync && s["SSP 3"] > async && s["1 backup"] < sync)) print sync, async, s["SSP 3"], s["1 backup"] }'
figures log '/^   -> / { answers++ } /^  lr.8 for each push/ { shared = $NF } /^  the full lr/ { full = $NF }
    END { if (answers != 3 || !(full > 0 && full < shared)) print answers, full, shared }'
is_png plots/${name}_exchange.png plots/${name}_disciplines.png
verdict "modelled times by discipline; with eight workers the full learning rate is worse than lr/8; pictures"
sed -n 's/^  1 backup  *\([0-9]*  *[0-9]*\) .*/1 backup | \1 0.00 0/p' log | head -n 1 >backup
works --train-size 1024 --test-size 200 --backup 1
log_rows <backup
verdict "one way alone has as many pushes as in the table"

# What follows is about who comes when, not about what is learned.
run() { run_program --train-size 256 --test-size 50 --epochs 1 "$@"; }
nothing_stale() { # WAY..
    for way; do echo "$way | * * 0.00 0"; done | log_rows
}
works --workers 8
nothing_stale synchronous '1 backup'
works --servers 1 --slow 0=1
nothing_stale synchronous '1 backup'
echo 'asynchronous | 16 0 0.01..2.99' | log_rows # one server keeps four workers waiting: less stale than N-1
lacks 'slow worker'
verdict "--workers 8, --servers 1: the whole program, and in rounds nothing is stale"
works --workers 1
has 'Four ways to wait, 1 worker, '
verdict "--workers 1: four ways"
for flags in '--staleness 0 --workers 8 --servers 1' '--staleness 0 --slow 0=10 --workers 2' '--backup 0' '--backup 1 --workers 8'; do
    works $flags
    case $flags in *backup\ 1*) nothing_stale '1 backup' ;; *) nothing_stale synchronous ;; esac
    verdict "$flags: nothing is stale"
done
works --staleness 2
grep '^  SSP 2 ' log >row
for goal in written replayed; do
    works --staleness 2 --schedule schedule
    has $goal
    grep '^  SSP 2 ' log | cmp - row >>problems
done
verdict "--schedule writes, and replays: the same figures as without"
works --staleness 1000000
grep '^  SSP ' log >row && works --staleness 1000000 --staleness-lr && ! grep '^  SSP ' log | cmp -s - row
verdict $? "--staleness-lr: a stale push counts for less, so other parameters come out"

while IFS='|' read -r text flags; do
    works $flags
    has "${text% }"
    verdict "$flags"
done <<'RUNS'
Worker 1 has not pushed its step 3 within | --dies 1=3 --staleness 5 --epochs 2
Worker 3 has not pushed its step [19][0-9]* within | --dies 3=9 --backup 1 --epochs 3 --slow 0=1
never came to its step 999 | --dies 2=999
16 pushes, each applied at 2 servers: 32 in all. Worker 1 has not pushed | --dies 1=2 --real
for real 8 0.00, 0 | --real --workers 1 --epochs 2
Five ways to wait, 3 workers, 3 servers | --machine cluster-10gbe --workers 3 --servers 3 --batch-size 50
RUNS
works --backend model
lacks training
is_png plots/${name}_exchange.png
verdict "--backend model: the exchanges, and no values"

echo nonsense >bad
refusals <<'ROWS'
1 it was made with seed 0, and this run has 1 | --staleness 2 --schedule schedule --seed 1
1 bad:1: not the first line | --schedule bad --staleness 1
1 cannot be read | --schedule plots
1 | --schedule nowhere/file
1 there are no others | --dies 0=1 --workers 1; --dies 0=1 --workers 1 --real
1 is not a number any more | --staleness 1 --lr 1e30
1 worker 1 has not pushed its step 2 within | --dies 1=2 --staleness 0
2 | --real --staleness 1; --real --backup 1; --real --staleness-lr; --real --schedule x; --backend model --real
2 | --staleness 0 --staleness-lr; --backup 1 --staleness-lr; --staleness 2 --backup 0; --staleness infinite; --backup 4
2 | --slow 4=4; --slow 0=nan; --slow 0=inf; --slow 0=0.5; --slow x; --dies 1=-1; --dies 1; --dies 9=1; --dies 1=1.5
2 | --workers 0; --servers 33; --machine none; --machine colab-t4; --batch-size 2; --batch-size 2000; --devices 2
ROWS
echo "1..$tests"
