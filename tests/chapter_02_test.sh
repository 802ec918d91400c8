#!/bin/sh
# chapter_02_test.sh BUILD: chapter 2's numbers, in what it prints and in its table: on its own machine, on others and on
# none, by each algorithm, with values and without. (That all sums are right: test_allreduce.c.) Prints TAP.
name=02_get_params_and_allreduce
. "$(dirname "$0")/chapter.sh"
csv=plots/$name.csv

# On that machine all ways have nine sizes for the first K, and both sizes for each further K; the only measured row is the
# ring's.
is_table() { # FILE MACHINE K..
    file=$1 machine=$2
    shift 2
    figures "$file" '
        NR == 1 { if ($0 != "time,machine,algorithm,devices,bytes,seconds,algbw,busbw,about") print; next }
        NF != 9 || !($6 > 0 && $7 > 0 && $8 > 0) { print }
        $1 == "measured" { if ($2 != "here" || $3 != "ring" || ++measured > 1) print; next }
        $1 != "modelled" || $2 != "'"$machine"'" { print }
        $3 != "NCCL" { rows[$3, $4, $5 ~ /^(8192|160000000)$/]++; all++ }
        END { n = split("'"$*"'", k, " "); m = split("star,star in pieces,sharded,ring,tree", names, ",")
            for (j = 1; j <= m; j++) for (i = 1; i <= n; i++)
                if (rows[names[j], k[i], i > 1] != (i > 1 ? 2 : 9)) print names[j], k[i]
            if (all != m * (9 + 2 * (n - 1))) print all, "rows" }'
}

main_run --devices 4
good
figures log 'NR == 41 { print "too long" }'
many= # with --devices it models no more, which would take 10 s
[ ! "$is_recorded" ] || many="2 4 8 16 32 64 128 256 512 1024"
is_table $csv dgx-a100 4 $many
verdict "ends well, in at most 40 lines, with a table"
on='on [a-z]*:[0-9#]*' zeros='\[0.\(, 0.\)\{9\}\]'
has "b4 weight: $zeros $on" "b4 grad: $zeros $on" "before allreduce, data\[0\]: \[\[1., 1.\]\] $on" \
    "before allreduce, data\[1\]: \[\[2., 2.\]\] $on" "after allreduce, data\[0\]: \[\[3., 3.\]\] $on" \
    "after allreduce, data\[1\]: \[\[3., 3.\]\] $on" "grads\[1\]: \[\[3., 3.\]\]" "W\[1\].grad: \[\[2., 2.\]\]" \
    "W\[0\]: \[\[0.7, 0.7\]\]" "W\[1\]: \[\[0.8, 0.8\]\]" "1 + 2 is: \[\[4., 4.\]\]" "1.75 N"
verdict "the book's prints, a rebound pointer and a shared buffer" # what it calls ok, or it ends
# LeNet has N = 516,272 bytes; 129068 floats are divided by 4. The table's times are the CSV's.
awk -F, '$1 == "modelled" && $4 == 4 { s[$3, $5] = $6 }
    function row(name, rest) { printf "%s | %s %.3f..%.3f %.3f..%.3f %.4f..%.4f\n", name, rest, 0.99e6 * s[name, 1024], 1.01e6 * s[name, 1024],
            0.99e6 * s[name, 262144], 1.01e6 * s[name, 1048576], 0.99e3 * s[name, 67108864], 1.01e3 * s[name, 67108864] }
    END { row("star", "6 of N 1548816 3.00 9"); row("star in pieces", "6 of N 1548816 3.00 9"); row("tree", "4 of N 1032544 2.00 9")
        row("sharded", "6 of N/k 774408 1.50 36"); row("ring", "6 of N/k 774408 1.50 36")
        print "star | 60 ms 60.0 ms\nthrough the CPU | 80 ms 80.0 ms\nsharded | 15 ms 15.0 ms"
        print "modelled: dgx-a100 | 124 186 274\nNCCL, calculated | 150 225 274" }' $csv | log_rows
