#!/bin/sh
# arm64.sh: tries the book on 64-bit Arm, on a Debian for x86 and under an emulator: kernels' tests, chapters 2 to 4, and
# right hand-ins, judged by what this machine expects of them. Libraries for Arm are unpacked in build/arm64, and nothing is
# installed. It is not part of `make test`: it takes minutes, and no emulator on x86 shows Arm's weak order of memory.
set -eu
cd "$(dirname "$0")/.."
at=build/arm64
for tool in aarch64-linux-gnu-gcc qemu-aarch64 apt-get dpkg; do
    command -v $tool >/dev/null && continue
    echo "arm64.sh: error: no $tool" >&2
    echo "hint: on Debian: apt install gcc-aarch64-linux-gnu qemu-user" >&2
    exit 1
done

# apt, with lists and folders of its own, takes packages and what they depend on from the places that this machine uses.
if [ ! -e $at/sysroot/done ]; then
    mkdir -p $at/apt/lists/partial $at/apt/cache/archives/partial $at/sysroot
    : >$at/apt/status
    for command in update '-y --no-install-recommends -d install zlib1g-dev libjansson-dev libstb-dev librandom123-dev libcmocka-dev libgomp1'; do
        apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$PWD/$at/apt" \
            -o Dir::State::status="$PWD/$at/apt/status" -o Dir::Cache="$PWD/$at/apt/cache" $command
    done
    for package in $at/apt/cache/archives/*.deb; do dpkg -x "$package" $at/sysroot; done
    : >$at/sysroot/done
fi

labs='03-1 04-3 06-2'
solved='03_split_batch_exercise_1 04_lenet_multi_gpu_exercise_3 06_data_parallel_and_ddp_exercise_2'
chapters='02_get_params_and_allreduce 03_split_batch 04_lenet_multi_gpu'
make report >/dev/null
make wanted WANTED="$(printf 'build/lab/exercises/%s/expected.tsv ' $labs)"
make CUDA=0 BUILD=$at CC="aarch64-linux-gnu-gcc --sysroot=$at/sysroot" LD=aarch64-linux-gnu-ld OBJCOPY=aarch64-linux-gnu-objcopy \
    wanted WANTED="$(printf "$at/%s " tests/test_kernels lab/judge $chapters $(printf 'solved/%s ' $solved))"

export QEMU_LD_PREFIX=$at/sysroot OMP_WAIT_POLICY=passive GOMP_SPINCOUNT=3000 # (else programs start themselves once more)
failed=0
try() { # NAME COMMAND: how it ended, how long it took, and the line that says what came out
    began=$(date +%s) status=ok
    sh -c "$2" >"$at/$1.log" 2>&1 || { status=FAILED && failed=1; }
    printf '%-30s %-6s %5d s  %s\n' "$1" $status $(($(date +%s) - began)) "$(grep -E 'PASSED|^came out|of 10 points' "$at/$1.log" | tail -n 1)"
}
echo "on $(uname -m), $(qemu-aarch64 --version | head -n 1):"
try test_kernels "qemu-aarch64 $at/tests/test_kernels"
for chapter in $chapters; do
    case $chapter in 04*) less='--train-size 2048 --test-size 512 --epochs 1' ;; *) less= ;; esac
    try $chapter "qemu-aarch64 $at/$chapter --quick $less --out $at/plots"
done
for lab in $labs; do
    try "hand-in-$lab" "qemu-aarch64 $at/solved/${solved%% *} --facts $at/facts 1 && qemu-aarch64 $at/lab/judge build/lab/exercises/$lab/expected.tsv $at/facts"
    solved=${solved#* }
done
exit $failed
