#!/bin/sh
# chapter_08_test.sh BUILD: chapter 8's ranks train together: with the bits of one process, from checkpoints, and not at
# all if they disagree. What happens when a rank dies is in chapter_08_faults_test.sh. Prints TAP.
name=08_many_machines
. "$(dirname "$0")/chapter.sh"
. "$(dirname "$0")/chapter_08_ranks.sh"
small="--train-size 203 --test-size 50 --batch-size 13 --epochs 1" # no size divides another

# ---- one process, which needs no mpirun ------------------------------------------------------------------

ranks 0 --train-size 300 --test-size 50 --batch-size 8 --epochs 1 --predict
verdict $? "the whole program as one rank, without mpirun"
[ ! -s error ] && ! grep -qi 'nan\|inf ' log && has '^1 rank on 1 host, started by hand'
verdict $? "it says nothing on stderr, and prints no NaN"
has 'these trainings take 2048 images' && is_png "plots/${name}_scaling.png" && [ -s "plots/${name}_scaling.csv" ]
verdict $? "its table and its picture; what --train-size is too small for is left out"

refused() { # STATUS TEXT FLAGS: by a process alone
    expected=$1 text=$2
    shift 2
    ranks 0 "$@"
    [ $status -eq "$expected" ] && [ ! -s log ] && [ "$(wc -l <error)" -eq 2 ] && grep -q -e "error: .*$text" error && grep -q '^hint: ' error
    verdict $? "refused: $*"
}
refused 2 'exclude each other' --hierarchical --exchange fusion
refused 2 'devices-per-rank: not a possible value' --devices-per-rank 17
for fault in nonsense stop stop:0 stop:0@ stop:-1@1 stop:0@0 stop:0@1x crash:0@1; do
    refused 2 "plant" --plant $fault $small
done
for seconds in 0 0.1 nan 1e30 -3; do refused 2 'timeout: not a possible value' --timeout $seconds; done
for milliseconds in 1001 inf -1; do refused 2 'cycle: not a possible value' --cycle $milliseconds; done
refused 2 'ranks exchange values' --backend model --machine dgx-a100
refused 2 'machine dgx-a100' --machine dgx-a100
refused 2 'rule: not a possible value' --rule cube
refused 2 'epochs: not a possible value' --epochs 0
refused 2 'bucket: not a possible value' --bucket 0
refused 2 'allreduce' --allreduce ring # it is called --collective here
# (What comes after the flags is said with the ranks' names and tables, so there is a log.)
train 0 --plant stop:1@1
[ $status -eq 2 ] && grep -q 'there are 1 ranks and 16 steps' error
verdict $? "refused: a fault of a rank that there is not"
train 0 --plant nan:0@17
[ $status -eq 2 ] && grep -q 'there are 1 ranks and 16 steps' error
verdict $? "refused: a fault in a step that does not come"
train 0 --plant nan:0@3 --checkpoint none
[ $status -eq 1 ] && grep -q 'the loss became nan at step 3' error && [ ! -e none ]
verdict $? "the loss of one rank becomes NaN"

# What srun starts without PMI is so many processes that know nothing of each other.
wrong_launch() { # TEXT VARIABLE=VALUE..
    text=$1
    shift
    env "$@" timeout -k 1 30 "$mine" --train $small >log 2>error </dev/null
    status=$?
    [ $status -ne 0 ] && [ $status -ne 124 ] && [ ! -s log ] && grep -q "error: $text" error
    verdict $? "refused: a launch with $*"
}
# (The others leave it to the first one to say so.)
env SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=1 timeout -k 1 30 "$mine" --train $small >log 2>error </dev/null
status=$?
[ $status -ne 0 ] && [ $status -ne 124 ] && [ ! -s log ] && [ ! -s error ]
verdict $? "refused: the same, of another rank than the first"
wrong_launch 'srun started 4 processes, but each is a world of 1' SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0
wrong_launch 'mpiexec started 2 processes, but each is a world of 1' PMI_SIZE=2 PMI_RANK=0
wrong_launch 'mpirun started 4 processes, but each is a world of 1' OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0
env SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 "$mine" --train $small >log 2>error </dev/null && has 'on all 1 rank'
verdict $? "one task of a batch script is one rank"

