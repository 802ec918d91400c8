#!/bin/sh
# in_one_file_test.sh BUILD: chapter 4's in_one_file.c trains as the chapter's program does, from its first weights and on
# 1, 2 and 3 devices, and both as in_one_file.c does in float64. Prints TAP.
name=04_lenet_multi_gpu
. "$(dirname "$0")/chapter.sh"
steps=3
file=$chapter/in_one_file.c
compile() { "${CC:-cc}" -std=c11 -O3 -Wall -Wextra -Werror "$@" "$file" -lm >log 2>error; }
compile -o float
verdict $? "it compiles without a warning"
compile -fopenmp -o threads 2>&1 && compile -DREAL=double -o double
verdict $? "with OpenMP and in float64, too"
figures "$file" 'NR == 401 { print "more than 400 lines" }'

# The program's parameters, in the order of the file: all that is behind the header.
train_program() { # STEPS DEVICES FILE
    run --backend cpu --no-shuffle --steps "$1" --devices "$2" --save saved && tail -c 516272 saved >"$3"
}
numbers() { # FILE TYPE: one a line
    od -An -v -w"${2#f}" -t "$2" "$1"
}
# Of each array, the largest difference is at most 1e-5 of the largest change since the start, besides what a float
# cannot hold: in each step half a bit of the largest weight.
same_training() { # FILE FILE TYPE
    numbers start f4 >column_0 && numbers "$1" f4 >column_1 && numbers "$2" "$3" >column_2 || return
    paste column_0 column_1 column_2 | awk -v steps=$steps '
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
        }' >log
}

train_program 0 1 start
./double 1 start $steps double_1 >log
for k in 1 2 3; do
    train_program $steps $k program_$k &&
        ./float $k start $steps float_$k >log &&
        has "$k of $k replicas are equal to the bit; $(((k - 1) * 2 * steps * 516272)) bytes" &&
        same_training float_$k program_$k f4 && same_training float_$k double_1 f8 && same_training program_$k double_1 f8
    verdict $? "the same training on $k device(s), and in float64"
done
OMP_NUM_THREADS=3 ./threads 2 start $steps threads_2 >log && cmp float_2 threads_2 >log
verdict $? "the same bits with threads"
FASHION_MNIST_DIR=/nowhere ./float >log 2>error
[ $? = 1 ] && grep -q '^error: ' error && grep -q '^hint: .*FASHION_MNIST_DIR' error
verdict $? "says how to get the images"
echo "1..$tests"
