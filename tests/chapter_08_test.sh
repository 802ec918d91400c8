#!/bin/sh
# chapter_08_test.sh BUILD: chapter 8's ranks train together: with the bits of one process, from checkpoints, and not at
# all if they disagree. (All sums and exchanges: test_many_machines.c. What happens when a rank dies:
# chapter_08_faults_test.sh.) Prints TAP.
name=08_many_machines
. "$(dirname "$0")/chapter.sh"
. "$root/tests/chapter_08_ranks.sh"
small="--train-size 203 --test-size 50 --batch-size 13 --epochs 1" # no size divides another

# ---- one process, which needs no mpirun ------------------------------------------------------------------

ranks 0 --train-size 300 --test-size 50 --batch-size 8 --epochs 1 --predict
good
has '1 rank on 1 host, started by hand' 'these training runs need' # more than there are: left out
verdict "the whole program as one rank, without mpirun"
ranks 0 --backend model --machine p100-25gbe
good
figures plots/${name}_scaling.csv 'NR > 1 && !($4 > 0.3 && $4 < 1)'
verdict "--backend model --machine p100-25gbe: the modelled efficiencies alone"
refusals <<'ROWS'
2 plant | --plant nonsense; --plant stop; --plant stop:0; --plant stop:0@; --plant stop:-1@1; --plant stop:0@0; --plant crash:0@1
2 timeout: not a possible value | --timeout 0; --timeout 0.1; --timeout nan; --timeout 1e30
2 not a possible value | --epochs 0
2 | --machine dgx-a100; --backend model --machine dgx-a100; --allreduce ring; --resume one --save one
1 the loss became nan at step 3 | --plant nan:0@3 --checkpoint none
ROWS
for fault in stop:1@1 nan:0@17; do
    run --plant $fault
    refused 2 'there are 1 ranks and 16 steps'
    verdict "refused: a fault of a rank that there is not, or in a step that does not come"
done
if ! has_mpi; then
    skip "many ranks" "no MPI"
    echo "1..$tests"
    exit
fi

# ---- the same bits ---------------------------------------------------------------------------------------

# (That ranks have the bits of one process: test_many_machines.c. Here, that threads change none of them.)
trains 4 --trace trace.json --timeline line.png
one=$(checksum)
[ "$(tail -c 2 trace.json)" = '}' ] && [ "$(grep -c 'trace.json$' log)" -eq 1 ] || complain "not one trace"
is_png line.png
verdict "--trace and --timeline are written by rank 0 alone"
trains 4 --threads 2
same_bits "$one"
verdict "4 ranks with 2 threads each: the same bits"
trains 4 --train-size 3 --test-size 1
other=$(checksum)
trains 4 --train-size 3 --test-size 1 --seed 1
[ "$other" ] && [ "$(checksum)" != "$other" ] || complain "the same bits"
verdict "another seed: other bits; a rank without images"

# ---- disagreement ----------------------------------------------------------------------------------------

# Of all that ranks have in common, only what differs is quoted: that is all of the line. Ranks 1 and 2 have other flags.
cp -r data data_2
printf 'x' | dd of=data_2/train-images-idx3-ubyte bs=1 seek=400 conv=notrunc 2>/dev/null
mkdir other
{ cat "$program"; printf 'x'; } >"other/$name"
chmod +x "other/$name"
while IFS='|' read -r other text rank_0 others; do
    case $other in "env BOOK"*) [ -z "${BOOK_ISA:-}" ] && grep -q avx2 /proc/cpuinfo || { skip "other instructions" "none"; continue; } ;; esac
    case $other in '') other=$mine ;; *BOOK*) other="$other $mine" ;; esac
    ranks 1 --train $small $rank_0 : -np 2 $other --train $small $others
    failed_with "rank 1 on [a-z0-9-]* has $text\$" 1
    verdict "refused: $text"
