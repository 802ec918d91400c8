#!/bin/sh
# exercises_test.sh BUILD: every exercise's text, and its starter (your_part.c without the solution); what is refused;
# figures of experiments. (That its check takes the solution and rejects the starter: wrong_answers_test.sh.) Prints TAP.
build=$1
here=$(dirname "$0")
starter_sh=$here/../.make/starter.sh
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
mpi=
grep -q '^MPI := .' "$build/config.mk" && mpi=yes
tests=0
verdict() { # STATUS NAME
    tests=$((tests + 1))
    [ "$1" -eq 0 ] && echo "ok $tests - $2" && return
    echo "not ok $tests - $2"
    sed 's/^/# /' "$out/log" "$out/error"
}
skip() { # NAME WHY
    tests=$((tests + 1))
    echo "ok $tests - $1 # SKIP $2"
}
# Students have the exercises that were handed out (make lab-kit LABS=..), with a gap until it is filled.
handed_out() { # CHAPTER-EXERCISE NAME
    ls "$here"/../chapters/"${1%-*}"_*/exercises/"${1#*-}"_*/your_part.c >/dev/null 2>&1 && return
    skip "$2" "exercise $1 is not here"
    return 1
}
solved() { # CHAPTER-EXERCISE NAME
    handed_out "$@" || return 1
    grep -q '// YOUR CODE HERE' "$here"/../chapters/"${1%-*}"_*/exercises/"${1#*-}"_*/your_part.c || return 0
    skip "$2" "not solved yet"
    return 1
}

# A name in may_not_call that nothing has forbids nothing: then a function was renamed. (Those with PMPI_ are MPI's.)
forbids_what_is_there() { # FOLDER
    nm "$build/libbook.a" "$build/obj/${1#"$here/../"}"/*.o 2>/dev/null |
        awk 'NF > 1 && $(NF - 1) ~ /^[TDRB]$/ { print $NF }' | sort -u >"$out/names"
    grep -v '^#\|^PMPI_' "$1/may_not_call" | sed 's/\*/.*/' | while read -r name; do
        grep -qx "$name" "$out/names" || echo "may_not_call: there is no $name"
    done >"$out/log"
    : >"$out/error"
    [ ! -s "$out/log" ]
}

