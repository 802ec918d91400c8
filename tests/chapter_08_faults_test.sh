#!/bin/sh
# chapter_08_faults_test.sh BUILD: chapter 8's ranks when something breaks: the job ends in time, says why, leaves the
# last checkpoint whole and nobody behind. Prints TAP.
name=08_many_machines
. "$(dirname "$0")/chapter.sh"
. "$root/tests/chapter_08_ranks.sh"
has_mpi || skip_all "faults of ranks" "no MPI"
pid=
clean_up() {
    # shellcheck disable=SC2046
    kill -9 $pid $(pgrep -f "^$mine") 2>/dev/null
    [ -d disk ] && umount "$out/disk" 2>/dev/null
    rm -rf "$out"
}
trap clean_up EXIT
small="--train-size 256 --test-size 50 --batch-size 16 --timeout 3"
trains 4 --epochs 1 --checkpoint one
trains 4 --epochs 2 --resume one --checkpoint two
second=$(checksum)
verdict "a checkpoint to begin with" # 4 steps in an epoch

while IFS='|' read -r faults times text; do # planted; what is left is a checkpoint that the training goes on from
    for fault in $faults; do
        rank=${fault#*:}
        cp one last
        train 4 --epochs 2 --resume last --plant $fault
        failed_with "$(echo "$text" | sed "s/RANK/rank ${rank%@*}/")" $times
        [ $took -le 20 ] || complain "after $took s"
        [ $times = 3 ] || [ "$(grep -c '^hint: ' error)" -eq 1 ] || complain "not one hint"
        cmp one last >>problems
        verdict "$fault: the job ends, and says so $times times"
    done
done <<'ROWS'
kill:0@7 kill:2@7 exit:2@7|1|RANK on .* has ended in the middle of its work
stop:0@7 stop:2@7|3|RANK on .* has not reached [a-z_]* [0-9]* (.*step 7): it has not answered for 3 s
memory:2@7|1|out of memory
nan:2@7|1|the loss became nan at step 7
ROWS
trains 4 --epochs 2 --resume last --checkpoint next
same_bits "$second"
verdict "and the training goes on from the checkpoint, to the same bits"
train 4 --epochs 2 --plant kill:3@1 --checkpoint never
failed_with 'rank 3'
[ ! -e never ] || complain "a checkpoint"
verdict "killed before there was a checkpoint"
ranks 3 --train $small : -np 1 sh -c "sleep 40; exec $mine --train $small"
failed_with 'not all ranks have come together within 3 s'
[ $took -le 12 ] || complain "after $took s"
verdict "a rank that starts when the others have given up"

# A folder whose file system has no room for a second checkpoint.
if [ "$(id -u)" = 0 ] && mkdir disk && mount -t tmpfs -o size=800k none disk 2>/dev/null; then
    cp one disk/last
    train 4 --epochs 2 --resume disk/last
    failed_with 'disk/last.*No space left'
    cmp one disk/last >>problems
    [ "$(ls disk)" = last ] || complain "$(ls disk)"
    verdict "disk full on rank 0: the old checkpoint is whole, and alone"
    umount disk
else
    skip "disk full on rank 0" "only root can have a small disk"
fi

# ---- asked to stop ---------------------------------------------------------------------------------------

long="--train --train-size 512 --test-size 20 --batch-size 4 --epochs 10000"
start() { # a long training of 3 ranks, until it is in its second epoch
    rm -f last
    : >log # now: what follows is in the background, and the last run's lines would be taken for its own
    sh "$start_ranks" 3 "$mine" $long --checkpoint last "$@" >log 2>error </dev/null &
    pid=$!
    tries=600
    while ! grep -q 'epoch 1:' log && [ $tries -gt 0 ]; do
        sleep 0.05
        tries=$((tries - 1))
    done
    [ $tries -gt 0 ] || complain "it does not begin"
}
ends() { # within 15 seconds, not well; nobody and nothing is left, and it goes on for a step
    tries=300
    while [ $tries -gt 0 ]; do
        case $(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null) in '' | Z*) break ;; esac
        sleep 0.05
        tries=$((tries - 1))
    done
    [ $tries -gt 0 ] || { complain "it does not end"; kill -9 $pid; }
    wait $pid 2>/dev/null && complain "status 0"
    pid=
    nobody_left
    [ $signal = KILL ] || find . -name '*.tmp.*' >>problems
    cp log ended
    cp error said
    epochs=$(grep -a -o '"epoch" *: *"[0-9]*"' last | head -n 1 | tr -dc 0-9) # of 43 steps
    ranks 3 $long --steps $((43 * epochs + 1)) --resume last --checkpoint next || complain "it does not go on"
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
while IFS='|' read -r signal whom ended said flags; do
    start $flags
    case $whom in mpirun) kill -s $signal $pid ;; *) kill -s $signal "$(rank_number $whom)" || complain "no rank $whom" ;; esac
    ends
    grep -q "$ended" ended || complain "not '$ended'"
    case $said in '*') ;; '') ! grep 'error: ' said >>problems ;; *) grep -q "$said" said || complain "not '$said'" ;; esac
    verdict "SIG$signal to $whom: all stop, and go on from their last checkpoint"
done <<'ROWS'
TERM|0|stopped after [0-9]* steps, on all ranks||
TERM|2|stopped after [0-9]* steps, on all ranks||
INT|0|stopped after [0-9]* steps, on all ranks||
INT|2|stopped after [0-9]* steps, on all ranks||
TERM|mpirun|.||
INT|mpirun|.||
KILL|1|.|error: rank 1 on .* has ended|
STOP|1|.|error: rank 1 on .* has not answered|--timeout 3
KILL|mpirun|.|*|
ROWS
echo "1..$tests"