done <<ROWS
|--lr 0.10000002, rank 0 has --lr 0.1|--lr 0.1|--lr 0.10000002
|202 training and 50 test images, rank 0 has 203 training and 50 test images||--train-size 202
|--timeout 7, rank 0 has --timeout 60||--timeout 7
|--checkpoint FILE, rank 0 has --checkpoint none||--checkpoint one
|--quick on, rank 0 has --quick off||--quick
|--seed 18446744073709551615, rank 0 has --seed 0||--seed 18446744073709551615
|training and test images with the checksums [0-9a-f]* and [0-9a-f]*, rank 0 has training and test images with .*||--data data_2
$out/other/$name|a program with the checksum [0-9a-f]*, rank 0 has a program with the checksum [0-9a-f]*||
env BOOK_ISA=v1|a device of the kind CPU with SSE2 (BOOK_ISA=v1), rank 0 has a device of the kind CPU with AVX.* (BOOK_ISA=v[34])||
ROWS

# Refused on many ranks, and said once. (mpirun's own status is that of the first rank that ended.)
while IFS='|' read -r expected text flags; do
    ranks 3 $flags
    [ $status -eq "$expected" ] || complain "status $status"
    failed_with "$text" 1
    verdict "refused, and said once: $flags"
done <<ROWS
2|not a possible value: .x|--train --plant x
1|cannot read|--train $small --resume nothing
2|there are 3 ranks and |--train $small --plant stop:9@1
1|/nonexistent|--train $small --data /nonexistent
ROWS

# Where /sys is not there, as in a chroot, MPI's library has nothing to say about it.
cat >without_sys.sh <<END
exec unshare -m sh -c 'mount -t tmpfs none /sys && exec sh "\$@"' sh "$start_ranks" "\$@"
END
if unshare -m mount -t tmpfs none /sys 2>/dev/null; then
    kept=$start_ranks start_ranks=$out/without_sys.sh
    trains 2 --epochs 1
    start_ranks=$kept
    verdict "two ranks without /sys"
else
    skip "two ranks without /sys" "it cannot be hidden here"
fi

# ---- checkpoints -----------------------------------------------------------------------------------------

trains 2 --epochs 3
has 'rate 0\.05 for one, 0\.1 for all .rule: linear.' "summed by 'sharded'" 'epoch 1: train loss 2\.3' # LeNet's plateau, ln 10
whole=$(checksum)
trains 2 --epochs 1 --checkpoint one
trains 2 --epochs 3 --resume one --checkpoint three
same_bits "$whole"
lacks 'not to the bit'
cp three four
trains 2 --epochs 3 --resume four
same_bits "$whole"
cmp three four >>problems
trains 2 --epochs 2 --steps 11 --checkpoint part # --steps may end within an epoch, which is then not in the checkpoint
trains 2 --epochs 3 --resume part --checkpoint next
same_bits "$whole"
verdict "broken off and gone on with, or at its end: the bits of the training that was left alone"
trains 3 --epochs 3 --resume one --checkpoint next
has 'is of 2 ranks, and here are 3' 'not to the bit' ' 18 steps; parameters'
trains 2 --epochs 3 --resume next
verdict "--resume on another number of ranks, which says what changes"

head -c 3000 one >half
sed 's/"history":"2"/"history":"x"/' one >unsaid
run() { train 0 --epochs 3 --checkpoint next --resume "$@"; }
refusals <<'ROWS'
1 one: was written with 13 images .* --lr 0.05, .*; now: | one --seed 5; one --lr 0.05000001; one --batch-size 12; one --train-size 202
1 three: is after epoch 3, the training ends after 2 | three --epochs 2
1 half: | half
1 unsaid: the number of ranks is no whole number above 0 | unsaid
1 plots | plots
ROWS
[ -z "$(find . -name '*.tmp.*')" ] && [ ! -e none ]
verdict $? "nothing half-written is left"
echo "1..$tests"
