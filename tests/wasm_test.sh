#!/bin/sh
# wasm_test.sh BUILD: chapters 0 to 4, 6, 7, 9 to 11 as WebAssembly, under Node, print what they print here with the same
# kernels (instructions for four floats, on CPUs that have them), but for what is measured; and so do their modelled figures.
. "$(dirname "$0")/tap.sh"
grep -q "^WASM_CC := ." "$build/config.mk" || skip_all "chapters as WebAssembly" "no clang for WebAssembly: make setup wasm"
command -v node >/dev/null || skip_all "chapters as WebAssembly" "no node"
cd "$work" || exit 1
shown="difference here.err there.err"
for file in "${FASHION_MNIST_DIR:-/usr/share/datasets/fashion-mnist}"/*-ubyte*; do
    gzip -dcf "$file" >"$(basename "$file" .gz)"
done
[ "$(uname -m)" != x86_64 ] || export BOOK_ISA=v1
# (Pictures are gnuplot's, which only one of them has.)
not_measured() { sed -E 's/[0-9.]+ sec/S sec/; /[Mm]easured/d; /^to open:/d' "$1"; }

in_node() { # CHAPTER FLAG..
    program=$build/wasm/$1.wasm
    shift
    node --no-warnings "$root/tests/wasm_run.js" "$program" --out there "$@" >there.out 2>there.err
}
compare() { # CHAPTER FLAG..
    chapter=$1
    shift
    "$build/$chapter" --out here "$@" >here.out 2>here.err && {
        # A WebAssembly program cannot fault, so a signal is Node's own: Node 20 died once on a busy machine, at its end.
        in_node "$chapter" "$@" || { [ $? -gt 128 ] && in_node "$chapter" "$@"; }
    } &&
        not_measured here.out >here.facts && not_measured there.out >there.facts && [ -s there.facts ] &&
        diff here.facts there.facts >difference
    verdict $? "$chapter $*"
}
mkdir there
compare 00_devices_and_queues --backend model --devices 8
compare 01_splitting_strategies --backend model --pipeline alexnet --devices 4 --microbatches 8 --data .
for figures in pipeline.csv pipeline.svg; do
    diff here/01_splitting_strategies_$figures there/01_splitting_strategies_$figures >difference
    verdict $? "its $figures, to the last digit"
done
compare 02_get_params_and_allreduce --backend inline --quick
compare 02_get_params_and_allreduce --backend model --devices 16
diff here/02_get_params_and_allreduce.csv there/02_get_params_and_allreduce.csv >difference
verdict $? "its modelled figures, to the last digit"
compare 03_split_batch --backend inline --quick --data .
compare 04_lenet_multi_gpu --backend inline --quick --epochs 1 --data .
compare 04_lenet_multi_gpu --backend model --devices 8 --quick --data .
compare 04_lenet_multi_gpu --backend model --devices 8 --curves --data .
for figures in modelled.csv step.svg; do
    diff here/04_lenet_multi_gpu_$figures there/04_lenet_multi_gpu_$figures >difference
    verdict $? "its $figures, to the last digit"
done
compare 07_parameter_servers --backend model --schedule --staleness 3 --data .
for figures in schedule.csv schedule.svg; do
    diff here/07_parameter_servers_$figures there/07_parameter_servers_$figures >difference
    verdict $? "its $figures, to the last digit"
done
# Devices with a second queue.
compare 06_data_parallel_and_ddp --backend model --overlap resnet-18 --devices 8 --bucket 1024 --data .
for figures in overlap.csv overlap.svg; do
    diff here/06_data_parallel_and_ddp_$figures there/06_data_parallel_and_ddp_$figures >difference
    verdict $? "its $figures, to the last digit"
done
for network in resnet-18 7b; do
    compare 09_what_each_device_keeps --backend model --memory-of $network --devices 8 --batch-size 256 --recompute --data .
    diff here/09_what_each_device_keeps_memory.csv there/09_what_each_device_keeps_memory.csv >difference
    verdict $? "its memory.csv, to the last digit"
done
compare 10_a_transformer --backend model --devices 4 --width 256 --batch-size 64 --data .
compare 10_a_transformer --backend model --costs --devices 8 --width 1024 --batch-size 128 --data .
diff here/10_a_transformer_costs.csv there/10_a_transformer_costs.csv >difference
verdict $? "its costs.csv, to the last digit"
compare 11_a_mesh_of_devices --backend model --mesh 2x4 --sequence --width 256 --batch-size 64 --steps 2 --data .
node --no-warnings "$root/tests/wasm_run.js" "$build/wasm/04_lenet_multi_gpu.wasm" --data nowhere >out 2>difference
[ $? = 1 ] && grep -q 'error: nowhere: No such file' difference
verdict $? "an error ends it with status 1"
echo "1..$tests"
