#!/bin/sh
# chapter_02_test.sh BUILD: chapter 2 runs, its own checks pass, it prints the book's figures, and writes its
# table and picture. Prints TAP.
build=$(cd "${1:?usage: chapter_02_test.sh BUILD}" && pwd) || exit 1
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
is_png() { [ "$(head -c 8 "$1" | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ] && [ "$(tail -c 8 "$1" | od -An -tx1 | tr -d ' \n')" = 49454e44ae426082 ]; }
is_table() { # FILE K..: the rows of these numbers of devices, times and bandwidths above zero
    awk -F, -v ks="$2" 'NR == 1 { if ($0 != "algorithm,devices,bytes,seconds,algbw,busbw") exit bad = 1; next }
        NF != 6 || !($4 > 0) || !($5 > 0) || !($6 > 0) { bad = 1 }
        { rows[$1 " " $2]++ }
        END {
            n = split(ks, k, " "); m = split("star sharded ring tree", names, " ")
            for (i = 1; i <= n; i++) for (j = 1; j <= m; j++) if (rows[names[j] " " k[i]] < 5) bad = 1
            exit bad || NR != 1 + total(rows, n * m)
        }
        function total(rows, most,    key, sum, count) {
            for (key in rows) { sum += rows[key]; count++ }
            return count == most ? sum : -1
        }' "$1"
}

run --steps 2 --out "$out/plots"
verdict $status "ends without an error"
[ ! -s "$out/error" ]
verdict $? "says nothing on stderr"
device='\(cpu\|cuda\):[0-9#]*'
zeros='\[0.\(, 0.\)\{19\}\]'
has "^b1 weight: $zeros on $device\$" && has "^b1 grad: $zeros on $device\$"
verdict $? "the book's prints after get_params"
has "^before allreduce, data\[0\]: \[\[1., 1.\]\] on" && has "^before allreduce, data\[1\]: \[\[2., 2.\]\] on" &&
    has "^after allreduce,  data\[0\]: \[\[3., 3.\]\] on" && has "^after allreduce,  data\[1\]: \[\[3., 3.\]\] on"
verdict $? "the book's prints before and after allreduce"
has "W\[1\].grad: \[\[2., 2.\]\]" && has "W\[1\].grad: \[\[3., 3.\]\]" && has 'ok: the mistake is noticed: after one step'
verdict $? "a rebound pointer is noticed"
has 'should be 3: \[\[4., 4.\]\]' && has 'two devices share one buffer' && has 'ok: the mistake is noticed before it does harm' && has 'ok: the sum would be wrong'
verdict $? "a shared buffer is noticed"
[ "$(grep -c '^  ok: .* sums exactly' "$out/log")" -eq 4 ]
verdict $? "four algorithms sum exactly"
awk '/^  [248]  (star|sharded|ring|tree) / { n++; if ($6 != $7 || $10 != 2 * ($1 - 1) * 516272 || $11 != "yes") bad = 1 }
    END { exit bad || n != 12 }' "$out/log"
verdict $? "bytes counted are the formula's, for 2, 4 and 8 devices"
has 'star 60 ms, sharded 15 ms, ring 15 ms, tree 40 ms'
verdict $? "the book's example: 60 ms by the star, 15 ms sharded"
is_table "$out/plots/$name.csv" '2 4'
verdict $? "the times, as CSV"
if command -v gnuplot >/dev/null 2>&1; then
    is_png "$out/plots/$name.png"
    verdict $? "the times, as a picture"
else
    tests=$((tests + 1))
    echo "ok $tests - the times, as a picture # SKIP no gnuplot"
fi
[ -z "$(find "$out/plots" -name '*.tmp.*')" ]
verdict $? "no temporary file is left"

for algorithm in sharded ring tree; do
    run --steps 1 --devices 3 --allreduce $algorithm --backend cpu --threads 2 --seed 7 --out "$out" --csv "$out/$algorithm.csv"
    [ $status -eq 0 ] && [ ! -s "$out/error" ] && has "^allreduce ($algorithm)" && is_table "$out/$algorithm.csv" 3
    verdict $? "--allreduce $algorithm --devices 3"
done

# Without gnuplot: one warning, and the table.
mkdir "$out/empty"
env PATH="$out/empty" "$program" --steps 0 --devices 2 --backend cpu --out "$out/without" >"$out/log" 2>"$out/error" </dev/null
[ $? -eq 0 ] && [ "$(grep -c 'no gnuplot' "$out/error")" -eq 1 ] && [ ! -e "$out/without/$name.png" ] && is_table "$out/without/$name.csv" 2
verdict $? "without gnuplot there is one warning, and the table"

wrong() { # STATUS WORDS..
    expected=$1
    shift
    run "$@" --out "$out/none"
    [ $status -eq "$expected" ] && [ ! -s "$out/log" ] && [ ! -e "$out/none" ] && grep -q '^hint: ' "$out/error"
    verdict $? "wrong: $*"
}
wrong 2 --allreduce butterfly
wrong 2 --allreduce ''
wrong 2 --allreduce
wrong 2 --devices 65
wrong 2 --devices 1
wrong 2 --nonsense
run --out "$out/log/plots"
[ $status -eq 1 ] && [ ! -s "$out/log" ] && grep -q '^hint: ' "$out/error"
verdict $? "a folder that cannot be made: an error before anything is measured"
echo "1..$tests"
