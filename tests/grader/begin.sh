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
why=$(mkdir -p "$build/lab" 2>&1) && why=$(mktemp -d "$(realpath "$build")/lab/$program.XXXXXX" 2>&1) ||
    refuse "$build/lab cannot be written to: ${why##*: }" "is it yours, and is there room on the disk?"
work=$why
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
written() { # FILE COMMAND..: the command writes $work/new, which is FILE then
    file=$1 && shift
    { why=$("$@" 2>&1) && why=$(mv -T "$work/new" "$file" 2>&1); } ||
        refuse "$file: cannot be written: $(echo "$why" | grep -m 1 . || echo "ended early")" "it needs GNU's tar, room on the disk, and no folder of that name"
}
