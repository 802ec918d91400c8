#!/bin/sh
# chapter_01_flags_test.sh BUILD: chapter 1 on other numbers of devices and small minibatches; no machine, one output,
# a learning rate that is too large. Prints TAP.
name=01_splitting_strategies
. "$(dirname "$0")/chapter.sh"
small_data_set
while read -r flags; do
    rm -rf "$out/plots"
    run_program --data "$out/data" --out "$out/plots" --backend cpu --steps 1 $flags
    case $flags in
    *none) [ $status -eq 0 ] && ! grep -qi 'modelled on\|^On .* the step across data' "$out/log" ;;
    *'--devices 16'*) [ $status -eq 0 ] && ! has 'idle share of a pipeline' ;;
    *stdout) [ $status -eq 0 ] && has '^network,machine,' && [ ! -e "$out/plots/${name}_model.png" ] && ! has 'model\.png' ;;
    *1e10) [ $status -eq 1 ] && grep -q '^hint: .*smaller --lr' "$out/error" && ! grep -q 'bug' "$out/error" ;;
    *) [ $status -eq 0 ] ;;
    esac
    verdict $? "$flags"
done <<'FLAGS'
--batch-size 5 --devices 2 --machine none
--batch-size 5 --devices 1 --seed 1 --threads 2
--batch-size 5 --devices 7 --seed 7 --threads 2
--batch-size 1
--batch-size 5 --devices 16
--batch-size 5 --devices 2 --csv /dev/stdout
--batch-size 5 --lr 1e10
FLAGS
echo "1..$tests"
