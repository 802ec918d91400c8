#!/bin/sh
# exercises_test.sh BUILD: every exercise's text; what is refused; figures of experiments, with the solutions. (What the
# judge says: judge_test.sh.) Prints TAP.
. "$(dirname "$0")/tap.sh"
here=$(dirname "$0")
out=$work
mpi=
grep -q '^MPI := .' "$build/config.mk" && mpi=yes
shown="$out/log $out/error"
solved() { # CHAPTER-EXERCISE NAME; students have no solutions
    set -- "$1" "$2" "$here/../chapters/${1%-*}"_*/exercises/"${1#*-}"_*/question.md
    [ -f "$3" ] && in= || in=solved/ # a question has nothing to solve
    # shellcheck disable=SC2211
    program=$(ls "$build"/$in"${1%-*}"_*_exercise_"${1#*-}" 2>/dev/null) && return 0
    skip "$2" "no solution here"
    return 1
}

exercise() { # FOLDER
    your_part=$1/your_part.c
    name="$(basename "$(dirname "$(dirname "$1")")"), $(basename "$1")"
    [ "$(grep -c '^// \*\*\(Aim\|Your task\|How it is checked\|How to run\|What to hand in\)\.\*\*' "$your_part")" = 5 ]
    verdict $? "$name: its text has an aim, a task, and how it is checked, run and handed in"
    [ "$(wc -l <"$your_part")" -le 80 ] && [ "$(wc -l <"$1/experiment.c")" -le 150 ]
    verdict $? "$name: your part has at most 80 lines, the experiment 150"
}

