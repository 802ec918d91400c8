#!/bin/sh
# chapter_02_test.sh BUILD: chapter 2 runs, its own checks pass, it prints the book's figures, and writes its
# table and pictures; measured and modelled times are told apart. (Other algorithms and machines:
# chapter_02_flags_test.sh.) Prints TAP.
name=02_get_params_and_allreduce
. "$(dirname "$0")/chapter.sh"
. "$(dirname "$0")/chapter_02_table.sh"

main_run --steps 2
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
has '1 + 2 should be 3, but is: \[\[4., 4.\]\]' && has 'two devices share one buffer' && has 'ok: the mistake is noticed before it does harm' && has 'ok: without the check a wrong sum comes out'
verdict $? "a shared buffer is noticed"
[ "$(grep -c '^  ok: .* sums exactly' "$out/log")" -eq 4 ]
verdict $? "four algorithms sum exactly"
awk '/^  [248]  (star|sharded|ring|tree) / { gsub(",", ""); n++; if ($6 != $7 || $9 != 2 * ($1 - 1) * 516272 || $10 != "yes") bad = 1 }
    END { exit bad || n != 12 }' "$out/log"
verdict $? "bytes counted are the formula's, for 2, 4 and 8 devices"
has "^  star, in the book's own lines  *60 ms  *60.0 ms" && has '^  through the CPU  *80 ms  *80.0 ms' &&
    has '^  sharded  *15 ms  *15.0 ms' && has "modelled times of the book's three ways are the book's"
verdict $? "the book's example: 60 ms by the star, 80 ms by the CPU, 15 ms sharded"
has 'busbw is algbw x 2 (k-1)/k' && has "a link carries 274 GB/s each way: the ring's busbw is [0-9]* % of it"
verdict $? "busbw is explained, and compared with the speed of a link"
is_table "$out/plots/$name.csv" measured here '2 4'
verdict $? "the measured times, as CSV"
# On k A100: a ring by NVLinks of 240 GB/s, in few large pieces; it starts after 8.4 us, and a step takes 3.4 us.
awk -F, 'NR == FNR { if ($3 == "NCCL") { n++; k = $4; bytes = $5; us = 1e6 * $6; busbw[n] = sprintf("%.2f", $8 / 1e9)
             expected = 8.4 + 2 * (k - 1) * (3.4 + bytes / k / 240e3); if (!(us > expected * 0.999999 && us < expected * 1.000001)) bad = 1 } next }
    /^  as NCCL does it / { split($0, cell, " +"); last = cell[length(cell)]; lines++; if (!(last - busbw[lines] < 0.06 && busbw[lines] - last < 0.06)) bad = 1 }
    END { exit bad || n != 2 || lines != 2 }' "$out/plots/$name.csv" "$out/log"
verdict $? "as NCCL does it: a line and a row for 2 and for 4 devices, by the formula of its ring"
is_table "$out/plots/$name.csv" modelled rtx4090-pcie 4 && is_table "$out/plots/$name.csv" modelled cluster-10gbe 4 &&
    is_table "$out/plots/$name.csv" modelled dgx-a100 '2 4 8 16 32 64 128 256 512 1024'
verdict $? "the modelled times, as CSV"
# As the formulas say: for long vectors sharded and ring, for short ones star and tree; 1024 devices, the tree.
awk '/^  modelled: (rtx|cluster)/ { m++ } m && $2 == "KB" && $3 + 0 > 0 && $NF != "star" && $NF != "tree" { bad = 1 }
    m && $2 == "MB" && $3 + 0 > 0 && $NF != "ring" { bad = 1 } /^     1024 / { last[++n] = $NF }
    END { exit bad || m != 2 || last[1] != "tree" || last[2] != "ring" }' "$out/log"
verdict $? "modelled: the star and the tree are best for short vectors, the ring for long ones"
# A row of 4 MB on each of three machines, with star / ring; and the ring's launches on 1024 devices, its modelled time.
awk '/^The same on three machines/ { on = 1 } on && $1 == 4 && $2 == "MB" { gsub(",", ""); rows++; if ($7 < 0.99 * $3 / $5 || $7 > 1.01 * $3 / $5) bad = 1 }
    END { exit bad || rows != 3 }' "$out/log" && has '3 x 1023 x' && has '8 x 2.2 us = 54 ms'
verdict $? "star/ring is the star's time over the ring's"
has "here: star .* modelled: star"
verdict $? "measured and modelled times have columns that say so"
if command -v gnuplot >/dev/null 2>&1; then
    is_png "$out/plots/$name.png" && is_png "$out/plots/${name}_devices.png"
    verdict $? "the times, as pictures"
else
    tests=$((tests + 1))
    echo "ok $tests - the times, as pictures # SKIP no gnuplot"
fi
[ -z "$(find "$out/plots" -name '*.tmp.*')" ]
verdict $? "no temporary file is left"

run --steps 1 --devices 3 --allreduce ring --backend cpu --threads 2 --seed 7 --out "$out" --csv "$out/ring.csv"
[ $status -eq 0 ] && [ ! -s "$out/error" ] && has "^allreduce (ring)" && is_table "$out/ring.csv" measured here 3 &&
    is_table "$out/ring.csv" modelled dgx-a100 3
verdict $? "--allreduce ring --devices 3"

# Without gnuplot: one warning, and the table.
mkdir "$out/empty"
env PATH="$out/empty" "$program" --steps 0 --devices 2 --backend cpu --out "$out/without" >"$out/log" 2>"$out/error" </dev/null
[ $? -eq 0 ] && [ "$(grep -c 'no gnuplot' "$out/error")" -eq 1 ] && [ ! -e "$out/without/$name.png" ] && is_table "$out/without/$name.csv" measured here 2
verdict $? "without gnuplot there is one warning, and the table"

# Without values: all parts run, nothing is checked that is not there, nothing is measured; the same bytes and the
# same modelled times as with values.
with=$(awk -F, '$1 == "modelled"' "$out/ring.csv")
run --devices 3 --allreduce ring --backend model --seed 7 --out "$out" --csv "$out/model.csv" --timeline "$out/timeline.png"
[ $status -eq 0 ] && [ ! -s "$out/error" ] && ! has '[^a-z]nan' && has '^b1 weight: (20,) on model:0, no values$' &&
    has '^  not checked, no values: both devices have' && has 'These devices compute nothing, so no times are measured' &&
    ! has 'measured here' && has "ok: each device sends and receives the formula's bytes" && ! has_machine "$out/model.csv" here
verdict $? "--backend model runs through, and says that there are no values"
is_png "$out/timeline.png" && grep -q 'copy) on model:1, [0-9.]* .*s to [0-9.]* .*s, .*B from model:0 to model:1<' "$out/timeline.svg"
verdict $? "--timeline: a picture, as PNG and as SVG"
[ -n "$with" ] && [ "$with" = "$(awk -F, '$1 == "modelled"' "$out/model.csv")" ]
verdict $? "--backend model has the modelled times that there are beside values"
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
wrong 2 --machine colab-t4
wrong 2 --machine d2l-pcie --devices 5
wrong 2 --machine dgx-a1
run --out "$out/log/plots"
[ $status -eq 1 ] && [ ! -s "$out/log" ] && grep -q '^hint: ' "$out/error"
verdict $? "a folder that cannot be made: an error before anything is measured"
echo "1..$tests"
