# tap.sh: what scripts that print TAP share; chapter.sh has it, too. A test BUILD has $root, the repository, and $build, both
# absolute, and $work, a folder that goes at the end. It ends with echo "1..$tests". Of what fails, the files in $shown are
# shown; else $problems, a file of what it complains of.
root=$(cd "$(dirname "$0")/.." && pwd) && build=$(realpath -m "${1:?usage: $(basename "$0") BUILD}") && work=$(mktemp -d) || exit 1
export LC_ALL=C
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
tests=0 problems=$work/problems
: >"$problems"
complain() { printf '# %s\n' "$*" >>"$problems"; } # what was expected, and what came

# "ok" if STATUS (without one, 0) is 0 and nobody has complained since the last verdict. $command, if it is set, is what
# was tried.
verdict() { # [STATUS] NAME
    tests=$((tests + 1))
    [ $# = 2 ] || set -- 0 "$1"
    if [ "$1" -eq 0 ] && [ ! -s "$problems" ]; then
        echo "ok $tests - $2"
    else
        echo "not ok $tests - $2"
        [ -z "${command:-}" ] || echo "# in: $command"
        cat ${shown:-"$problems"} 2>/dev/null | sed 's/^\(# \)*/# /'
    fi
    : >"$problems"
}
skip() { # NAME WHY
    tests=$((tests + 1))
    echo "ok $tests - $1 # SKIP $2"
}
skip_all() { # NAME WHY
    skip "$1" "$2"
    echo "1..1"
    exit 0
}