for part in "$here"/../chapters/*/exercises/[0-9]*/your_part.c; do
    folder=${part%/*}
    if [ -f "$folder/needs_mpi" ] && [ -z "$mpi" ]; then
        skip "$(basename "$folder")" "no MPI"
    else
        exercise "$folder"
    fi
done

# A question with a command: what it asks, in at most three parts, and nothing to write or to judge.
for question in "$here"/../chapters/*/exercises/[0-9]*/question.md; do
    folder=${question%/*}
    [ -f "$folder/experiment.c" ] || continue
    [ "$(grep -o '^\*\*[A-Z][a-z ]*\.\*\*' "$question" | tr -d '*\n')" = 'Question.Predict first.How to run it.What to answer.' ] &&
        [ "$(grep -c '^[0-9]\. ' "$question")" -le 3 ] && [ "$(wc -l <"$question")" -le 30 ] && [ "$(wc -l <"$folder/experiment.c")" -le 150 ] &&
        [ -z "$(find "$folder" -name "your_part.*" -o -name "solution.*" -o -name cases.c -o -name rivals -o -name may_call)" ]
    verdict $? "$(basename "$(dirname "$(dirname "$folder")")"), $(basename "$folder"): a question of at most three parts, to be predicted first"
done

# What makes no sense is refused, before anything is computed.
refuses() { # CHAPTER-EXERCISE NAME FLAG..
    id=$1 name="exercise $1 refuses $2"
    shift 2
    solved "$id" "$name" || return
    "$program" "$@" --out "$out/plots" >"$out/log" 2>"$out/error" </dev/null
    [ $? -eq 2 ] && [ ! -s "$out/log" ] && [ ! -e "$out/plots" ] && grep -q '^hint: ' "$out/error"
    verdict $? "$name"
}
refuses 04-3 "--devices 1: nothing to sum" --devices 1
refuses 05-2 "a minibatch that cannot be halved often enough" --batch-size 7
refuses 06-1 "--devices 1: nothing to exchange" --devices 1
refuses 06-1 "--machine none: all times are modelled" --machine none
refuses 06-1 "more devices than the machine has" --devices 9
refuses 06-2 "more stages than the network has layers" --devices 9
refuses 06-4 "--devices: it has 4" --devices 2
refuses 07-1 "--workers 1: it needs no servers" --workers 1
refuses 07-1 "a machine without a network" --machine rtx4090-pcie

# Exercises that start ranks: by themselves, and with a word where that cannot be.
starts_ranks() { # N
    solved "08-$1" "chapter 8, exercise $1 starts ranks" || return
    sh "$here/../.make/ranks.sh" 2 "$program" >"$out/log" 2>"$out/error" </dev/null
    [ $? -eq 2 ] && grep -q 'mpirun started this exercise as 2 processes' "$out/error"
    verdict $? "chapter 8, exercise $1 refuses to be started as several ranks"
    mkdir -p "$out/bin" && ln -sf "$(command -v sh)" "$out/bin/sh"
    PATH=$out/bin "$program" --out "$out/figures" >"$out/log" 2>"$out/error" </dev/null
    [ $? -eq 1 ] && grep -q 'error: there is no mpirun' "$out/error" && grep -q 'hint: make setup' "$out/error"
    verdict $? "chapter 8, exercise $1 without mpirun says what to install"
    rm -rf "$out/figures"
}
# A function with its mistake ends in time, and its ranks say where they are.
hangs() { # FUNCTION WORDS
    solved 08-2 "chapter 8, exercise 2: $1() hangs" || return
    timeout -k 5 60 sh "$here/../.make/ranks.sh" 3 "$program" --case "$1" \
        >"$out/log" 2>"$out/error" </dev/null
    status=$?
    [ $status -ne 0 ] && [ $status -ne 124 ] && grep -q "$2" "$out/error"
    verdict $? "chapter 8, exercise 2: $1() hangs, and the watch ends it"
}
if [ -n "$mpi" ]; then
    starts_ranks 1
    starts_ranks 2
    hangs report 'rank [012] on .* is in .*, while rank [012] is in .* ('
    if solved 08-2 "chapter 8, exercise 2 refuses a function that is not there"; then
        "$program" --case nothing >"$out/log" 2>"$out/error" </dev/null
        [ $? -eq 2 ] && grep -q '^hint: there are report, ' "$out/error"
        verdict $? "chapter 8, exercise 2 refuses a function that is not there"
    fi
else
    skip "chapter 8, exercises that start ranks" "no MPI"
fi
# --allreduce is there where training on k devices happens.
for n in 1 2; do
    solved "04-$n" "exercise 04-$n has --allreduce" || continue
    "$program" --help >"$out/log" 2>"$out/error" && grep -q -e '--allreduce' "$out/log"
    verdict $? "exercise 04-$n has --allreduce"
done

# Chapter 3: what devices sum is the gradient; what they average is not, where a minibatch is named as wrong.
if solved 03-1 "exercise 03-1: an average of averages is wrong where a minibatch is named, and right elsewhere"; then
    "$program" --out "$out/averages" >"$out/log" 2>"$out/error" </dev/null &&
        awk -F, 'NR > 1 && !($4 < 1e-5 && ($2 == "none") == ($5 < 1e-5)) { bad = 1 }
            NR > 1 { named[$2]++ }
            END { exit bad || NR != 14 || named["none"] != 5 || named[0] != 7 || named[234] != 1 }' "$out"/averages/*.csv
    verdict $? "exercise 03-1: an average of averages is wrong where a minibatch is named, and right elsewhere"
    rm -rf "$out/averages"
fi

# k devices do what one does with minibatches k times as large: the same updates, and the same accuracies. (To the bit,
# as a shard has whole sixteens: see chapter 4's sheet.)
as_one() { # CHAPTER-EXERCISE WHICH_ROWS FLAGS..
    id=$1 rows=$2 name="exercise $1: two devices with 16 images each do what one does with 32"
    shift 2
    solved "$id" "$name" || return
    for b in 16 32; do
        "$program" --backend cpu --batch-size $b "$@" --out "$out/$b" >"$out/log" 2>"$out/error" </dev/null || break
    done
    grep "^2,$rows" "$out"/16/*.csv | cut -d, -f2- >"$out/two" && grep "^1,$rows" "$out"/32/*.csv | cut -d, -f2- >"$out/one"
    [ -s "$out/one" ] && diff "$out/one" "$out/two" >>"$out/log"
    verdict $? "$name"
    rm -rf "$out/16" "$out/32"
}
as_one 04-1 0.1, --train-size 330 --epochs 2
as_one 04-2 32, --train-size 480 --test-size 250 --seeds 2 --lr 0.2

# Exercise 3's figures are modelled: five methods on three machines, and one more that is asked for; the same each
# time. Where only bytes count, chapter 2's way takes 1/k of the star's time.
if solved 04-3 "exercise 3 on four machines"; then
    "$program" --machine dgx-h100 --out "$out/third" >"$out/log" 2>"$out/error" </dev/null &&
        sed 's/chapter 2, sharded/chapter 2/' "$out"/third/*.csv | awk -F, 'NR > 1 && !($4 > 0 && $5 > $4 && $6 > 0) { bad = 1 }
            /^laptops-1gbe,star/ { star = $6 }
            /^laptops-1gbe,"chapter 2/ { r = $6 / star }
            END { exit bad || NR != 21 || !(r > 0.2 && r < 0.3) }' &&
        cp "$out"/third/*.csv "$out/first.csv" &&
        "$program" --machine dgx-h100 --out "$out/third" >"$out/log" 2>"$out/error" </dev/null &&
        cmp -s "$out"/third/*.csv "$out/first.csv"
    verdict $? "exercise 3 on four machines"
    rm -rf "$out/third"
fi

# Figures that are modelled: the same on every computer.
figures() { # CHAPTER-EXERCISE WHAT AWK
    solved "$1" "exercise $1: $2" || return
    "$program" --out "$out/figures" >"$out/log" 2>"$out/error" </dev/null &&
        awk -F, "$3" "$out"/figures/*.csv
    verdict $? "exercise $1: $2"
    rm -rf "$out/figures"
}
figures 06-1 "predictions are right to 0.1%, one bucket of everything hides nothing, and no cap is better than best_caps()" '
    NR > 1 && !($6 / $7 < 1.001 && $6 / $7 > 0.999) { bad = 1 }
    $4 == "inf" && !($6 / ($9 + $10) < 1.001 && $6 / ($9 + $10) > 0.999) { bad = 1 }
    $4 == 1 || $6 < least { least = $6 }
    $4 == "0" && !($6 < 1.00001 * least) { bad = 1 }
    END { exit bad || NR != 30 }'
figures 06-2 "1F1B takes as long as fill-drain; with 16 microbatches stage i keeps 4 - i of them" '
    $2 == "fill-drain" { ms[$4] = $5; mb[$4] = $8 }
    $2 == "1F1B" && !($5 / ms[$4] < 1.03 && $5 / ms[$4] > 0.97) { bad = 1 }
    $2 == "1F1B" && $4 == 16 && !($8 / mb[16] < 0.28 && $11 / mb[16] < 0.08) { bad = 1 }
    END { exit bad || NR != 11 }'
# A pipeline in that order has the gradients of one device, whose step (k = 1, m = 1) is the first of each network.
if solved 06-2 "exercise 06-2: gradients are those of one device"; then
    "$program" --facts "$out/facts" 1 >"$out/log" 2>"$out/error" </dev/null && awk -F'\t' '
        $1 == "case" { one = $2 ~ /^a step of .*, k = 1, m = 1 /; network = $2; sub(/,.*/, "", network) }
        $NF == "" || $5 !~ /^some of the gradient/ { next }
        one { first[network, $5] = $NF; next }
        { n = split(first[network, $5], x, " "); split($NF, y, " "); most = 0; compared += n > 1 }
        { for (j = 1; j <= n; j++) { a = x[j] < 0 ? -x[j] : x[j]; most = a > most ? a : most } }
        { for (j = 1; j <= n; j++) { d = x[j] - y[j]; if (!(d <= 1e-4 * most && -d <= 1e-4 * most)) bad = 1 } }
        END { exit bad || compared != 3 * 24 }' "$out/facts"
    verdict $? "exercise 06-2: gradients are those of one device"