train 0 --devices-per-rank 2 && two=$(checksum) && [ -n "$two" ] && train 0 --devices-per-rank 2 --threads 1 && [ "$(checksum)" = "$two" ] &&
    train 0 --devices-per-rank 2 --threads 3 && [ "$(checksum)" = "$two" ]
verdict $? "any number of threads: the same bits"
train 0 --devices-per-rank 2 --seed 1 && [ -n "$(checksum)" ] && [ "$(checksum)" != "$two" ]
verdict $? "another seed: other bits"

if ! has_mpi; then
    skip "many ranks" "no MPI"
    echo "1..$tests"
    exit
fi

# ---- the same bits ---------------------------------------------------------------------------------------

same_bits() { # DEVICES RANKS FLAGS: as many devices on so many ranks, against one process; the first time without mpirun
    devices=$1 many=$2
    shift 2
    train 0 --devices-per-rank "$devices" $reference && one=$(checksum) && train "$many" --devices-per-rank $((devices / many)) "$@" &&
        [ -n "$one" ] && [ "$(checksum)" = "$one" ] && has "on all $many ranks" && [ ! -s error ]
    verdict $? "$many x $((devices / many)) devices: $*: the bits of one process"
}
reference="--collective star" && same_bits 4 4 --collective star --exchange tensors
reference="--collective sharded --bucket 64" && same_bits 4 4 --collective sharded --exchange fusion --fusion 128
same_bits 4 2 --collective sharded --threads 1
same_bits 3 3 --collective star --exchange fusion # star and sharded add in one order
reference="--collective tree" && same_bits 4 4 --collective tree --bucket 16
reference="--collective tree --exchange tensors" && same_bits 3 3 --collective tree --exchange fusion
reference="--collective ring" && same_bits 4 2 --collective ring
reference="--collective ring --bucket 64" && same_bits 3 3 --collective ring --bucket 64
lenet=$small
small="--network resnet18 --train-size 11 --test-size 5 --batch-size 3 --epochs 1"
reference="--collective sharded" && same_bits 2 2 --collective sharded
has 'test acc 0\.' && cp log first && train 0 --devices-per-rank 2 && [ "$(grep -o 'test acc .*,' log)" = "$(grep -o 'test acc .*,' first)" ]
verdict $? "ResNet-18: the accuracy of one process"
small=$lenet

train 2 --collective mpi && [ -n "$(checksum)" ]
verdict $? "--collective mpi: the same parameters on both ranks"
train 2 --trace trace.json --timeline line.png && [ "$(grep -c 'trace.json$' log)" -eq 1 ] && [ "$(grep -c 'epoch 1:' log)" -eq 1 ] && [ "$(tail -c 2 trace.json | head -c 1)" = '}' ] && is_png line.png
verdict $? "--trace and --timeline are written by rank 0 alone"

# More ranks than images, or one image.
train 4 --train-size 3 --test-size 1 && [ -n "$(checksum)" ] && ! grep -qi 'nan' log && cp log first &&
    train 0 --devices-per-rank 4 --train-size 3 --test-size 1 && [ "$(checksum)" = "$(sed -n 's/.*parameters \([0-9a-f]*\) on.*/\1/p' first)" ]
verdict $? "4 ranks, 3 images, 1 to test"
train 2 --steps 0 && has ' 0 steps; parameters'
verdict $? "--steps 0"

# ---- disagreement ----------------------------------------------------------------------------------------

