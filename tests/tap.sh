# tap.sh: for tests that collect what is wrong before they give a verdict. A test has a file, $problems, and sources
# this; it ends with echo "1..$tests". (The chapters' tests have chapter.sh.)
tests=0
: >"$problems"
complain() { printf '# %s\n' "$*" >>"$problems"; } # what was expected, and what came

# "ok" if nobody has complained since the last verdict. $command, if it is set, is what was tried.
verdict() { # NAME
    tests=$((tests + 1))
    if [ -s "$problems" ]; then
        echo "not ok $tests - $1"
        [ -z "${command:-}" ] || echo "# in: $command"
        cat "$problems"
    else
        echo "ok $tests - $1"
    fi
    : >"$problems"
}
skip() { # NAME WHY
    tests=$((tests + 1))
    echo "ok $tests - $1 # SKIP $2"
}