fi
figures 06-3 "hardly anything is saved where launches are the time, most is hidden where links and arithmetic are" '
    NR > 1 && !($9 < 100) { bad = 1 }
    NR > 1 && $5 < 1.01 * $8 && !($6 / $5 < 1.02 && $6 / $5 > 0.98) { bad = 1 }
    $1 == "p100-25gbe" && $2 == "star" && $3 == 2 && $4 == 4096 && !($9 > 70) { bad = 1 }
    END { exit bad || NR != 169 }'
figures 06-4 "a mean of means trains short sentences at the cost of all, and is the same for equal lengths" '
    NR > 1 && $1 < 32 && !($2 < $3 && $5 < $4 && $6 < $7) { bad = 1 }
    $1 == 32 && !($2 / $3 < 1.001 && $2 / $3 > 0.999) { bad = 1 }
    END { exit bad || NR != 6 }'

figures 07-1 "largest first is within Graham's bound of the least there could be; pieces come near a link's time" '
    NR > 1 && $4 == "servers" && $6 == 1 { all[$3] = $9 }
    NR > 1 && $4 == "servers" && $5 == "largest first" { busiest[$3, $6] = $9; if ($6 == 32) top[$3] = $9 }
    NR > 1 && $4 == "servers" && $5 == "cut" && $6 == 32 && !($10 < 1.6 * $11) { bad = 1 }
    END { for (at in busiest) { split(at, of, SUBSEP); mean = all[of[1]] / of[2]
              least = mean > top[of[1]] ? mean : top[of[1]]
              if (!(busiest[at] <= (4 / 3 - 1 / (3 * of[2])) * least * 1.000001)) bad = 1 }
          exit bad || NR != 127 }'

