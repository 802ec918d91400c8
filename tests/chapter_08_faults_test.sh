#!/bin/sh
# chapter_08_faults_test.sh BUILD: chapter 8's ranks when something breaks: the job ends in time, says why, leaves the
# last checkpoint whole and nobody behind. Prints TAP.
name=08_many_machines
. "$(dirname "$0")/chapter.sh"
. "$(dirname "$0")/chapter_08_ranks.sh"
if ! has_mpi; then
    skip "faults of ranks" "no MPI"
    echo "1..$tests"
    exit
fi
pid=
clean_up() {
    # shellcheck disable=SC2046
    kill -9 $pid $(pgrep -f "^$mine") 2>/dev/null
    [ -d disk ] && umount "$out/disk" 2>/dev/null
    rm -rf "$out"
}
trap clean_up EXIT
small="--train-size 256 --test-size 50 --batch-size 16 --timeout 3"
train 4 --epochs 1 --checkpoint one && train 4 --epochs 2 --resume one --checkpoint two && second=$(checksum) && [ -n "$second" ]
verdict $? "a checkpoint to begin with" # 4 steps in an epoch

# What is left is a checkpoint that the training goes on from, to the same bits.
is_whole() { train 4 --epochs 2 --resume last --checkpoint next && [ "$(checksum)" = "$second" ]; }
planted() { # FAULT SECONDS TEXT
    cp one last
    train 4 --epochs 2 --resume last --plant "$1"
    [ "$status" -ne 0 ] && [ $took -le "$2" ] && grep -q -e "$3" error && nobody_left && cmp -s one last
    verdict $? "$1: the job ends within $2 s, with status $status"
}
said_once() { [ "$(grep -c 'error: ' error)" -eq 1 ] && [ "$(grep -c '^hint: ' error)" -eq 1 ]; }
for rank in 0 2; do
    planted kill:$rank@7 20 "error: rank $rank on .* has ended in the middle of its work"
    said_once
    verdict $? "which is said once"
    planted stop:$rank@7 20 "error: rank $rank on .* has not reached [a-z_]* [0-9]* (.*step 7): it has not answered for 3 s"
    [ "$(grep -c "error: rank $rank on" error)" -eq 3 ]
    verdict $? "each of the others says so"
    planted exit:$rank@7 20 "error: rank $rank on .* has ended in the middle of its work"
    said_once
    verdict $? "which is said once"
    planted memory:$rank@7 20 "rank $rank: error: out of memory"
    said_once
    verdict $? "and nobody else is blamed"
    planted nan:$rank@7 20 'rank 0: error: the loss became nan at step 7'
    [ "$(grep -c 'error: the loss' error)" -eq 1 ]
    verdict $? "which is said once"
done
is_whole
verdict $? "and the training goes on from the checkpoint, to the same bits"
planted stop:1@5 20 'step 5' # the first step of this process: other ranks are in its first collective
train 4 --epochs 2 --plant kill:3@1 --checkpoint never
[ "$status" -ne 0 ] && [ ! -e never ] && nobody_left
verdict $? "killed before there was a checkpoint"
train 4 --exchange fusion --plant stop:1@3
failed_with 'rank 1 on .* has not reached gather'
verdict $? "--exchange fusion: one stops"
train 4 --hierarchical --ranks-per-host 2 --plant stop:1@3
failed_with 'rank 1 on .* has not reached '
verdict $? "--hierarchical: one stops, with whom others are in no group"
train 2 --collective mpi --plant stop:0@3
failed_with 'rank 0 on .* has not reached all_reduce'
verdict $? "--collective mpi: one stops"

# A rank that starts when the others have given up.
ranks 3 --train $small : -np 1 sh -c "sleep 40; exec $mine --train $small"
failed_with 'not all ranks have come together within 3 s' && [ $took -le 12 ]
verdict $? "one comes too late"
ranks 3 --train $small --epochs 1 : -np 1 sh -c "sleep 1.5; exec $mine --out plots --train $small --epochs 1"
[ "$status" -eq 0 ] && has 'on all 4 ranks' && [ ! -s error ]
verdict $? "one comes late, and in time"

