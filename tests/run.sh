#!/bin/sh
# run.sh BUILD TEST..: runs these tests by prove, Perl's harness for TAP, in this order and JOBS at a time (3, as some
# only wait): programs BUILD/tests/test_* and scripts tests/*_test.sh, which print "1..N" and then "ok 1 - name",
# "not ok 2 - name", "ok 3 # SKIP why". What a test printed is kept in BUILD/tests/tap/; of one that fails it is shown.
# One that hangs is ended after 25 minutes. The last line is "N passed, N failed, N skipped".
#
# run.sh --one BUILD TEST is what prove starts for each of them.

if [ "$1" = --one ]; then
    build=$2 test=$3 tap=$2/tests/tap/$(basename "$3").tap
    case $test in
    *.sh) set -- sh "$test" "$build" ;;
    *) set -- env CMOCKA_MESSAGE_OUTPUT=TAP "$test" ;;
    esac
    timeout --foreground -k 9 1500 "$@" >"$tap" 2>&1 </dev/null
    status=$?
    sed -i 's/^not ok \([0-9]* # SKIP\)/ok \1/' "$tap" # cmocka says "not ok" of what it skips
    if [ $status -ne 0 ] || grep -q '^not ok' "$tap"; then
        sed "s|^|    |; 1s|^|✗ $(basename "$test"), status $status:\n|" "$tap" >&2
    fi
    cat "$tap"
    exit $status
fi

build=$1
shift
# Tests start thousands of small kernels with more threads than cores; OpenMP's threads must not spin while they wait
# for the next.
export OMP_WAIT_POLICY=passive
rm -rf "$build/tests/tap"
mkdir -p "$build/tests/tap" || exit 1
status=0
prove --timer --nocolor -j "${JOBS:-3}" --exec "sh $0 --one $build" "$@" || status=1
echo
cat "$build"/tests/tap/*.tap | awk -v status=$status '
    /^(not )?ok .*# *(SKIP|skip)/ { skipped++; next }
    /^ok / { passed++ }
    /^not ok / { failed++ }
    END { if (status && !failed) failed = 1 # one that ended early, and has not said what failed
          print passed + 0 " passed, " failed + 0 " failed, " skipped + 0 " skipped" }'
exit $status
