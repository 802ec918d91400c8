#!/bin/sh
# small_runs_test.sh BUILD: for the build with sanitizers (make sanitize): a small run of each program, and of chapters
# that have several ways through, one of each. Prints TAP.
. "$(dirname "$0")/tap.sh"
cd "$work" || exit 1

# (That of ranks comes last: MPI leaves memory.)
while read -r name flags; do
    command="$name $flags" start="$build/$name"
    case $name in 08_*) export ASAN_OPTIONS=detect_leaks=0 ;; esac
    case $flags in "as 3 ranks"*) flags=${flags#as 3 ranks} start="sh $root/.make/ranks.sh 3 $build/$name" ;; esac
    [ "$start" = "$build/$name" ] || command -v mpirun >/dev/null || continue
    # shellcheck disable=SC2086
    $start $flags >log 2>error </dev/null || complain "status $?"
    grep -v 'no GPU' error >>"$problems"
    case $name in 03_*) ;; *) grep -n -i -w -e '-\?nan' log >>"$problems" ;; esac # (its mistake makes one)
    verdict "$command"
done <<'RUNS'
00_devices_and_queues
01_splitting_strategies --batch-size 12 --devices 2
02_get_params_and_allreduce --devices 2
03_split_batch
04_lenet_multi_gpu --train-size 128 --test-size 40 --epochs 1 --save w --log-loss l --trace t --timeline t.png
04_lenet_multi_gpu --train-size 128 --test-size 40 --epochs 1 --load w
05_resnet18_concise --train-size 8 --test-size 4 --batch-size 4 --epochs 1 --devices 2 --bn sync --checkpoint c
05_resnet18_concise --train-size 8 --test-size 4 --batch-size 4 --epochs 2 --devices 2 --bn sync --resume c
06_data_parallel_and_ddp --train-size 128
07_parameter_servers --train-size 256 --test-size 50 --epochs 1 --batch-size 64
07_parameter_servers --train-size 256 --test-size 50 --epochs 1 --batch-size 64 --workers 3 --backup 1
07_parameter_servers --train-size 256 --test-size 50 --epochs 1 --batch-size 64 --staleness 5 --staleness-lr
08_many_machines --train-size 128 --test-size 20 --batch-size 8 --epochs 1
08_many_machines as 3 ranks --train --train-size 128 --test-size 20 --batch-size 8 --epochs 1 --checkpoint c8
09_what_each_device_keeps --train-size 64 --devices 2 --batch-size 2
10_a_transformer --train-size 80 --test-size 8 --epochs 1 --devices 3 --batch-size 4
11_a_mesh_of_devices --train-size 80 --test-size 8 --batch-size 8
11_a_mesh_of_devices --train-size 80 --test-size 8 --epochs 1 --mesh 2x2 --batch-size 8
RUNS
unset ASAN_OPTIONS
for program in "$build"/solved/*; do
    [ -x "$program" ] || continue # students have no solutions
    case $program in */05_*) continue ;; esac # minutes of small trainings; test_resnet18 has what its modules do
    "$program" --facts "$work/facts" 1 >log 2>error </dev/null || complain "status $?"
    [ "$(grep -c '^through' "$work/facts")" = "$(grep -c '^group' "$work/facts")" ] || complain "$(grep '^ended' "$work/facts")"
    verdict "$(basename "$program") --facts"
done
echo "1..$tests"