# Chapter 9: trainings that are divided have the losses of one that is not.
figures 09-1 "k devices have the losses of one, unless they clip by parts; then gradients are up to sqrt(k) times as long" '
    NR > 1 && $2 == 1 && $3 == "yours" { one[$1] = $4 }
    NR > 1 && ($2 == 1 || $3 == "yours") && !($4 / one[$1] < 1.01 && $4 / one[$1] > 0.99) { bad = 1 }
    NR > 1 && !($6 < 1.0001 * $5 && $6 < 0.50005 * sqrt($2)) { bad = 1 }
    $3 == "by parts" && $6 > most[$2] { most[$2] = $6 }
    END { exit bad || NR != 241 || !(most[4] > 0.9 && most[8] > 1.2) }'
figures 09-2 "on 1, 2 and 4 devices, and from a saved state, losses are those of a training that is not divided" '
    NR > 1 { for (j = 3; j <= 6; j++) if (!($j / $2 < 1.0001 && $j / $2 > 0.9999)) bad = 1 }
    END { exit bad || NR != 13 || NF != 6 }'

# Chapter 10: a block on t devices has the values of one, however it is split.
if solved 10-1 "exercise 10-1: tokens and gradients are those of one device"; then
    "$program" --facts "$out/facts" 1 >"$out/log" 2>"$out/error" </dev/null && awk -F'\t' '
        $1 == "case" { one = $2 ~ /t = 1,/; network = $2; sub(/t = .,/, "", network); next }
        $5 !~ /^tokens|^gradient/ { next }
        { name = $5; sub(/, device .$/, "", name) }
        one { first[network, name] = $NF; next }
        { n = split(first[network, name], x, " "); m = split($NF, y, " "); most = 0; compared += n > 10 && n == m }
        { for (j = 1; j <= n; j++) { a = x[j] < 0 ? -x[j] : x[j]; most = a > most ? a : most } }
        { for (j = 1; j <= n; j++) { d = x[j] - y[j]; if (!(d <= 1e-5 * most && -d <= 1e-5 * most)) bad = 1 } }
        END { exit bad || compared != 480 }' "$out/facts"
    verdict $? "exercise 10-1: tokens and gradients are those of one device"
