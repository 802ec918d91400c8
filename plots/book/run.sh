#!/bin/sh
# run.sh PROGRAM NN_name FOLDER: runs a chapter's recorded program (record.c) for the book's pages, and keeps in
# FOLDER what it printed (stdout), which functions ran then (functions: lines FROM TO FILE:LINE:NAME ..), what came out
# where the reader predicts (answers), its pictures (plots/), and how it was run (about). A program that fails leaves what was there before.
# A line "NAME STATUS FLAG.." of the chapter's file `recorded` is one more run, with these flags, which has to end with
# that status: its errors are kept in FOLDER/recorded.NAME, without what a launcher says itself.
set -eu
program=$(realpath "$1") name=$2 folder=$3 main=chapters/$2/main.c
. "$(dirname "$0")/tools.sh"

new=$folder.new work=$folder.new
rm -rf "$new"
mkdir -p "$new"

# A chapter with a file `ranks` is so many processes, if there is MPI. Rank 0 is the one that prints, and is recorded.
set --
if [ -f "chapters/$name/ranks" ] && command -v mpirun >/dev/null 2>&1; then
    set -- sh "$(realpath .make/ranks.sh)" "$(cat "chapters/$name/ranks")"
fi
only_rank_0='case ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}} in
0) RECORD_TO=calls exec "$0" "$@" >stdout ;;
*) exec "$0" "$@" >/dev/null ;;
esac'
# RUN_05=--quick in the environment: flags for chapter 5 (CI has less patience than a reader).
eval "flags=\${RUN_${name%%_*}-}"
# A long run says every minute, on a terminal more often, how far it is: its last line.
tell() {
    pause=60 form='       %.72s\n'
    [ ! -t 1 ] || pause=5 form='\033[K       %.72s\r'
    seconds=0
    while sleep 1 >/dev/null 2>&1; do
        seconds=$((seconds + 1))
        [ $((seconds % pause)) = 0 ] || continue
        printf "$form" "$name, $((seconds / 60)):$(printf %02d $((seconds % 60))) min: $(tail -n 1 "$new/stdout" 2>/dev/null | tr -s ' ')"
    done
}
tell &
teller=$!
trap 'kill $teller 2>/dev/null; rm -rf "$work"' EXIT
status=0
(cd "$new" && exec "$@" sh -c "$only_rank_0" "$program" $flags </dev/null 2>stderr) || status=$?
if [ $status != 0 ]; then
    cat "$new/stderr" >&2
    line=$(grep -n '^int main(' "$main" | head -n 1 | cut -d: -f1)
    refuse "$main:${line:-1}: the program ended with status $status, so it has no output to show" \
        "try make run-${name%%_*}; make book RUN=0 takes the output of the last run"
fi

more=yes # without MPI there are no ranks
[ $# != 0 ] || [ ! -f "chapters/$name/ranks" ] || more=
while [ "$more" ] && read -r also expected flags_of_it && [ "$also" ]; do
    status=0
    (cd "$new" && exec "$@" "$program" $flags_of_it </dev/null >also 2>errors) || status=$?
    [ $status = "$expected" ] || refuse "chapters/$name/recorded: $flags_of_it ended with status $status, not $expected" "see $work/errors"
    {
        echo "$ make run-${name%%_*} ARGS='$flags_of_it'"
        grep -e "^$name: " -e '^hint: ' "$new/errors" | fold -s -w 96
    } >"$new/recorded.$also"
    rm "$new/also" "$new/errors"
done <<END
$(cat "chapters/$name/recorded" 2>/dev/null)
END

# Which functions ran when it was printed, main() first: FROM TO FILE:LINE:NAME ...
grep '^predict' "$new/calls" | cut -f2- >"$new/answers" || true
sed -i '/^predict/d' "$new/calls"
cut -d' ' -f3- "$new/calls" | tr ' ' '\n' | sort -u >"$new/addresses"
addr2line -f -e "$program" <"$new/addresses" | sed -E 's|^.*/(chapters/)|\1|; s| \(discriminator.*||' | paste -d' ' - - |
    paste -d' ' "$new/addresses" - | awk '
    NR == FNR { place[$1] = $3 ":" $2; next }
    { for (i = 3; i <= NF; i++) $i = place[$i]; print }' - "$new/calls" >"$new/functions"

about "\`make run-${name%%_*}${flags:+ ARGS='$flags'}\`" >"$new/about"
rm -f "$new/calls" "$new/addresses"
rm -rf "$folder"
mv "$new" "$folder"
