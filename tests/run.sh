#!/bin/sh
# run.sh BUILD TEST..: runs these tests by prove, Perl's harness for TAP, in this order, TESTS_AT_ONCE at a time (3, as
# some only wait): programs BUILD/tests/test_* and scripts tests/*_test.sh, which print "1..N" and then "ok 1 - name",
# "not ok 2 - name", "ok 3 # SKIP why". What a test printed is kept in BUILD/tests/tap/; of one that fails it is shown.
# One that hangs is ended after TEST_SECONDS, 25 minutes. The last lines count what was skipped for each reason, and then all:
# "N passed, N failed, N skipped".
#
# run.sh --one BUILD TEST is what prove starts for each of them.

if [ "$1" = --one ]; then
    build=$2 test=$3 tap=$2/tests/tap/$(echo "${3#"$2"/}" | tr / _).tap
    case $test in
    *.sh) set -- sh "$test" "$build" ;;
    *) set -- env CMOCKA_MESSAGE_OUTPUT=TAP "$test" ;;
    esac
    timeout --foreground -k 9 "${TEST_SECONDS:-1500}" "$@" >"$tap" 2>&1 </dev/null
    status=$?
    # cmocka says "not ok 3 # SKIP NAME" of what it skips; why stands in the line before it (tests/test.h).
    sed -i '/^# SKIP /{h;d}; /^not ok [0-9]* # SKIP/{G; s/^not ok \([0-9]* \)# SKIP \(.*\)\n\(.*\)/ok \1- \2 \3/}' "$tap"
    if [ $status -ne 0 ] || grep -q '^not ok' "$tap"; then
        sed "s|^|    |; 1s|^|✗ $(basename "$test"), status $status:\n|" "$tap" >&2
    fi
    cat "$tap"
    exit $status
fi

build=$1
shift
rm -rf "$build/tests/tap"
mkdir -p "$build/tests/tap" || exit 1
status=0
prove --timer --nocolor -j "${TESTS_AT_ONCE:-3}" --exec "sh $0 --one $build" "$@" || status=1
echo
cat "$build"/tests/tap/*.tap | awk -v status=$status '
    /^(not )?ok .*# *(SKIP|skip)/ { skipped++; sub(/.*# *(SKIP|skip) */, ""); why[$0]++; next }
    /^ok / { passed++ }
    /^not ok / { failed++ }
    END { for (reason in why) print "  " why[reason] " skipped: " reason | "sort -rn"
          close("sort -rn")
          if (status && !failed) failed = 1 # one that ended early, and has not said what failed
          print passed + 0 " passed, " failed + 0 " failed, " skipped + 0 " skipped" }'
exit $status
