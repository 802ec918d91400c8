#!/bin/sh
# defaults_test.sh BUILD: each chapter as a reader first runs it, with its default flags, on the real data; of
# chapters 4 and 5 one epoch. It ends without an error, and with what it says last. Prints TAP.
build=$(cd "${1:?usage: defaults_test.sh BUILD}" && pwd) || exit 1
OMP_WAIT_POLICY=passive # as `make run-NN` has it
export OMP_WAIT_POLICY
out=$(mktemp -d) || exit 1
running=
trap '[ -n "$running" ] && kill $running 2>/dev/null; rm -rf "$out"' EXIT
trap 'exit 1' HUP INT TERM
cd "$out" || exit 1
tests=0
chapter() { # NAME WORDS FLAGS: its last lines have these words, wherever they are broken
    name=$1 words=$2
    shift 2
    "$build/$name" "$@" >log 2>error </dev/null &
    running=$!
    wait $running
    status=$?
    running=
    tests=$((tests + 1))
    tail -n 20 log | tr -s ' \n' ' ' >end
    if [ $status -eq 0 ] && grep -q -e "$words" end && ! grep -v 'no GPU\|no gnuplot' error | grep -q .; then
        echo "ok $tests - $name${*:+ }$*"
    else
        echo "not ok $tests - $name${*:+ }$*: status $status, expected at the end: $words"
        tail -n 20 log error | sed 's/^/# /'
    fi
}

chapter 00_devices_and_queues 'step 2: the arena gave [0-9]* bytes, and h is where it was in step 1 loss 4.6'
chapter 01_splitting_strategies 'figures: plots/01_splitting_strategies_model.csv'
chapter 02_get_params_and_allreduce 'figures: plots/02_get_params_and_allreduce.csv'
chapter 03_split_batch 'devices sum, and sgd() divides once, by the full size of the minibatch'
chapter 04_lenet_multi_gpu 'figures: plots/04_lenet_multi_gpu_modelled.csv .*predictions: ' --epochs 1
chapter 05_resnet18_concise 'Modelled: the largest minibatch that one device has memory for.* rtx4090-pcie 24 GB [0-9]* ' --epochs 1
chapter 06_data_parallel_and_ddp 'within layers needs [0-9.]* MB on its fullest device it runs: '
chapter 07_parameter_servers ' pushes, each applied at 2 servers: [0-9]* in all'
echo "1..$tests"