# ---- the disk is full ------------------------------------------------------------------------------------

# A folder whose file system has no room for a second checkpoint.
full_disk() {
    mkdir -p disk && mount -t tmpfs -o size=800k none disk 2>/dev/null
}
if [ "$(id -u)" = 0 ] && full_disk; then
    cp one disk/last
    train 4 --epochs 2 --resume disk/last
    failed_with 'disk/last.*No space left' && cmp -s one disk/last && [ "$(ls disk)" = last ]
    verdict $? "disk full on rank 0: the old checkpoint is whole, and alone"
    umount disk
else
    skip "disk full on rank 0" "only root can have a small disk"
fi
train 4 --epochs 1 --checkpoint /dev/full
failed_with '/dev/full.*No space left'
verdict $? "--checkpoint /dev/full"

# ---- asked to stop ---------------------------------------------------------------------------------------

# Starts a long training of 3 ranks; waits until it is in its second epoch.
start() {
    rm -f last
    : >log # now: what follows is in the background, and the last run's lines would be taken for its own
    sh "$start_ranks" 3 "$mine" --out plots --train --train-size 512 --test-size 20 --batch-size 4 --epochs 10000 --checkpoint last "$@" >log 2>error </dev/null &
    pid=$!
    tries=600
    while ! grep -q 'epoch 1:' log && [ $tries -gt 0 ]; do
        sleep 0.05
        tries=$((tries - 1))
    done
    [ $tries -gt 0 ]
}
ends() { # within 15 seconds; its status is in $status
    tries=300
    while [ $tries -gt 0 ] && kill -0 $pid 2>/dev/null; do
        case $(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null) in '' | Z*) break ;; esac
        sleep 0.05
        tries=$((tries - 1))
    done
    [ $tries -gt 0 ] || kill -9 $pid
    wait $pid 2>/dev/null
    status=$?
    pid=
    [ $tries -gt 0 ] && nobody_left && [ -z "$(find . -name '*.tmp.*' | tee -a error)" ]
}
rank_number() { # RANK: its process, and not the witness of its end, a child with the same environment
    for attempt in 1 2 3 4 5 6 7 8 9 10; do
        for process in $(pgrep -f "^$mine"); do
            [ "$(cat "/proc/$process/comm" 2>/dev/null)" != witness ] || continue
            tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$1" && echo "$process" && return
        done
        sleep 0.1
    done
}
goes_on() { # for a step
    steps=$(grep -a -o '"step" *: *"[0-9]*"' last | head -n 1 | tr -dc 0-9)
    ranks 3 --train --train-size 512 --test-size 20 --batch-size 4 --epochs 10000 --steps $((steps + 1)) --resume last --checkpoint next
}
for signal in TERM INT; do
    for rank in 0 2; do
        start && one=$(rank_number $rank) && kill -s $signal "$one" && ends && [ $status -ne 0 ] &&
            grep -q 'stopped after [0-9]* steps, on all ranks' log && ! grep -q 'error: ' error && goes_on
        verdict $? "SIG$signal to rank $rank: all stop in the same step"
    done
    start && kill -s $signal $pid && ends && [ $status -ne 0 ] && ! grep -q 'error: ' error && goes_on
    verdict $? "SIG$signal to mpirun: the job ends, and goes on from its last checkpoint"
done
start && kill -9 "$(rank_number 1)" && ends && [ $status -ne 0 ] && grep -q 'error: rank 1 on .* has ended' error && said_once && goes_on
verdict $? "SIGKILL to a rank"
start --timeout 3 && kill -s STOP "$(rank_number 1)" && ends && [ $status -ne 0 ] && grep -q 'rank 1 on .* has not answered' error && goes_on
verdict $? "SIGSTOP to a rank"
start && kill -9 $pid
wait $pid 2>/dev/null
pid=
nobody_left && goes_on
verdict $? "SIGKILL to mpirun leaves nobody behind"
echo "1..$tests"
