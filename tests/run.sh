#!/bin/sh
# run.sh BUILD [NAME...]: runs the test programs BUILD/tests/test_* and the scripts tests/*_test.sh (or only
# those named), and ends with a line "N passed, N failed, N skipped". A program that ends without having said
# how each of its tests went counts as a failure. Of a BUILD with simulated GPUs (.../cudasim) it runs only the
# programs, side by side and with several seeds.
build=$1
shift
here=$(dirname "$0")
# Tests start thousands of small kernels with more threads than cores; OpenMP's threads must not spin while
# they wait for the next.
export OMP_WAIT_POLICY=passive
passed=0 failed=0 skipped=0
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT

# Both kinds print TAP: "1..N" and then "ok 1 - name", "not ok 2 - name", "ok 3 # SKIP why".
run() { # NAME COMMAND...
    name=$1
    shift
    began=$(date +%s)
    "$@" >"$out" 2>&1 </dev/null
    report "$name" $? $(($(date +%s) - began))
}

report() { # NAME STATUS SECONDS, of what has written $out
    planned=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$out" | awk '{n += $1} END {print n + 0}')
    # cmocka says "not ok N # SKIP" of a test that was skipped, others "ok N # SKIP".
    skip=$(grep -cE '^(not )?ok .*# *(SKIP|skip)' "$out")
    ok=$(grep -E '^ok ' "$out" | grep -cvE '# *(SKIP|skip)')
    bad=$(grep -E '^not ok ' "$out" | grep -cvE '# *(SKIP|skip)')
    if [ "$planned" -eq 0 ] || [ $((ok + bad + skip)) -ne "$planned" ] || { [ "$2" -ne 0 ] && [ "$bad" -eq 0 ]; }; then
        bad=$((bad + 1))
        echo "$1: ended early, with status $2" >>"$out"
    fi
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
    note=
    [ "$skip" -gt 0 ] && note=", $skip skipped"
    if [ "$bad" -gt 0 ]; then
        echo "✗ $1: $bad failed of $planned"
        sed 's/^/    /' "$out"
    else
        echo "✓ $1: $ok passed$note, $3 s"
    fi
}

wanted() { # NAME, of "$@" names; all if there are none
    name=$1
    shift
    [ $# -eq 0 ] && return 0
    for one in "$@"; do [ "$one" = "$name" ] && return 0; done
    return 1
}

run_all() { # NAME...
    for program in "$build"/tests/test_*; do
        name=$(basename "$program")
        [ -f "$program" ] && [ -x "$program" ] && wanted "$name" "$@" && run "$name" env CMOCKA_MESSAGE_OUTPUT=TAP "$program"
    done
    for script in "$here"/*_test.sh; do
        name=$(basename "$script")
        [ -f "$script" ] && wanted "$name" "$@" && run "$name" sh "$script" "$build"
    done
}

# Tests on simulated GPUs use a core each, so as many run at a time as there are cores.
run_simulated() { # NAME...
    results=$(mktemp -d) || exit 1
    trap 'rm -rf "$out" "$results"' EXIT
    for program in "$build"/tests/test_* "$build"/tests/cudasim/test_*; do
        name=$(basename "$program")
        [ -f "$program" ] && [ -x "$program" ] && wanted "$name" "$@" || continue
        # Most mistakes show with any seed, some with few. So two more: one fixed, one of the day.
        case $name in
        test_kernels | test_autograd) seeds="1 2 $(date +%Y%m%d)" ;;
        *) seeds=1 ;;
        esac
        for seed in $seeds; do echo "CUDASIM_SEED=$seed $program"; done
    done >"$out"
    xargs -n 2 -P "$(nproc)" sh -c 'began=$(date +%s) result="$1/$2 $(basename "$3")"
        env "$2" CMOCKA_MESSAGE_OUTPUT=TAP "$3" >"$result" 2>&1 </dev/null
        echo $? $(($(date +%s) - began)) >"$result.status"' sh "$results" <"$out"
    for status in "$results"/*.status; do
        [ -f "$status" ] || continue
        name=$(basename "$status" .status)
        cat "$results/$name" >"$out"
        report "$name on simulated GPUs" $(cat "$status")
    done
}

case $build in
*cudasim) run_simulated "$@" ;;
*) run_all "$@" ;;
esac

echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
