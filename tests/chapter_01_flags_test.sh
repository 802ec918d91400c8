#!/bin/sh
# chapter_01_flags_test.sh BUILD: chapter 1 on other numbers of devices and small minibatches; no machine, one output,
# a learning rate that is too large. Prints TAP.
name=01_splitting_strategies
. "$(dirname "$0")/chapter.sh"
small_data_set
run() { run_program --data "$out/data" --out "$out/plots" "$@"; }

run --batch-size 5 --steps 1 --devices 2 --backend cpu --machine none && ! grep -qi 'modelled on\|^On .* the step across data' "$out/log"
verdict $? "--machine none: nothing modelled of the steps"

for k in 1 3 7; do
    run --batch-size 5 --steps 1 --devices $k --seed $k --backend cpu --threads 2
    verdict $? "--devices $k, five images"
done
run --batch-size 1 --steps 1 --backend cpu
verdict $? "a minibatch of one image"
run --batch-size 5 --steps 1 --devices 16 --backend cpu && ! grep -q 'idle share of a pipeline' "$out/log"
verdict $? "more devices than a pipeline can have: nothing is said of its bubble"
rm -rf "$out/plots"
run --batch-size 5 --steps 1 --devices 2 --csv /dev/stdout --backend cpu && grep -q '^network,machine,' "$out/log" &&
    [ ! -e "$out/plots/01_splitting_strategies_model.png" ] && ! grep -q 'model.png' "$out/log"
verdict $? "--csv /dev/stdout: figures, and no picture that would be empty"
run --batch-size 5 --steps 1 --lr 1e10 --backend cpu
[ $? -eq 1 ] && grep -q '^hint: .*smaller --lr' "$out/error" && ! grep -q 'bug' "$out/error"
verdict $? "a learning rate that is too large is not called a bug"
echo "1..$tests"
