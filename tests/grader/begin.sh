# begin.sh: read by those scripts here that write an archive of $build. $program is who complains, $work a folder beside what
# is written: so that is there as a whole, or not at all.
# shellcheck shell=sh
set -eu
export LC_ALL=C
refuse() { # ERROR HINT
    echo "$program: error: $1" >&2
    echo "hint: $2" >&2
    exit 1
}
mkdir -p "$build/lab"
work=$(mktemp -d "$(realpath "$build")/lab/$program.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
