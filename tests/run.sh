#!/bin/sh
# run.sh BUILD [NAME...]: runs the test programs BUILD/tests/test_* and the scripts tests/*_test.sh (or only
# those named), and ends with a line "N passed, N failed, N skipped". A program that ends without having said
# how each of its tests went counts as a failure. With AT_ONCE=N in the environment, N of them run side by side, but
# for those that ALONE="NAME .." names: these come last, one by one.
# Of a BUILD with simulated GPUs (.../cudasim) it runs only the programs, with several seeds.
#
# run.sh --one RESULTS NAME COMMAND... is what it starts for each of them.
here=$(dirname "$0")
# Tests start thousands of small kernels with more threads than cores; OpenMP's threads must not spin while
# they wait for the next.
export OMP_WAIT_POLICY=passive

# ---- one test: runs the command, says how it went, and leaves the counts in RESULTS/NAME -----------------

# Programs and scripts print TAP: "1..N" and then "ok 1 - name", "not ok 2 - name", "ok 3 # SKIP why".
run_one() { # RESULTS NAME COMMAND...
    results=$1 name=$2
    shift 2
    out=$results/$name.out began=$(date +%s)
    "$@" >"$out" 2>&1 </dev/null
    status=$? seconds=$(($(date +%s) - began))
    planned=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$out" | awk '{n += $1} END {print n + 0}')
    # cmocka says "not ok N # SKIP" of a test that was skipped, others "ok N # SKIP".
    skip=$(grep -cE '^(not )?ok .*# *(SKIP|skip)' "$out")
    ok=$(grep -E '^ok ' "$out" | grep -cvE '# *(SKIP|skip)')
    bad=$(grep -E '^not ok ' "$out" | grep -cvE '# *(SKIP|skip)')
    if [ "$planned" -eq 0 ] || [ $((ok + bad + skip)) -ne "$planned" ] || { [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; }; then
        bad=$((bad + 1))
        echo "$name: ended early, with status $status" >>"$out"
    fi
    note=
    [ "$skip" -gt 0 ] && note=", $skip skipped"
    if [ "$bad" -gt 0 ]; then
        { echo "✗ $name: $bad failed of $planned"; sed 's/^/    /' "$out"; } >"$out.said"
    else
        echo "✓ $name: $ok passed$note, $seconds s" >"$out.said"
    fi
    cat "$out.said"
    echo "$ok $bad $skip" >"$results/$name.counts"
}
if [ "$1" = --one ]; then
    shift
    run_one "$@"
    exit 0
fi

# ---- all of them -----------------------------------------------------------------------------------------

build=$1
shift
results=$(mktemp -d) || exit 1
trap 'rm -rf "$results"' EXIT
trap 'exit 1' HUP INT TERM

wanted() { # PATH, of "$@" names; all if there are none
    name=$(basename "$1")
    [ -f "$1" ] || return 1
    shift
    [ $# -eq 0 ] && return 0
    for one in "$@"; do [ "$one" = "$name" ] && return 0; done
    return 1
}

# A line for each: its name, and the command.
list_tests() { # NAME...
    for program in "$build"/tests/test_*; do
        wanted "$program" "$@" && echo "$name env CMOCKA_MESSAGE_OUTPUT=TAP $program"
    done
    for script in "$here"/*_test.sh; do
        wanted "$script" "$@" && echo "$name sh $script $build"
    done
}
list_simulated() { # NAME...
    for program in "$build"/tests/test_* "$build"/tests/cudasim/test_*; do
        wanted "$program" "$@" || continue
        # Most mistakes show with any seed, some with few. So two more: one fixed, one of the day.
        case $name in
        test_kernels | test_autograd) seeds="1 2 $(date +%Y%m%d)" ;;
        *) seeds=1 ;;
        esac
        for seed in $seeds; do
            echo "$name,CUDASIM_SEED=$seed env CUDASIM_SEED=$seed CMOCKA_MESSAGE_OUTPUT=TAP $program"
        done
    done
}

case $build in
*cudasim) # each takes one core
    list_simulated "$@" >"$results/list"
    AT_ONCE=$(nproc)
    ;;
*) list_tests "$@" >"$results/list" ;;
esac
: >"$results/first"
: >"$results/last"
awk -v alone=" ${ALONE:-} " -v results="$results" '
    { print >(results (index(alone, " " $1 " ") ? "/last" : "/first")) }' "$results/list"
xargs -r -L 1 -P "${AT_ONCE:-1}" sh "$0" --one "$results" <"$results/first"
xargs -r -L 1 sh "$0" --one "$results" <"$results/last"

# One that was killed together with its shell has left no counts.
while read -r name command; do
    [ -f "$results/$name.counts" ] && cat "$results/$name.counts" || echo 0 1 0
done <"$results/list" | awk '
    { passed += $1; failed += $2; skipped += $3 }
    END { print "\n" passed + 0 " passed, " failed + 0 " failed, " skipped + 0 " skipped"; exit !(passed && !failed) }'
