#!/bin/sh
# quick_test.sh BUILD: every program of the book with --quick, as a class runs it: it ends well, its first line says
# what is made smaller, and it still shows its point. (What is given beside --quick wins: test_flags.c.) Prints TAP.
. "$(dirname "$0")/tap.sh"
running=
trap '[ -n "$running" ] && kill $running 2>/dev/null; rm -rf "$work"' EXIT
cd "$work" || exit 1

# $core_seconds: what all that ran before has computed. (The last line of times is "1m2.500000s 0m3.100000s".)
count_core_seconds() {
    times >"$work/times" # no pipe: a shell of its own has run nothing
    core_seconds=$(tail -n 1 "$work/times" | awk -F '[ms ]+' '{ print int(60 * ($1 + $3) + $2 + $4) }')
}
export BOOK_TERMINAL=1 # bars are shown
# Runs a program in the empty folder $here. A chapter with a file `ranks` is so many of them, if there is MPI.
run() { # NAME FLAGS..
    name=$1 here=$work/$1
    shift
    command="$name $*"
    rm -rf "$here" && mkdir "$here"
    ranks=$root/chapters/$name/ranks
    program=$build/solved/$name
    [ -f "$program" ] || program=$build/$name
    set -- "$program" "$@"
    [ ! -f "$ranks" ] || ! command -v mpirun >/dev/null || set -- sh "$root/.make/ranks.sh" "$(cat "$ranks")" "$@"
    count_core_seconds
    before=$core_seconds
    (cd "$here" && exec "$@") >log 2>error </dev/null &
    running=$!
    wait $running
    status=$?
    running=
    count_core_seconds
    needed=$((core_seconds - before))
    [ $status -eq 0 ] || complain "status $status; stderr: $(tail -n 2 error | tr '\n' ' ')"
}
expect_first_line() { # REGEX: of the first line, or of its paragraph's next one
    head -n 3 log | tr '\n' ' ' | grep '^quick: ' | grep -q -e "$1" || complain "expected 'quick: ..$1', came: $(head -n 3 log)"
}
expect_good_files() { # no loss and no accuracy is a NaN, and each PNG is whole
    grep -n -i -e 'loss -\?nan' -e 'acc[a-z]* -\?nan' log >>"$problems"
    for file in "$here"/plots/*; do
        case $file in
        *.csv) awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) value[i] = $i ~ /loss|acc|mean|second|ms/; next }
            { for (i = 1; i <= NF; i++) if (value[i] && tolower($i) ~ /nan/) print FILENAME ": " $0 }' "$file" >>"$problems" ;;
        *.png) [ "$(tail -c 8 "$file" | od -An -tx1 | tr -d ' \n')" = 49454e44ae426082 ] || complain "not a whole picture: $file" ;;
        esac
    done
}
# CONDITION: an awk program that prints what is missing. Of the figures SUFFIX.csv.
figures() { # SUFFIX PROGRAM
    awk -F, "$2" "$here/plots/$name$1.csv" >missing 2>&1
    [ -s missing ] && complain "in $name$1.csv: $(head -n 1 missing)"
}

# ---- the point of each: it still learns, and still compares what it compares -------------------------------------

last_accuracy='NR > 1 { last[$1] = $4; if ($2 == 1) first[$1] = $4 }'
point() {
    case $name in
    04_lenet_multi_gpu) # the accuracy rises, and two devices have the curve of one; on a screen
        [ "$(wc -l <log)" -le 20 ] || complain "$(wc -l <log) lines"
        figures '' "$last_accuracy"' NR > 1 { curve[$2, $1] = $3 "," $4; n = $2 }
            END { for (k = 1; k <= 2; k++) if (!(last[k] > 0.6 && last[k] > first[k] + 0.3)) print "accuracy", last[k]
                  for (i = 1; i <= n; i++) if (curve[i, 1] != curve[i, 2] && !'"$gpus"') print "epoch", i, "differs"
                  d = last[1] - last[2]; if (d * d > 0.01) print "apart by", d }'
        ;;
    05_resnet18_concise)
        figures '' "$last_accuracy"' END { for (k = 1; k <= 2; k++) if (!(last[k] > 0.25)) print "accuracy", last[k] }'
        ;;
    08_many_machines) # "epoch 2: train loss 1.019, test acc 0.7064 .."
        sed -n 's/^ *epoch .* test acc \([0-9.]*\).*/\1/p' log | tail -n 1 | grep -q '^0\.[2-9]' ||
            complain "nothing is learned: $(grep 'test acc' log | tail -n 1)"
        grep -q 'comparing learning rates .* left' error || complain "it does not say how far it is"
        ;;
    07_parameter_servers)
        figures _disciplines 'NR > 1 { last[$6] = $9 } END { for (w in last) if (!(last[w] > 0.3)) print w, last[w] }'
        ;;
    04_lenet_multi_gpu_exercise_1) # one device; the largest learning rate of four
        figures '' 'NR > 1 { last[$1 "," $2] = $5 } END { if (!(last["1,0.1"] > 0.5)) print "1 device", last["1,0.1"]
                    if (!(last["4,0.4"] > 0.5)) print "4 devices", last["4,0.4"] }'
        ;;
    04_lenet_multi_gpu_exercise_2)
        figures '' 'NR > 1 && $4 > best[$1] { best[$1] = $4 } END { for (k = 1; k <= 4; k *= 2)
                    if (!(best[k] > 0.4)) print k, "devices", best[k] }'
        ;;
    05_resnet18_concise_exercise_1)
        figures '' '$1 == "learning" && $7 > best { best = $7 } END { if (!(best > 0.25)) print "accuracy", best }'
        ;;
    esac
}

gpus=1
"$build/03_split_batch" >log 2>&1 && ! grep -q 'cuda:' log && gpus=0

# Where --quick leaves nothing out, the run is the one that other tests have; that it says so is asked of chapter 3.
leaves_something_out() { # PROGRAM
    case ${1##*/} in
    03_* | 05_resnet18_concise) return 0 ;; # (chapter 5 chooses its sizes by itself)
    05_*_exercise_[23]) return 1 ;;         # minutes of small trainings, for times that no test can judge
    *) "$1" --help | grep -q -e ' --quick .*: as --' ;;
    esac
}
for program in "$build"/[0-9][0-9]_* "$build"/solved/*; do # (students have no solutions)
    name=${program##*/} # of exercises with code the solution is run
    case $program in "$build"/[0-9]*_exercise_*) ls "$root"/chapters/"${name%_exercise_*}"/exercises/"${name##*_}"_*/question.md >/dev/null 2>&1 || continue ;; esac
    [ -x "$program" ] && [ -f "$program" ] && leaves_something_out "$program" || continue
    run "$(basename "$program")" --quick
    expect_first_line 'full run\|nothing is left out'
    expect_good_files
    [ $needed -le 120 ] || complain "it needs $needed s of a core, and two cores have 120 in a minute"
    [ -s "$problems" ] || point
    verdict "$name --quick"
done

echo "1..$tests"