# Where exercises were handed out, a file has no solution that is marked: what the student writes there, or
# the gap. Then there is no starter to be made of it.
exercise() { # FOLDER
    title=$(basename "$1")
    chapter=$(basename "$(dirname "$(dirname "$1")")")
    your_part=$1/your_part.c
    handout=$build/exercises/$chapter/$title
    name="$chapter, $title"
    [ "$(grep -c '^// \*\*\(Aim\|Your task\|How it is checked\|How to run\|What to hand in\)\.\*\*' "$your_part")" = 5 ]
    verdict $? "$name: its text has an aim, a task, and how it is checked, run and handed in"
    if [ -f "$1/may_not_call" ]; then
        forbids_what_is_there "$1"
        verdict $? "$name: may_not_call names what there is"
    fi
    if ! grep -q '// SOLUTION' "$your_part"; then
        skip "$name: the starter is your_part.c alone, with a gap and no solution" "no solution marked"
    else
        [ "$(ls "$handout")" = your_part.c ] && grep -q '// YOUR CODE HERE' "$handout/your_part.c" &&
            ! grep -q 'SOLUTION' "$handout/your_part.c"
        verdict $? "$name: the starter is your_part.c alone, with a gap and no solution"
        [ "$(wc -l <"$your_part")" -le 80 ]
        verdict $? "$name: your part has at most 80 lines"
        ! grep 'say("\(\\n\)\?Answer' "$1"/*.c >"$out/log" && [ -s "$1/answers.md" ]
        verdict $? "$name: the answer is beside the solution, and no program says it"
    fi
}

for folder in "$here"/../chapters/*/exercises/[0-9]*/; do
    if [ -f "$folder/needs_mpi" ] && [ -z "$mpi" ]; then
        skip "$(basename "$folder")" "no MPI"
    else
        exercise "${folder%/}"
    fi
done

# What makes no sense is refused, before anything is computed.
refuses() { # CHAPTER-EXERCISE NAME FLAG..
    id=$1 name="exercise $1 refuses $2"
    shift 2
    handed_out "$id" "$name" || return
    # shellcheck disable=SC2211
    "$build"/"${id%-*}"_*_exercise_"${id#*-}" "$@" --out "$out/plots" >"$out/log" 2>"$out/error" </dev/null
    [ $? -eq 2 ] && [ ! -s "$out/log" ] && [ ! -e "$out/plots" ] && grep -q '^hint: ' "$out/error"
    verdict $? "$name"
}
refuses 04-3 "--devices 1: nothing to sum" --devices 1
refuses 04-3 "--backend model: there is nothing to check" --backend model
refuses 05-1 "more epochs than it has room for" --epochs 17
refuses 05-2 "a minibatch that cannot be halved often enough" --batch-size 7
refuses 06-1 "--devices 1: nothing to exchange" --devices 1
refuses 06-1 "--machine none: all times are modelled" --machine none
refuses 06-1 "more devices than the machine has" --devices 9
refuses 06-2 "more stages than the network has layers" --devices 9
refuses 06-3 "a machine with too few devices" --machine d2l-pcie
refuses 06-4 "--devices: it has 1, 2 and 4" --devices 2
refuses 07-1 "--workers 1: it needs no servers" --workers 1
refuses 07-1 "a machine without a network" --machine rtx4090-pcie
refuses 07-4 "a machine with too few devices" --machine d2l-pcie

# Exercises that start ranks: by themselves, and with a word where that cannot be.
starts_ranks() { # N
    solved "08-$1" "chapter 8, exercise $1 starts ranks" || return
    program=$build/08_many_machines_exercise_$1
    sh "$here/../.make/ranks.sh" 2 "$program" --check >"$out/log" 2>"$out/error" </dev/null
    [ $? -eq 2 ] && grep -q 'mpirun started this exercise as 2 processes' "$out/error" && ! grep -q passed "$out/log"
    verdict $? "chapter 8, exercise $1 refuses to be started as several ranks"
    mkdir -p "$out/bin" && ln -sf "$(command -v sh)" "$out/bin/sh"
    PATH=$out/bin "$program" --check >"$out/log" 2>"$out/error" </dev/null
    [ $? -eq 1 ] && grep -q 'error: there is no mpirun' "$out/error" && grep -q 'hint: make setup' "$out/error" &&
        ! grep -q passed "$out/log"
    verdict $? "chapter 8, exercise $1 without mpirun says what to install"
}
# A function with its mistake ends in time, and its ranks say where they are.
hangs() { # FUNCTION WORDS
    handed_out 08-2 "chapter 8, exercise 2: $1() hangs" || return
    timeout -k 5 60 sh "$here/../.make/ranks.sh" 3 "$build/08_many_machines_exercise_2" --case "$1" \
        >"$out/log" 2>"$out/error" </dev/null
    status=$?
    [ $status -ne 0 ] && [ $status -ne 124 ] && grep -q "$2" "$out/error"
    verdict $? "chapter 8, exercise 2: $1() hangs, and the watch ends it"
}
if [ -n "$mpi" ]; then
    starts_ranks 1
    starts_ranks 2
    hangs report 'rank [012] on .* is in .*, while rank [012] is in .* ('
    if handed_out 08-2 "chapter 8, exercise 2 refuses a function that is not there"; then
        "$build/08_many_machines_exercise_2" --case nothing >"$out/log" 2>"$out/error" </dev/null
        [ $? -eq 2 ] && grep -q '^hint: there are report, ' "$out/error"
        verdict $? "chapter 8, exercise 2 refuses a function that is not there"
    fi
else
    skip "chapter 8, exercises that start ranks" "no MPI"
fi
# --allreduce is there where training on k devices happens.
for n in 1 2; do
    handed_out "04-$n" "exercise 04-$n has --allreduce" || continue
    "$build/04_lenet_multi_gpu_exercise_$n" --help >"$out/log" 2>"$out/error" && grep -q -e '--allreduce' "$out/log"
    verdict $? "exercise 04-$n has --allreduce"
done

# Exercise 3's figures are modelled: five methods on three machines, and one more that is asked for; the same each
# time. Where only bytes count, chapter 2's way takes 1/k of the star's time.
third=$build/04_lenet_multi_gpu_exercise_3
if solved 04-3 "exercise 3 on four machines"; then
    "$third" --machine dgx-h100 --out "$out/third" >"$out/log" 2>"$out/error" </dev/null &&
        sed 's/chapter 2, sharded/chapter 2/' "$out"/third/*.csv | awk -F, 'NR > 1 && !($4 > 0 && $5 > $4 && $6 > 0) { bad = 1 }
            /^laptops-1gbe,star/ { star = $6 }
            /^laptops-1gbe,"chapter 2/ { r = $6 / star }
            END { exit bad || NR != 21 || !(r > 0.2 && r < 0.3) }' &&
        cp "$out"/third/*.csv "$out/first.csv" &&
        "$third" --machine dgx-h100 --out "$out/third" >"$out/log" 2>"$out/error" </dev/null &&
        cmp -s "$out"/third/*.csv "$out/first.csv"
    verdict $? "exercise 3 on four machines"
    rm -rf "$out/third"
fi

# Figures that are modelled: the same on every computer.
figures() { # CHAPTER-EXERCISE WHAT AWK
    solved "$1" "exercise $1: $2" || return
    # shellcheck disable=SC2211
    "$build"/"${1%-*}"_*_exercise_"${1#*-}" --out "$out/figures" >"$out/log" 2>"$out/error" </dev/null &&
        awk -F, "$3" "$out"/figures/*.csv
    verdict $? "exercise $1: $2"
    rm -rf "$out/figures"
}
figures 06-1 "predictions are right to 0.1%, and one bucket of everything hides nothing" '
    NR > 1 && !($6 / $7 < 1.001 && $6 / $7 > 0.999) { bad = 1 }
    $4 == "inf" && !($6 / ($9 + $10) < 1.001 && $6 / ($9 + $10) > 0.999) { bad = 1 }
    END { exit bad || NR != 28 }'
figures 06-2 "1F1B takes as long as fill-drain; with 16 microbatches stage i keeps 4 - i of them" '
    $2 == "fill-drain" { ms[$4] = $5; mb[$4] = $8 }
    $2 == "1F1B" && !($5 / ms[$4] < 1.03 && $5 / ms[$4] > 0.97) { bad = 1 }
    $2 == "1F1B" && $4 == 16 && !($8 / mb[16] < 0.28 && $11 / mb[16] < 0.08) { bad = 1 }
    END { exit bad || NR != 11 }'
figures 06-3 "hardly anything is saved where launches are the time, most is hidden where links and arithmetic are" '
    NR > 1 && !($9 < 100) { bad = 1 }
    NR > 1 && $5 < 1.01 * $8 && !($6 / $5 < 1.02 && $6 / $5 > 0.98) { bad = 1 }
    $1 == "p100-25gbe" && $2 == "star" && $3 == 2 && $4 == 4096 && !($9 > 70) { bad = 1 }
    END { exit bad || NR != 169 }'
figures 07-4 "k P or (k-1) P each way; by PCIe from one to another the CPU is faster, by NVLink the GPU" '
    $4 == "CPU" && !($5 == 2 * $3 && $6 == 2) { bad = 1 }
    $4 == "GPU" && !($5 == 0 && $6 == 2 * ($3 - 1)) { bad = 1 }
    $4 == "CPU" { cpu[$1, $2, $3] = $7 }
    $4 == "GPU" && $3 > 1 { times[$1, $2, $3] = $7 / cpu[$1, $2, $3] }
    $1 == "d2l-pcie-of-8" && $4 == "GPU" && $3 > 1 && !(times[$1, $2, $3] * $3 / ($3 - 1) < 1.001) { bad = 1 }
    $1 == "d2l-pcie-of-8" && $4 == "GPU" && $3 > 1 && !(times[$1, $2, $3] * $3 / ($3 - 1) > 0.999) { bad = 1 }
    END { exit bad || NR != 49 || !(times["rtx4090-pcie", "ResNet-18", 8] > 6 &&
          times["dgx-a100", "ResNet-18", 8] < 1 && times["dgx-a100", "ResNet-18", 2] < 0.5) }'

# Chapter 8: bytes are those of the formula; three of four functions hang as found, and none of those that are mended.
if [ -z "$mpi" ]; then
    skip "chapter 8, figures of exercises 1 and 2" "no MPI"
else
    figures 08-1 "the ring sends 2(k-1)/k N, the star (k-1) N; times are there" '
        NR > 1 && !($4 > 0 && $5 >= $4 && $6 >= $5) { bad = 1 }
        NR > 1 && $2 > 4 && $3 == "your ring" && $7 != 2 * ($1 - 1) / $1 * $2 { bad = 1 }
        NR > 1 && $3 == "star" && $7 != ($1 - 1) * $2 { bad = 1 }
        END { exit bad || NR != 73 }'
    figures 08-2 "three functions hang as found, none of those that are mended" '
        $7 == 0 { hung[$1, $2]++ }
        $1 == "exchange" && $4 == 0 && $2 == "as found" { first[$3] = $6 }
        END { exit !(hung["report", "as found"] == 3 && hung["train_until", "as found"] == 3 &&
                     hung["train_epoch", "as found"] == 3 && length(hung) == 3 &&
                     first[0] == "bucket 0" && first[1] == "bucket 1") }'
fi

# Chapter 7, exercise 3: figures of many small trainings; what is said of stragglers holds by far.
if solved 07-3 "chapter 7, exercise 3: who helps against which straggler"; then
    "$build/07_parameter_servers_exercise_3" --out "$out/seventh" >"$out/log" 2>"$out/error" </dev/null &&
        awk -F, '$1 == "goal" { times[$2 "," $3] = $7; goals++ }
            END { always = times["1,synchronous"]; chance = times["2,synchronous"]
                  exit !(goals == 15 && always > 3 && times["1,SSP 3"] > 0.75 * always &&
                         times["1,1 backup"] < 0.4 * always && times["2,SSP 3"] < 0.75 * chance &&
                         times["2,2 backup"] < 0.9 * chance) }' "$out"/seventh/*.csv
    verdict $? "chapter 7, exercise 3: SSP helps against chance only, backup workers against both"
    rm -rf "$out/seventh"
fi

# Chapter 8, exercise 3: with MPI and without, messages on many ranks are modelled, and predicted by the line. On 512
# ranks of ResNet-18 each gradient alone takes more than 20 times as long as all in one message, on 16 twice as long.
# What ranks of this machine measured is there where they can be started, and is nothing that a test could know.
eighth=08_many_machines_exercise
if solved 08-3 "chapter 8, exercise 3: fusion on many ranks"; then
    "$build/${eighth}_3" --out "$out/eighth" >"$out/log" 2>"$out/error" </dev/null &&
        awk -F, '$1 == "measured" { measured++; if (!($7 > 0 && $8 <= $7 && $7 <= $9 && $6 > 0)) bad = 1 }
            $1 == "modelled" { modelled++; if (!($6 / $7 < 1.001 && $6 / $7 > 0.999)) bad = 1 }
            $1 == "modelled" && $3 == "ResNet-18" && $4 == 0 { alone[$2] = $7 }
            $1 == "modelled" && $3 == "ResNet-18" && $5 == 1 { one[$2] = $7 }
            END { exit !(!bad && modelled == 60 && (measured == 20 || measured == 0) &&
                         alone[512] > 20 * one[512] && alone[16] > 1.9 * one[16] && alone[16] < 2.4 * one[16]) }' \
            "$out"/eighth/*.csv && { grep -q '^measured,' "$out"/eighth/*.csv || grep -q '^Left out: there is no MPI' "$out/log"; }
    verdict $? "chapter 8, exercise 3: predictions on many ranks are right; what ranks measured, or why not, is there"
    rm -rf "$out/eighth"
fi

# Chapter 8, exercise 4: small trainings, each with the same bits on every computer of one kind. The picture's message:
# gradient descent gains by the linear rule, Adam by the square root.
if solved 08-4 "chapter 8, exercise 4: linear rule or square root"; then
    "$build/${eighth}_4" --out "$out/eighth" >"$out/log" 2>"$out/error" </dev/null &&
        awk -F, '$4 == 4 { mean[$2 "," $3] = $7; rows++ }
            END { exit !(rows == 20 && mean["gradient descent,linear"] > mean["gradient descent,square root"] + 0.03 &&
                         mean["Adam,square root"] > mean["Adam,linear"] + 0.02) }' "$out"/eighth/*.csv
    verdict $? "chapter 8, exercise 4: gradient descent gains by the linear rule, Adam by the square root"
    rm -rf "$out/eighth"
fi

# starter.sh itself
: >"$out/log"
refused() { # TEXT NAME
    printf '%s' "$1" >"$out/file.c"
    ! sh "$starter_sh" "$out/file.c" >"$out/log" 2>"$out/error" && [ -s "$out/error" ]
    verdict $? "starter.sh refuses $2"
}
printf '    // SOLUTION (starter: return (f(0));)\n    secret\n    // END SOLUTION\nrest\n' >"$out/file.c"
sh "$starter_sh" "$out/file.c" >"$out/log" 2>"$out/error"
printf '    // YOUR CODE HERE\n    return (f(0));\nrest\n' | cmp -s - "$out/log"
verdict $? "starter.sh cuts the solution out and puts in what makes it compile"
printf 'int x;\n' >"$out/file.c"
sh "$starter_sh" "$out/file.c" >"$out/log" 2>"$out/error" && cmp -s "$out/file.c" "$out/log"
verdict $? "starter.sh leaves a file without a solution as it is"
refused '// SOLUTION
secret
' "a SOLUTION without an end"
refused 'a
// END SOLUTION
' "an end without a SOLUTION"
refused '// SOLUTION
// SOLUTION
// END SOLUTION
' "a SOLUTION inside a SOLUTION"
echo "1..$tests"
