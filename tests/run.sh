#!/bin/sh
# run.sh BUILD [NAME...]: runs the test programs BUILD/test_* and the scripts tests/*_test.sh (or only those
# named), and ends with a line "N passed, N failed, N skipped". A program that ends without having said how
# each of its tests went counts as a failure.
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
run() {
    name=$1
    shift
    began=$(date +%s)
    "$@" >"$out" 2>&1 </dev/null
    status=$?
    seconds=$(($(date +%s) - began))
    planned=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$out" | awk '{n += $1} END {print n + 0}')
    # cmocka says "not ok N # SKIP" of a test that was skipped, others "ok N # SKIP".
    skip=$(grep -cE '^(not )?ok .*# *(SKIP|skip)' "$out")
    ok=$(grep -E '^ok ' "$out" | grep -cvE '# *(SKIP|skip)')
    bad=$(grep -E '^not ok ' "$out" | grep -cvE '# *(SKIP|skip)')
    if [ "$planned" -eq 0 ] || [ $((ok + bad + skip)) -ne "$planned" ] || { [ $status -ne 0 ] && [ "$bad" -eq 0 ]; }; then
        bad=$((bad + 1))
        echo "$name: ended early, with status $status" >>"$out"
    fi
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
    note=
    [ "$skip" -gt 0 ] && note=", $skip skipped"
    if [ "$bad" -gt 0 ]; then
        echo "✗ $name: $bad failed of $planned"
        sed 's/^/    /' "$out"
    else
        echo "✓ $name: $ok passed$note, $seconds s"
    fi
}

wanted() { # NAME, of "$@" names; all if there are none
    name=$1
    shift
    [ $# -eq 0 ] && return 0
    for one in "$@"; do [ "$one" = "$name" ] && return 0; done
    return 1
}

for program in "$build"/test_*; do
    [ -x "$program" ] && [ ! -d "$program" ] || continue
    wanted "$(basename "$program")" "$@" && run "$(basename "$program")" env CMOCKA_MESSAGE_OUTPUT=TAP "$program"
done
for script in "$here"/*_test.sh; do
    [ -f "$script" ] || continue
    wanted "$(basename "$script")" "$@" && run "$(basename "$script")" sh "$script" "$build"
done

echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
