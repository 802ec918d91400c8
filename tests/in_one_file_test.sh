#!/bin/sh
# in_one_file_test.sh BUILD: chapter 4's in_one_file.c trains as the chapter's program does, from its first weights and on
# 1, 2 and 3 devices, and both as in_one_file.c does in float64. Prints TAP.
name=04_lenet_multi_gpu
. "$(dirname "$0")/chapter.sh"
steps=3
file=$chapter/in_one_file.c
compile() { "${CC:-cc}" -std=c11 -O3 -Wall -Wextra -Werror "$@" "$file" -lm >"$out/log" 2>"$out/error"; }
compile -o "$out/float"
verdict $? "it compiles without a warning"
compile -fopenmp -o "$out/threads" 2>&1 && compile -DREAL=double -o "$out/double"
verdict $? "with OpenMP and in float64, too"
[ "$(wc -l <"$file")" -le 400 ]
verdict $? "it has at most 400 lines"

# The program's parameters, in the order of the file: all that is behind the header.
train_program() { # STEPS DEVICES FILE
    run --backend cpu --no-shuffle --steps "$1" --devices "$2" --out "$out" --save "$out/saved" && tail -c 516272 "$out/saved" >"$out/$3"
}
numbers() { # FILE TYPE: one a line
    od -An -v -w"${2#f}" -t "$2" "$out/$1"
}
# Of each array, the largest difference is at most 1e-5 of the largest change since the start, besides what a float
# cannot hold: in each step half a bit of the largest weight.
same_training() { # FILE FILE TYPE
    numbers start f4 >"$out/0" && numbers "$1" f4 >"$out/1" && numbers "$2" "$3" >"$out/2" || return
    paste "$out/0" "$out/1" "$out/2" | awk -v steps=$steps '
        function max(a, b) { b = b < 0 ? -b : b; return b > a ? b : a }
        BEGIN { split("180 20 25000 50 102400 128 1280 10", size); array = 1; end = size[1] }
        NF != 3 || /nan|inf/ { bad = 1 }
        NR > end { end += size[++array] }
        { change[array] = max(change[array], $3 - $1); error[array] = max(error[array], $3 - $2)
          largest[array] = max(largest[array], $3) }
        END {
            for (a = 1; a <= 8; a++) {
                printf "array %d: changed by %.2g, differs by %.2g\n", a, change[a], error[a]
                if (!(change[a] > 0 && error[a] <= 1e-5 * change[a] + steps * 2 ^ -24 * largest[a])) bad = 1
            }
            exit bad || NR != 129068
        }' >"$out/log"
}

train_program 0 1 start
"$out/double" 1 "$out/start" $steps "$out/double_1" >"$out/log"
for k in 1 2 3; do
    train_program $steps $k program_$k &&
        "$out/float" $k "$out/start" $steps "$out/float_$k" >"$out/log" &&
        has "^$k of $k replicas are equal to the bit; $(((k - 1) * 2 * steps * 516272)) bytes" &&
        same_training float_$k program_$k f4 && same_training float_$k double_1 f8 && same_training program_$k double_1 f8
    verdict $? "the same training on $k device(s), and in float64"
done
OMP_NUM_THREADS=3 "$out/threads" 2 "$out/start" $steps "$out/threads_2" >"$out/log" && cmp "$out/float_2" "$out/threads_2" >"$out/log"
verdict $? "the same bits with threads"
FASHION_MNIST_DIR=/nowhere "$out/float" >"$out/log" 2>"$out/error"
[ $? = 1 ] && grep -q '^error: ' "$out/error" && grep -q '^hint: .*FASHION_MNIST_DIR' "$out/error"
verdict $? "says how to get the images"
echo "1..$tests"
