#!/bin/sh
# environment_test.sh BUILD: what shells, clusters and launchers set in the environment. The devices stay on the cores
# that the user gave them; who was started as one of several says so; one process alone needs no MPI. Prints TAP.
name=04_lenet_multi_gpu
. "$(dirname "$0")/chapter.sh"
unset OMP_PROC_BIND OMP_PLACES GOMP_CPU_AFFINITY KMP_AFFINITY KMP_HW_SUBSET OMP_DYNAMIC
small_data_set
running=
trap '[ -n "$running" ] && kill $running 2>/dev/null; rm -rf "$out"' EXIT

# ---- cores -----------------------------------------------------------------------------------------------

# Cores that threads are kept to, each alone: "0 1". Before there are workers it says nothing.
kept_to() { # PROCESS
    cat /proc/"$1"/task/*/status 2>/dev/null | sed -n 's/^Cpus_allowed_list:[ \t]*//p' >lists
    [ "$(wc -l <lists)" -gt 3 ] && grep -v '[-,]' lists | sort -nu | paste -sd ' '
}
stays_on() { # "CORES" COMMAND..
    expected=$1 tries=200
    shift
    command="$*"
    "$@" "$program" --backend cpu --devices 2 --machine none --train-size 64 --test-size 1 --batch-size 64 --epochs 1000000 \
        >log 2>error </dev/null &
    running=$!
    while [ "$(kept_to $running)" != "$expected" ] && [ $tries -gt 0 ]; do
        tries=$((tries - 1))
        sleep 0.05
    done
    kill $running
    wait $running 2>/dev/null
    running=
    [ $tries -gt 0 ] || complain "not on '$expected', but on: $(sort lists | uniq -c | paste -sd ';')"
    verdict "two devices on $expected: $*"
}
cores=$(sed -n 's/^Cpus_allowed_list:[ \t]*//p' /proc/self/status | tr ',' '\n' | awk -F - '{ for (i = $1; i <= $NF; i++) print i }' | head -n 2)
a=${cores%%[!0-9]*} b=${cores##*[!0-9]}
if [ "$a" = "$b" ] || ! ldd "$program" | grep -q 'lib[gi]*omp'; then
    skip "devices on two cores" "one core, or no OpenMP"
else
    on_both="taskset -c $a,$b env"
    stays_on "$a $b" $on_both A=1
    for variable in OMP_PROC_BIND=true OMP_PROC_BIND=close,spread OMP_PLACES=cores "OMP_PLACES={$a},{$b}" "GOMP_CPU_AFFINITY=$a $b"; do
        stays_on "$a $b" $on_both "$variable"
    done
    stays_on "$b" $on_both OMP_PROC_BIND=true "OMP_PLACES={$b}"
    stays_on "$a" taskset -c "$a" env OMP_PROC_BIND=true
    stays_on "$b" taskset -c "$b" env "GOMP_CPU_AFFINITY=$a $b"
fi

# ---- several processes -----------------------------------------------------------------------------------

small="--machine none --devices 1 --epochs 1 --train-size 64 --test-size 1 --batch-size 64"
while IFS='|' read -r variables text; do
    command=$variables
    env $variables "$program" $small >log 2>all_errors </dev/null
    status=$?
    without_remarks <all_errors >error
    if [ "$text" ]; then refused 1 "$text"; else good; fi
    [ -z "$text" ] || [ ! -s log ] || complain "it began all the same"
    verdict "${variables% }: ${text:-it is alone}"
done <<'ROWS'
RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=one|WORLD_SIZE=2 says that torchrun started 2 processes
RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 MASTER_ADDR=one|WORLD_SIZE=2 says that torchrun started 2 processes
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4|mpirun started 4 processes
SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4|srun started 4 processes
SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4 SLURM_PTY_PORT=1|
RANK=0 WORLD_SIZE=1|
ROWS
RANK=1 WORLD_SIZE=2 run $small --out second
good
verdict "with an --out of its own each does what it is told"

# ---- alone without MPI -----------------------------------------------------------------------------------

program=$build/08_many_machines name=08_many_machines
alone="--train --train-size 64 --test-size 10 --batch-size 16 --epochs 1"
command="no folder for temporary files, no PATH"
env TMPDIR=/dev/null PATH=/nowhere OPAL_PREFIX=/nowhere "$program" $alone >log 2>all_errors </dev/null
status=$?
without_remarks <all_errors >error
good
has '1 rank on 1 host, started by hand'
verdict "one process alone: $command"
if script -qec "sh '$root/.make/ranks.sh' 1 env" /dev/null </dev/null >terminal 2>&1; then
    grep -q '^BOOK_TERMINAL=1' terminal
    verdict $? "ranks know of the terminal"
fi
if unshare --uts --net true 2>/dev/null && ldd "$program" | grep -q libmpi && mpirun --version | grep -q 'Open MPI) 4'; then
    unshare --uts sh -c 'hostname "$(printf %058d 0 | tr 0 a)" && exec "$@"' sh sh "$root/.make/ranks.sh" 2 "$program" $alone >log 2>error
    status=$?
    refused 1 "Open MPI 4 .*: aaaa"
    verdict "two ranks: a name that Open MPI has no room for"
fi
echo "1..$tests"