# Of all that ranks have in common, only what differs is quoted: that is all of the line.
disagree() { # TEXT A B: rank 0 has flags A, ranks 1 and 2 have flags B
    text=$1
    rank_0=$2
    others=$3
    ranks 1 --train $small $rank_0 : -np 2 ${other:-$mine} --train $small $others
    failed_with "$text\$" && [ "$(grep -c 'error: ' error)" -eq 1 ]
    verdict $? "refused: $rank_0 and $others${other:+, another program or another CPU}"
}
disagree 'ranks 1 and 2 have --lr 0.2, rank 0 has 0.1' '--lr 0.1' '--lr 0.2'
disagree 'ranks 1 and 2 have --lr 0.10000002, rank 0 has 0.1' '--lr 0.1' '--lr 0.10000002'
disagree 'ranks 1 and 2 have a training set of 202 images, rank 0 has 203 images' '--threads 1' '--train-size 202'
disagree 'ranks 1 and 2 have --devices-per-rank 2, rank 0 has 1' '--threads 1' '--devices-per-rank 2'
disagree 'ranks 1 and 2 have --timeout 7, rank 0 has 60' '--threads 1' '--timeout 7'
disagree 'ranks 1 and 2 have --checkpoint FILE, rank 0 has none' '--threads 1' '--checkpoint one'
disagree 'ranks 1 and 2 have --network resnet18, rank 0 has lenet' '--lr 0.1' '--network resnet18 --lr 0.1'
disagree 'ranks 1 and 2 have --seed 18446744073709551615, rank 0 has 0' '--seed 0' '--seed 18446744073709551615'
# Other images under the same names: one byte of them differs.
one_byte_differs() { # the folder with the data, a copy with another first image
    cp -r "$1" data && chmod -R u+w data && gunzip -f data/*.gz 2>/dev/null
    printf 'x' | dd of=data/train-images-idx3-ubyte bs=1 seek=400 conv=notrunc 2>/dev/null
}
images=${FASHION_MNIST_DIR:-/usr/share/datasets/fashion-mnist}
if [ -d "$images" ] && one_byte_differs "$images"; then
    disagree 'ranks 1 and 2 have a training set with the checksum [0-9a-f]*, rank 0 has [0-9a-f]*' '--threads 1' '--data data'
else
    skip "other images" "they are not in $images"
fi
ranks 2 --train $small : -np 1 "$mine" --train $small --lr 0.3
failed_with 'rank 2 on .* has --lr 0.3, rank 0 has 0.05$'
verdict $? "refused: one rank has another --lr"
mkdir other && cp "$program" "other/$name" && printf 'x' >>"other/$name"
other=$out/other/$name
disagree 'ranks 1 and 2 have a program with the checksum [0-9a-f]*, rank 0 has [0-9a-f]*' '--lr 0.1' '--lr 0.1'
other=
if [ -z "${CPU:-}" ] && grep -q avx2 /proc/cpuinfo; then
    other="env CPU=v1 $mine"
    disagree 'ranks 1 and 2 have a device of the kind CPU with SSE2 (CPU=v1), rank 0 has CPU with AVX.* (CPU=v[34])' '--lr 0.1' '--lr 0.1'
    other=
else
    skip "other instructions" "there are none here, or CPU says which"
fi

# ---- refused on many ranks, and said once ----------------------------------------------------------------

once() { # STATUS TEXT FLAGS. (mpirun's own status is that of the first rank that ended.)
    expected=$1 text=$2
    shift 2
    ranks 3 "$@"
    [ $status -eq "$expected" ] && [ "$(grep -c 'error: ' error)" -eq 1 ] && [ "$(grep -c '^hint: ' error)" -eq 1 ] && failed_with "$text"
    verdict $? "refused, and said once: $*"
}
once 2 'not a possible value: .x' --train --plant x
once 1 'hierarchical: the hosts have different numbers of ranks' --train $small --ranks-per-host 2 --hierarchical
once 1 'hierarchical: a rank has several devices' --train $small --devices-per-rank 2 --hierarchical
once 1 'cannot read' --train $small --resume nothing
once 2 'there are 3 ranks and ' --train $small --plant stop:9@1
once 1 '/nonexistent' --train $small --data /nonexistent
once 1 'no NCCL' --train $small --collective nccl --backend cpu

# ---- checkpoints -----------------------------------------------------------------------------------------

train 2 --epochs 3 && whole=$(checksum)
train 2 --epochs 1 --checkpoint one && train 2 --epochs 3 --resume one --checkpoint three && [ -n "$whole" ] && [ "$(checksum)" = "$whole" ] && ! has 'not to the bit'
verdict $? "broken off after epoch 1 and gone on with: the bits of the training that was left alone"
lenet=$small
small="--network resnet18 --train-size 6 --test-size 2 --batch-size 3"
train 0 --epochs 2 && resnet=$(checksum) && train 0 --epochs 1 --checkpoint r && train 0 --epochs 2 --resume r &&
    [ -n "$resnet" ] && [ "$(checksum)" = "$resnet" ]
verdict $? "so it is with ResNet-18, whose batch norm trains on after an evaluation"
small=$lenet
cp three four
train 2 --epochs 3 --resume four && [ "$(checksum)" = "$whole" ] && cmp -s three four
verdict $? "a training that was at its end"
train 3 --epochs 3 --resume one --checkpoint next && tr '\n' ' ' <log | tr -s ' ' | grep -q 'is of 2 devices, and here are 3\. .*not to the bit' && has ' 18 steps; parameters' && train 2 --epochs 3 --resume next
verdict $? "--resume on another number of ranks, which says what changes"
train 2 --epochs 2 --steps 11 --checkpoint part && train 2 --epochs 3 --resume part --checkpoint next && [ "$(checksum)" = "$whole" ]
verdict $? "--steps may end within an epoch, which is then not in the checkpoint"
for flags in '--seed 5' '--lr 0.05000001' '--lr 0.06' '--batch-size 12' '--rule sqrt' '--network resnet18' '--train-size 202'; do
    # shellcheck disable=SC2086
    train 0 --epochs 3 --resume one --checkpoint next $flags
    [ $status -eq 1 ] && grep -q 'one: was written with lenet, 13 images .* --lr 0.05, .*; now: ' error
    verdict $? "--resume $flags is refused, with both values"
done
head -c 3000 one >damaged
train 2 --epochs 3 --resume damaged --checkpoint next
failed_with 'damaged: '
verdict $? "half a checkpoint"
damaged() { # SED-EXPRESSION TEXT: what the checkpoint says is changed, and the length of its header with it
    LC_ALL=C sed "$1" one >body
    length=$(($(od -An -tu4 -N4 one) + $(wc -c <body) - $(wc -c <one)))
    printf "$(printf '\\%03o\\%03o\\0\\0\\0\\0\\0\\0' $((length % 256)) $((length / 256)))" >damaged
    tail -c +9 body >>damaged
    train 2 --epochs 3 --resume damaged --checkpoint next
    failed_with "damaged: $2" && [ "$(grep -c 'error: ' error)" -eq 1 ]
    verdict $? "a damaged checkpoint: $1"
}
damaged 's/"step":"8"/"step":"9223372036854775807"/' '9223372036854775807 minibatches are not the 1 epochs'
damaged 's/"epoch":"1"/"epoch":"4"/;s/"step":"8"/"step":"1"/' '1 minibatches are not the 4 epochs'
damaged 's/"epoch":"1"/"epoch":"1000000"/;s/"step":"8"/"step":"8000000"/' 'is after minibatch 8000000, the training ends after 24'
damaged 's/devices 2/devices 4294967298/' 'does not say its devices, its loss and its accuracy'
train 2 --epochs 3 --resume plots --checkpoint next
failed_with 'plots'
verdict $? "a folder is no checkpoint"
train 2 --epochs 2 --resume one --save one
failed_with 'save'
verdict $? "there is no --save"
find . -name '*.tmp.*' >error
[ ! -s error ]
verdict $? "nothing half-written is left"
echo "1..$tests"
