#!/bin/sh
# chapter_07_test.sh BUILD: chapter 7's numbers: staleness, modelled times, rates; table, CSV and figure agree; flags do
# what they say. (Schedules, servers, bytes and torn pulls by themselves: test_servers.c.) Prints TAP.
name=07_parameter_servers
. "$(dirname "$0")/chapter.sh"
small_data_set 1024 200
ways=plots/${name}_disciplines.csv

works --train-size 1024 --test-size 200
log_rows <<'ROWS'
modelled: synchronous | * ms, asynchronous * ms
synchronous | 0 0.00 0
asynchronous | 0 2.5..3 5..20
SSP 1 | 0 0.1..2 1..6
SSP 3 | 0 0.1..2 3..12
1 backup | 1..99 0.00 0
1 worker is slow | 40..44 12..13 40..42 37..40 14..15 14..15
1 step in 10 is slow | 20..23 12..15 14..18 12..15 17..21 -
a worker computes, ms | 0.2..0.3 0.5..1.5
a push or a pull, ms | 0.03..0.04 4..5
one worker is slow | 3.2..3.5 3.4..3.9
only its GPU is slow | 2.7..2.9 1.5..1.8
all equally fast | 1.1..1.2 1.4..1.9
and links never busy | 1..1.1 1..1.1
one server | 1024 0 2048 0
all servers together | 1024 0 1024 1..1024
4 workers | 128 1..4
SGD | 4.000
Adam | 0.8..1.2
ROWS
has 'parameters, bit-identical to chapter 4'
verdict "the tables: staleness, machines, each push once and as a whole (and the planted torn pulls are found), towers"
figures plots/${name}_exchange.csv 'NR > 1 && !($4 >= 0.999 * $5 && $4 < 1.5 * $5) { print } END { if (NR < 11) print NR }'
verdict "an exchange takes as long as the formula says at least, and not half as long again"
# Eight points of each way, the mean between the least and the most. The last point has the table's time and accuracy.
figures $ways 'NR > 1 { n[$6]++; s[$6] = $8; p[$6] = $7; if (!($9 >= $10 && $9 <= $11)) print }
    END { for (way in n) if (n[way] != 8) print way, n[way]
        for (way in p) if (p[way] > 128 || p[way] < (way == "1 backup" ? 100 : 128)) print way, p[way]
        sync = s["synchronous"]; async = s["asynchronous"]
        if (!(async > 0 && sync > 3 * async && s["SSP 3"] < 1.05 * sync && s["SSP 3"] > async && s["1 backup"] < 0.5 * sync)) print sync, async, s["SSP 3"], s["1 backup"] }'
awk -F, 'function near(x) { return x - 0.00051 ".." x + 0.00051 }
    NR > 1 { last[$6] = near($9); time[$6] = 1e3 * $8 }
    END { for (way in last) printf "%s | * * * %g..%g %s\n", way, 0.98 * time[way], 1.02 * time[way], last[way] }' $ways | log_rows
is_png plots/${name}_exchange.png plots/${name}_disciplines.png plots/${name}_slow_worker.png plots/${name}_bounds.png
verdict "modelled times by discipline; the picture has the table's figures"
# What the captions say.
is_svg plots/${name}_slow_worker.svg "worker 3's push misses 9 others"
is_svg plots/${name}_bounds.svg 'dropped push'
verdict "the pushes that the arrow counts, and dropped ones in the legend"
# The full rate: too much for eight at once, stale or not, and not for one worker.
figures log '/^  lr  / { sync = $2; async = $4; one = $6 }
    END { if (!(one > 2 * sync && one > 2 * async)) print sync, async, one }'
verdict "at the full rate eight workers learn nothing, synchronously or not, and one worker learns"
rows() { grep -E '^  (1 backup|SSP 3) ' log | awk '{ NF -= 2; print }'; } # without the difference to another way
rows >table
for flags in '--staleness 3' '--backup 1'; do
    works --train-size 1024 --test-size 200 $flags
    rows >row
    [ -s row ] && grep -qxFf row table || complain "$(cat row) is not in: $(cat table)"
    verdict "$flags: the same row as in the table, to the digit"
done
# The figure to move has the table's times and staleness.
works --train-size 1024 --backend model --schedule --staleness 3
is_svg plots/${name}_schedule.svg 'worker 3'
figures plots/${name}_schedule.csv 'NR > 1 { n++ } $1 == "SSP 3" { ok = $5 > 0 && $4 <= 12 } END { if (n != 3 || !ok) print n, ok }'
awk -F, 'NR == 2 { printf "SSP 3 * %.2f %d\n", $3, $4 }' plots/${name}_schedule.csv >wanted
awk '{ print "SSP 3 *", $4, $5 }' table | grep -qxFf wanted || complain "$(cat wanted) is not in: $(cat table)"
verdict "--schedule: the staleness of the table, and a lane for each worker"

# What follows is about who comes when, not about what is learned.
run() { run_program --train-size 256 --test-size 50 --epochs 1 "$@"; }
nothing_stale() { # WAY..
    for way; do echo "$way | * 0.00 0"; done | log_rows
}
works --workers 8
nothing_stale synchronous '1 backup'
works --servers 1 --slow 0=1 --machine laptops-1gbe
nothing_stale synchronous '1 backup'
echo 'asynchronous | 0 0.01..2.99' | log_rows # one server keeps four workers waiting: less stale than W-1
verdict "--workers 8, --servers 1: the whole program, and in rounds nothing is stale"
works --workers 1
lacks '1 backup'
verdict "--workers 1: four ways"
for flags in '--staleness 0 --workers 8 --servers 1' '--staleness 0 --slow 0=10 --workers 2' '--backup 0' '--backup 1 --workers 8'; do
    works $flags
    case $flags in *backup\ 1*) nothing_stale '1 backup' ;; *) nothing_stale synchronous ;; esac
    verdict "$flags: nothing is stale"
done
works --staleness 1000000
grep '^  SSP ' log >row && works --staleness 1000000 --staleness-lr && ! grep '^  SSP ' log | cmp -s - row
verdict $? "--staleness-lr: a stale push counts for less, so other parameters come out"
works --machine cluster-10gbe --workers 3 --servers 3 --batch-size 50
verdict "another machine, and numbers that do not divide each other"
works --backend model
lacks accuracy
is_png plots/${name}_exchange.png plots/${name}_bounds.png
verdict "--backend model: the exchanges and schedules, and no values"

refusals <<'ROWS'
2 | --staleness 0 --staleness-lr; --backup 1 --staleness-lr; --staleness 2 --backup 0; --staleness infinite; --backup 4
2 | --slow 4=4; --slow 0=nan; --slow 0=inf; --slow 0=0.5; --slow x; --backend model --staleness 1
2 | --workers 0; --servers 33; --machine none; --machine colab-t4; --batch-size 2; --batch-size 2000; --devices 2
ROWS
echo "1..$tests"