fi
figures 10-1 "bytes are those of the formula, sequence parallelism keeps 1/t, and narrow blocks need fast links" '
    NR > 1 { part = ($5 - 1) / $5; keeps = 16 * $2 * $3 / ($4 == "no" ? 1 : $5)
             sends = $4 == "no" ? 32 * $2 * $3 * part : (40 * $2 + 48) * $3 * part
             if ($7 != sends || $8 != keeps || !($6 > 0)) bad = 1 }
    $5 == 1 { one = $6 }
    $1 == "cluster-10gbe" && $3 == 1024 && $5 == 2 && !($6 > 1.5 * one) { bad = 1 }
    $1 == "dgx-a100" && $2 == 2048 && $5 == 8 && !($6 < 0.25 * one) { bad = 1 }
    END { exit bad || NR != 181 }'
# And meshes have those of one device. All bytes of tensor groups stay inside hosts.
figures 11-1 "meshes have losses, norms and averages of undivided training, equal copies, and only gradients cross hosts" '
    $1 == "not divided" { for (j = 3; j <= 5; j++) of[$2, j] = $j; next }
    NR > 1 { split($1, mesh, " x "); for (j = 3; j <= 5; j++) if (!($j / of[$2, j] < 1.0001 && $j / of[$2, j] > 0.9999)) bad = 1 }
    NR > 1 && !($6 == 0 && $8 == 8 * (mesh[1] - 1) * (50880 + 1578 * mesh[2])) { bad = 1 }
    END { exit bad || NR != 73 || NF != 8 }'

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
    "$program" --out "$out/seventh" >"$out/log" 2>"$out/error" </dev/null &&
        awk -F, '$1 == "goal" { times[$2 "," $3] = $7; goals++ }
            END { always = times["1,synchronous"]; chance = times["2,synchronous"]
                  exit !(goals == 15 && always > 3 && times["1,SSP 3"] > 0.75 * always &&
                         times["1,1 backup"] < 0.4 * always && times["2,SSP 3"] < 0.75 * chance &&
                         times["2,2 backup"] < 0.9 * chance) }' "$out"/seventh/*.csv
    verdict $? "chapter 7, exercise 3: SSP helps against chance only, backup workers against both"
    rm -rf "$out/seventh"
fi

# Chapter 8, exercise 3: with MPI and without, messages on many ranks are modelled.
# What ranks of this machine measured is there where they can be started, and is nothing that a test could know.
if solved 08-3 "chapter 8, exercise 3: fusion on many ranks"; then
    "$program" --out "$out/eighth" >"$out/log" 2>"$out/error" </dev/null &&
        awk -F, '$1 == "measured" { measured++; if (!($7 > 0 && $8 <= $7 && $7 <= $9 && $6 > 0)) bad = 1 }
            $1 == "modelled" { modelled++ }
            $1 == "modelled" && $3 == "ResNet-18" && $4 == 0 { alone[$2] = $7 }
            $1 == "modelled" && $3 == "ResNet-18" && $5 == 1 { one[$2] = $7 }
            END { exit !(!bad && modelled == 60 && (measured == 20 || measured == 0) &&
                         alone[512] > 20 * one[512] && alone[16] > 1.9 * one[16] && alone[16] < 2.4 * one[16]) }' \
            "$out"/eighth/*.csv && { grep -q '^measured,' "$out"/eighth/*.csv || grep -q '^Left out: there is no MPI' "$out/log"; }
    verdict $? "chapter 8, exercise 3: alone or together on many ranks; what ranks measured, or why not, is there"
    rm -rf "$out/eighth"
fi

echo "1..$tests"
