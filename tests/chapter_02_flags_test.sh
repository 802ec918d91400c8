#!/bin/sh
# chapter_02_flags_test.sh BUILD: chapter 2 with other algorithms, and on machines with fewer devices or none.
# Prints TAP.
build=$(cd "${1:?usage: chapter_02_flags_test.sh BUILD}" && pwd) || exit 1
name=02_get_params_and_allreduce
program=$build/$name
LC_ALL=C OMP_WAIT_POLICY=passive # threads that wait do not spin: the machine may be busy
export LC_ALL OMP_WAIT_POLICY
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
tests=0
verdict() { # STATUS NAME
    tests=$((tests + 1))
    [ "$1" -eq 0 ] && echo "ok $tests - $2" && return
    echo "not ok $tests - $2"
    sed 's/^/# /' "$out/log" "$out/error"
}
# Leaves the status in $status. The line that a program built with CUDA says on a machine without a GPU is no
# error.
run() {
    "$program" "$@" >"$out/log" 2>"$out/all_errors" </dev/null
    status=$?
    sed "/^$name: no GPU (.*): using CPU devices\$/d" "$out/all_errors" >"$out/error"
}
has() { grep -q -e "$1" "$out/log"; }
# FILE TIME MACHINE K..: that machine's rows of these numbers of devices, times and bandwidths above zero
is_table() {
    awk -F, -v kind="$2" -v machine="$3" -v ks="$4" '
        NR == 1 { if ($0 != "time,machine,algorithm,devices,bytes,seconds,algbw,busbw,about") exit bad = 1; next }
        NF != 9 || !($6 > 0) || !($7 > 0) || !($8 > 0) { bad = 1 }
        ($1 == "measured") != ($2 == "here") { bad = 1 }
        $1 == kind && $2 == machine { rows[$3 " " $4]++ }
        END {
            n = split(ks, k, " "); m = split("star sharded ring tree", names, " ")
            for (i = 1; i <= n; i++) for (j = 1; j <= m; j++) if (rows[names[j] " " k[i]] < 2) bad = 1
            count = 0
            for (key in rows) count++
            exit bad || count != n * m
        }' "$1"
}
has_machine() { cut -d, -f2 "$1" | grep -q -x -e "$2"; }

for algorithm in sharded tree; do
    run --steps 1 --devices 3 --allreduce $algorithm --backend cpu --threads 2 --seed 7 --out "$out" --csv "$out/$algorithm.csv"
    [ $status -eq 0 ] && [ ! -s "$out/error" ] && has "^allreduce ($algorithm)" && is_table "$out/$algorithm.csv" measured here 3 &&
        is_table "$out/$algorithm.csv" modelled dgx-a100 3
    verdict $? "--allreduce $algorithm --devices 3"
done

run --devices 3 --steps 1 --machine none --out "$out" --csv "$out/none.csv"
[ $status -eq 0 ] && [ ! -s "$out/error" ] && is_table "$out/none.csv" measured here 3 && ! has 'measured here.*modelled' &&
    is_table "$out/none.csv" modelled dgx-a100 3
verdict $? "--machine none: beside the measured times stand none; those of other machines come after"
run --devices 9 --steps 0 --machine laptops-1gbe --out "$out" --csv "$out/nine.csv"
[ $status -eq 0 ] && is_table "$out/nine.csv" modelled laptops-1gbe 9 && ! has_machine "$out/nine.csv" rtx4090-pcie &&
    has 'rtx4090-pcie has 8 devices only'
verdict $? "a machine that has fewer devices is left out"
run --machine d2l-pcie --devices 4 --backend model --out "$out" --csv "$out/four.csv"
[ $status -eq 0 ] && has 'k = 1,2,3 devices' && is_table "$out/four.csv" modelled d2l-pcie 4
verdict $? "a machine of four devices: no more are used on it"
has "a link carries 16 GB/s each way: the ring's busbw is 100 % of it"
verdict $? "where nothing but bytes takes time, the ring's busbw is the speed of a link"

echo "1..$tests"