verdict "the tables: the book's example, counted bytes, modelled times and bandwidths"
# The chapter's figure simulates the example by itself. What it says and what it shows (when the last device has the sum)
# are the times above: 6 steps of N are the star's 60 ms, and the table has the steps of all.
if command -v pandoc >/dev/null; then
    echo "package.path = '$root/plots/book/?.lua' io.stdout:write(require('diagram').exchanges())" >figure.lua
    pandoc -L figure.lua -t html -o none.html </dev/null | awk -v RS='<' -F '>' '
        match($0, /values="0;1" keyTimes="0.0000;[0-9.]+/) { t = substr($0, RSTART + 30, RLENGTH - 30) + 0; if (t > last) last = t }
        /^text.*>[a-z]+$/ { name = $2 }
        /^text.*>[0-9.]+ ms$/ { if (!star) star = last; print "figure", name, $2 + 0, 60 * last / star; last = 0 }' | cat - log >both
    figures both '$1 == "figure" { said[$2] = $3; shown[$2] = $4; next }
        $3 == "ms" { example[$1] = $2 }
        $3 $4 ~ /^ofN/ { n++; ms = $2 * example["star"] / 6 / ($4 == "N" ? 1 : 4)
            if (said[$1] != ms || !(shown[$1] > ms - 0.1 && shown[$1] < ms + 0.1)) print $1, said[$1], shown[$1], "not", ms }
        END { if (n != 4 || said["sharded"] != example["sharded"]) print n, "ways" }'
    verdict "the figure: when each way is done"
else
    skip "the figure: when each way is done" "no pandoc (make setup book)"
fi
# A short vector: the stars and the tree; a long one: the ring. On k A100: a ring by NVLinks of 240 GB/s, in few large
# pieces; it starts after 8.4 us, and a step takes 3.4 us.
figures $csv 'function faster(k, bytes, a, b) { if (!(s[k, bytes, a] > 0 && s[k, bytes, a] < s[k, bytes, b])) print k, bytes, a, b }
    $1 == "modelled" { s[$4, $5, $3] = $6 }
    $3 == "NCCL" { n++; right = 8.4e-6 + 2 * 3 * (3.4e-6 + $5 / 4 / 240e9); if ($4 != 4 || !($6 > right * 0.999999 && $6 < right * 1.000001)) print }
    $1 == "measured" && ($4 != 4 || $5 != 67108864) { print }
    END { short = 1024; long = 67108864
        faster(4, short, "tree", "ring"); faster(4, short, "star in pieces", "ring"); faster(4, long, "ring", "tree")
        faster(4, long, "sharded", "star in pieces"); faster(4, 1048576, "star in pieces", "ring"); faster(4, 4194304, "ring", "star in pieces")
        faster(4, long, "star in pieces", "star")
        if ("'"$many"'") { faster(1024, 8192, "tree", "star"); faster(1024, 8192, "star", "ring"); faster(1024, 160000000, "ring", "tree") }
        if (n != 1) print "NCCL", n }'
verdict "modelled: stars and tree are best for short vectors, the ring for long ones, on 4 devices from between 1 and 4 MiB on; and NCCL's ring"
! command -v gnuplot >/dev/null || is_png plots/$name.png
[ -z "$(find plots -name '*.tmp.*')" ] || complain "a temporary file is left"
verdict "the picture"

for algorithm in sharded ring tree; do
    works --devices 3 --allreduce $algorithm --backend cpu --threads 2 --seed 7 --csv three.csv
    has "ok: $algorithm: both" 'on 2, 3, 4 and 8 devices'
    is_table three.csv dgx-a100 3
    verdict "--allreduce $algorithm --devices 3"
done
works --devices 3 --backend model --seed 7 --csv model.csv --timeline timeline.png
lacks '[0-9] on model:1' 'measured here' 'no values' 'replicas'
grep -v '^measured' three.csv | cmp - model.csv >>problems
is_png timeline.png
is_svg timeline.svg 'copy) on model:1, [0-9.]* .*s to [0-9.]* .*s, .*B from model:0 to model:1<'
verdict "--backend model: no values, the modelled times that there are beside values, and a timeline"
works --devices 3 --backend model --curves --csv curves.csv
grep -v NCCL model.csv | cmp - curves.csv >>problems
verdict "--curves: the same rows, and nothing else is done"
works --devices 3 --machine none --memory 200MB --csv none.csv
lacks 'modelled on' NCCL
figures none.csv 'NR == 2 && $1 $3 $4 != "measuredring3" || NR > 2'
verdict "--machine none: nothing but the book's example is modelled; and --memory limits no modelled machine"
works --machine d2l-pcie --devices 4 --backend cpu --threads 2 --csv four.csv
has 'on 2 and 4 devices' 'on 1, 2 and 3 devices'
is_table four.csv d2l-pcie 4
echo 'modelled: d2l-pcie | 10.7 16.0 16.0' | log_rows # where only bytes take time, busbw is the speed of a link
verdict "a machine of four devices: no more are used on it"

mkdir empty
PATH=$out/empty "$program" --devices 2 --backend cpu --out without >log 2>error </dev/null || complain "status $?"
[ "$(grep -c 'no gnuplot' error)" -eq 1 ] && [ ! -e without/$name.png ] || complain "not one warning"
is_table without/$name.csv dgx-a100 2
verdict "without gnuplot there is one warning, and the table"
refusals <<'ROWS'
2 | --allreduce butterfly; --devices 65; --devices 1; --machine colab-t4; --machine d2l-pcie --devices 5
1 | --out log/plots
ROWS
echo "1..$tests"
