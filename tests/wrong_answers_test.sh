#!/bin/sh
# wrong_answers_test.sh BUILD [ID...]: for each exercise, or for these ("06-1"), three plausible wrong answers
# (tests/wrong/NN-N/*.c) are graded. Each says in its first three lines what is wrong, which parts of the check it loses,
# and what the first of them must say:
#
#     // wrong: averages over k, although the loss was divided already
#     // loses: 1 3
#     // says: divided by k once more
#
# And the solution has all points, the starter none. Prints TAP.
set -u
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1
case $1 in /*) build=$1 ;; *) build=$(pwd)/$1 ;; esac
shift
wanted=$*
cd "$root" || exit 1
LC_ALL=C
export LC_ALL
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
tests=0
verdict() { # STATUS NAME
    tests=$((tests + 1))
    [ "$1" -eq 0 ] && echo "ok $tests - $2" && return
    echo "not ok $tests - $2"
    sed 's/^/# /' "$work/said" "$work/table"
}
if ! [ -d tests/wrong ] || ! grep -q '// SOLUTION' chapters/*/exercises/*/your_part.c; then
    echo "1..1"
    echo "ok 1 - wrong answers # SKIP this is what students have"
    exit 0
fi

# Each in a folder of its own, as a class would hand them in; where there is no sandbox without one, as they are ours.
trusted=--trusted
command -v bwrap >/dev/null && trusted=
grade() { # ID
    "$build/lab/grade" $trusted --class --labs "$1" --seconds 60 --json "$work/grades" --csv "$work/csv" "$build" \
        "$work/class" >"$work/table" 2>&1 </dev/null
}
# Of one hand-in: "NUMBER passed" or "NUMBER failed REASON HINT" for each part, or "0 failed REASON" for all.
parts_of() { # NAME
    awk -v name="  \"name\": \"$1\"," '
        $0 ~ /^  "name":/ { on = $0 == name }
        !on { next }
        /^   *"what":/ { n++ }
        /^   *"passed": true/ { print n, "passed" }
        /^   *"reason":/ { sub(/^ *"reason": "/, ""); reason = $0 }
        /^   *"hint":/ { sub(/^ *"hint": "/, ""); print n + 0, "failed", reason, $0 }' "$work/grades"
}
points_of() { sed -n "s/^\"$1\",\([0-9]*\),10,.*/\1/p" "$work/csv"; }

for exercise in chapters/*/exercises/[0-9]*/; do
    exercise=${exercise%/}
    chapter=${exercise#chapters/} title=${exercise##*/}
    id=${chapter%%_*}-${title%%_*}
    case " $wanted " in "  " | *" $id "*) ;; *) continue ;; esac
    if ! [ -d "$build/lab/exercises/$id" ]; then
        tests=$((tests + 1))
        echo "ok $tests - $id # SKIP not built here (MPI)"
        continue
    fi
    rm -rf "$work/class"
    mkdir -p "$work/class/solution" "$work/class/starter"
    cp "$exercise/your_part.c" "$work/class/solution/$id.c"
    sh .make/starter.sh "$exercise/your_part.c" >"$work/class/starter/$id.c"
    for wrong in tests/wrong/"$id"/*.c; do
        mkdir "$work/class/$(basename "$wrong" .c)"
        cp "$wrong" "$work/class/$(basename "$wrong" .c)/$id.c"
    done
    grade "$id"
    parts_of solution >"$work/said"
    [ "$(points_of solution)" = 10 ]
    verdict $? "$id: the solution has all points"
    parts_of starter >"$work/said"
    [ "$(points_of starter)" = 0 ] && ! grep -q passed "$work/said" && grep -q 'expected' "$work/said" &&
        ! grep -q '\.c:[0-9]*)' "$work/said" # which is how the program's own CHECK() ends
    verdict $? "$id: the starter has none, and the check says what it expected"
    [ "$(ls tests/wrong/"$id"/*.c | wc -l)" -ge 3 ]
    verdict $? "$id: there are three wrong answers"
    for wrong in tests/wrong/"$id"/*.c; do
        name=$(basename "$wrong" .c)
        loses=$(sed -n '2s/^\/\/ loses: //p' "$wrong") says=$(sed -n '3s/^\/\/ says: //p' "$wrong")
        parts_of "$name" >"$work/said"
        lost=$(awk '$2 == "failed" { printf "%s%s", sep, $1; sep = " " }' "$work/said")
        [ -n "$loses" ] && [ -n "$says" ] && [ "$lost" = "$loses" ] && awk '$2 == "failed"' "$work/said" | head -n 1 | sed 's/\\"/"/g' | grep -qE -e "$says"
        verdict $? "$id: $name loses $loses"
    done
done
echo "1..$tests"
