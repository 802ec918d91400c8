#!/bin/sh
# chapter_02_flags_test.sh BUILD: chapter 2 with other algorithms, and on machines with fewer devices or none.
# Prints TAP.
name=02_get_params_and_allreduce
. "$(dirname "$0")/chapter.sh"
. "$(dirname "$0")/chapter_02_table.sh"

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
