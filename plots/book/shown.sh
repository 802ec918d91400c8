#!/bin/sh
# shown.sh BUILD FOLDER [PAGE]: runs the commands of chapters/questions.md, or PAGE, and keeps in FOLDER/shown the lines that
# matter. Such a command is a block of one line, with a mark below it that pages leave out and shown.lua replaces:
#
#     ```sh
#     build/02_get_params_and_allreduce --memory 1KB
#     ```
#     <!-- exits 1, shows: out of memory; ^hint -->
#
# Each pattern shows the first line that it matches. There must be one, and the command must end with that status (0 if none
# is given). Commands run in the order of the page, in one folder, the same one only once. Those that need mpirun are left
# out where there is none.
set -eu
build=$(realpath "$1") folder=$(realpath -m "$2") page=${3:-chapters/questions.md}
. "$(dirname "$0")/tools.sh"
tab=$(printf '\t')
new=$folder.new work=$folder.new
rm -rf "$new"
mkdir -p "$new/ran"
ln -s "$build" "$new/build"
ln -s "$(realpath .make)" "$new/.make"

# "LINE STATUS COMMAND MARK PATTERNS" for each, between tabs.
awk -v OFS='\t' '
    /^```sh$/ { getline command; getline end }
    /^<!-- (exits [0-9]+, )?shows: .* -->$/ {
        mark = patterns = substr($0, 6, length($0) - 9)
        sub(/^.*shows: /, "", patterns)
        status = mark ~ /^exits/ ? mark + substr(mark, 7) : 0
        if (end != "```") { print "book: error: " FILENAME ":" NR ": below no command of one line" >"/dev/stderr"; exit 1 }
        print NR, status, command, mark, patterns
        end = ""
    }' "$page" >"$new/commands" || refuse "$page: a mark is wrong" "\`\`\`sh, the command, \`\`\`, then the mark"

while IFS=$tab read -r line expected command mark patterns; do
    case $command in *ranks.sh*) command -v mpirun >/dev/null 2>&1 || continue ;; esac
    ran=$new/ran/$(echo "$command" | cksum | tr ' ' -)
    if ! [ -e "$ran" ]; then
        status=0
        (cd "$new" && exec timeout 120 sh -c "$command" >"$ran" 2>&1 </dev/null) || status=$?
        [ "$status" = "$expected" ] || {
            cat "$ran" >&2
            refuse "$page:$line: it ended with status $status, not $expected: $command" "<!-- exits $status, shows: ... -->"
        }
    fi
    printf '\t%s\t%s\n' "$command" "$mark" >>"$new/shown"
    PATTERNS=$patterns awk '
        BEGIN { n = split(ENVIRON["PATTERNS"], pattern, "; ") }
        { for (i = 1; i <= n; i++) if (!(i in shown) && $0 ~ pattern[i]) shown[i] = $0 }
        END { for (i = 1; i <= n; i++) if (i in shown) print shown[i]; else { missing = 1; print "no line has " pattern[i] >"/dev/stderr" }
              exit missing }' "$ran" >"$new/lines" ||
        refuse "$page:$line: it does not print what it shows: $command" "see what it prints"
    fold -s -w 104 "$new/lines" >>"$new/shown" # (no table is as wide)
done <"$new/commands"

about "the commands shown" >"$new/about"
rm -rf "$folder" "$new/ran" "$new/lines"
mkdir "$folder"
mv "$new/shown" "$new/about" "$folder"
