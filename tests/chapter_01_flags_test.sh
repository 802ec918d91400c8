#!/bin/sh
# chapter_01_flags_test.sh BUILD: chapter 1 on other numbers of devices and small minibatches; no machine, one output,
# a learning rate that is too large. Prints TAP.
name=01_splitting_strategies
. "$(dirname "$0")/chapter.sh"
small_data_set
while read -r flags; do
    rm -rf plots
    run --out plots --backend cpu $flags
    case $flags in
    *1e10) refused 1 '' && grep -q '^hint: .*smaller --lr' error || complain "no hint about --lr" ;;
    *) good ;;
    esac
    case $flags in
    *none) lacks '% a step, ms one' 'formula' ;;
    *'--devices 16'*) lacks 'formula' ;;
    *stdout)
        has 'network,machine,'
        lacks 'model\.png'
        [ ! -e plots/${name}_model.png ] || complain "there is a picture"
        ;;
    *) ;;
    esac
    verdict "$flags"
done <<'FLAGS'
--batch-size 5 --devices 2 --machine none
--batch-size 5 --devices 1 --seed 1 --threads 2
--batch-size 5 --devices 7 --seed 7 --threads 2
--batch-size 1 --microbatches 3
--batch-size 5 --devices 16
--batch-size 5 --devices 2 --csv /dev/stdout
--batch-size 5 --lr 1e10
FLAGS
echo "1..$tests"
