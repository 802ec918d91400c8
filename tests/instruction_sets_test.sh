#!/bin/sh
# instruction_sets_test.sh BUILD: the CPU kernels of the oldest instruction set and of the second best that this CPU
# runs, not only of the best, which all other tests use: the tests of arithmetic, and chapter 1 at its own size, which
# compares what it computes in many ways (with the best one the book runs it). (v2 is v1 with some other instructions.)
# And that BOOK_ISA in the environment is refused where it must be. Prints TAP.
. "$(dirname "$0")/tap.sh"
CUDA_VISIBLE_DEVICES= # CPU devices, whatever the machine has
export CUDA_VISIBLE_DEVICES
unset BOOK_ISA
export CPU=x86_64 # SUSE's /etc/profile does that
out=$work
chapter=
trap '[ -n "$chapter" ] && kill $chapter 2>/dev/null; rm -rf "$out"' EXIT
shown=$out/stderr
opens_a_device() { # with BOOK_ISA=$1
    BOOK_ISA=$1 "$build"/04_lenet_multi_gpu --backend cpu --devices 1 --steps 0 --train-size 1 --test-size 1 \
        --out "$out" >"$out/stdout" 2>"$out/stderr"
}
is_refused() { # BOOK_ISA=$1, with $2: one line of error and one of hint
    opens_a_device "$1"
    status=$?
    grep -v 'no gnuplot' "$out/stderr" >"$out/said"
    [ $status -eq 1 ] && [ "$(wc -l <"$out/said")" -eq 2 ] &&
        sed -n 1p "$out/said" | grep -q "^04_lenet_multi_gpu: error: BOOK_ISA=$1.*$2" && sed -n 2p "$out/said" | grep -q '^hint: '
}

is_refused nonsense 'names no instruction set'
verdict $? "BOOK_ISA=nonsense: an error and a hint"

case $(uname -m) in
x86_64 | amd64) ;;
*)
    skip "each instruction set" "$(uname -m) has one, which all other tests use"
    echo "1..$tests"
    exit 0
    ;;
esac

sets= best=
for set in v1 v2 v3 v4; do # from the oldest, so the last one that runs is the best
    if opens_a_device $set; then
        sets="$sets $set" best=$set
    else
        is_refused $set 'this CPU has no'
        verdict $? "BOOK_ISA=$set, which this CPU does not have: an error and a hint"
    fi
done
[ -n "$best" ]
verdict $? "one instruction set at least runs"
sets=${sets% "$best"}

# Without BOOK_ISA in the environment it is the best one (they round differently: one step tells them apart).
one_step() { # [SET]
    BOOK_ISA=$1 "$build"/04_lenet_multi_gpu --backend cpu --devices 1 --epochs 1 --train-size 64 --batch-size 64 --test-size 1 \
        --save "$out/saved_$1" --out "$out" >"$out/stdout" 2>"$out/stderr"
}
one_step '' && one_step "$best" && cmp "$out/saved_" "$out/saved_$best" 2>>"$out/stderr"
verdict $? "it is $best that is used"
if [ "$sets" ]; then
    one_step v1 && ! cmp -s "$out/saved_" "$out/saved_v1"
    verdict $? "whose bits are not those of v1"
fi
sets=$(printf '%s\n' $sets | sed -n '1p; ${1!p}')

# Chapter 1 hardly uses more than a core, so the tests run beside it.
(
    trap 'kill $one; exit 1' TERM
    for set in $sets; do
        BOOK_ISA=$set "$build"/01_splitting_strategies --backend cpu --out "$out/chapter_$set" >"$out/chapter_$set.log" 2>&1 &
        one=$!
        wait $one
        echo $? >"$out/chapter_$set.status"
    done
) &
chapter=$!
for set in $sets; do
    shown=$out/log
    for program in test_kernels test_splitting test_reference test_trainers test_parts test_vit; do
        BOOK_ISA=$set CMOCKA_MESSAGE_OUTPUT=STDOUT "$build"/tests/$program >"$out/log" 2>&1
        verdict $? "$program with BOOK_ISA=$set"
    done
done
wait $chapter
chapter=
for set in $sets; do
    shown=$out/chapter_$set.log
    verdict "$(cat "$out/chapter_$set.status")" "chapter 1 at its default size with BOOK_ISA=$set"
done
echo "1..$tests"
