#!/bin/sh
# collect.sh WANTED FROM NAME: finds in what was handed in, a folder or a file of that name, the parts of the exercises in
# WANTED ("04-1 1_larger_batches" in a line each), and copies them to $OWN/04-1.c. Where that cannot be, $OWN/04-1.problem says why;
# $OWN/problem is one of all. It runs in the sandbox: names and archives are strangers'.
#
# What counts is ../1_larger_batches/your_part.c or ../04-1.c, wherever that lies, in archives, too, whatever their names:
# platforms and browsers give others. If one exercise is asked for, also ../your_part.c, and any .c that is all that was
# handed in. Folders named build are passed over, and links.
#
# Answers are copied, too: your_answers.md, whose first heading says which lab's, to $OWN/02.answers; predictions.md of a
# chapter's folder to $OWN/02.predictions; my.machine to $OWN/machine.
set -eu
wanted=$1 from=$2 name=$3
cat "$wanted" >/dev/null && [ -w "$OWN" ] || exit 126
single=$([ "$(wc -l <"$wanted")" = 1 ] && cut -d ' ' -f 1 "$wanted") || single=
problem() { [ -e "$OWN/$1" ] || printf '%s\n' "$2" >"$OWN/$1"; } # the first counts

take() { # ID FILE SHOWN
    if [ ! -f "$2" ] || [ -L "$2" ] || [ ! -r "$2" ]; then
        problem "$1.problem" "$3: not a plain file that can be read"
    elif [ -n "$(find "$2" -size +256k)" ]; then
        problem "$1.problem" "$3 has more than 256 KB"
    elif [ "$(tr -d '\0' <"$2" | wc -c)" != "$(wc -c <"$2")" ]; then
        problem "$1.problem" "$3 is no plain text (UTF-16?): save it as UTF-8"
    elif [ ! -e "$OWN/$1.c" ]; then
        sed 's/\r$//' "$2" >"$OWN/$1.c" # (without its mode, and without the line ends of Windows)
        printf '%s\n' "$3" >"$OWN/$1.from"
    else
        sed 's/\r$//' "$2" | cmp -s - "$OWN/$1.c" || problem "$1.problem" "twice, and not the same: $(cat "$OWN/$1.from") and $3"
    fi
}

# What is no code: the first of each. (What it says is judged by others.)
keep() { # FILE
    if [ ! -f "$1" ] || [ -L "$1" ] || [ ! -r "$1" ] || [ -n "$(find "$1" -size +256k)" ]; then return; fi
    case ${1##*/} in
    my.machine) as=machine ;;
    predictions.md) as=${1%/*} as=${as##*/} as=${as%%_*}.predictions ;;
    *) as=$(sed -n 's/^# Lab \([0-9][0-9]\):.*/\1.answers/p' "$1" | head -n 1) ;;
    esac
    case $as in '' | */* | -* | .*) ;; *) [ -e "$OWN/$as" ] || tr -d '\0' <"$1" >"$OWN/$as" ;; esac
}

# The files below a folder, each with what it is: "take 04-1", "else 04-1" (if there is none to take), "meant 04-1" (by its
# name it may have been), "archive": it may be one, as it is no text (all archives have a byte 0 soon, for which grep -I looks),
# or has the name of one (a page that asks for a password, say).
below() { # FOLDER WHAT..
    at=$1 && shift
    find "$at" -maxdepth 13 \( -name '.?*' -o -type d -name build \) ! -path "$at" -prune -o "$@"
}
kinds() { # FOLDER
    { below "$1" -type f -readable -exec env LC_ALL=C grep -LIs '' {} + -o ! -type d -print || :
        echo // && below "$1" ! -type d -print | sort; } |
        awk -v single="$single" -v folders="$(ls -d chapters/*/exercises/[0-9]*)" '
            FILENAME == ARGV[1] { folder_of[$1] = $2; next }
            FNR == 1 { n = split(folders, part, /[\/\n]/); for (i = 1; i <= n; i++) exercise[part[i]] = 1 }
            !listed { listed = $0 == "//"; binary[$0]; next }
            {
                n = split(tolower($0), part, "/")
                name = part[n]
                elsewhere = !(part[n - 1] in exercise)
                for (id in folder_of) {
                    its = part[n - 1] == folder_of[id]
                    if (name == id ".c" || (name == "your_part.c" && its)) {
                        print "take " id " " $0
                        delete binary[$0]
                    } else if (name == "your_part.c" && single != "" && elsewhere)
                        others = others "else " id " " $0 "\n"
                    else if (name ~ "(^|[^0-9])" id || (name ~ /your_part/ && (its || elsewhere)))
                        print "meant " id " " $0
                }
                if (name ~ /^(your_answers.*[.]md|predictions[.]md|my[.]machine)$/) print "text - " $0
                if ($0 in binary || name ~ /[.](zip|t?gz|t?xz|t?bz2?|tar|t?zst|7z|rar)$/) print "archive - " $0
            }
            END { printf "%s", others }' "$wanted" -
}
search() { # FOLDER NAME DEPTH: NAME stands for FOLDER in what is said; DEPTH: an x for each archive around it
    kinds "$1" | while IFS= read -r line; do
        kind=${line%% *} rest=${line#* }
        id=${rest%% *} path=${rest#* }
        shown=$2${path#"$1"/}
        case $kind in
        take) : >"$OWN/$id.exact" && take "$id" "$path" "$shown" ;;
        else) [ -e "$OWN/$id.exact" ] || take "$id" "$path" "$shown" ;;
        meant) problem "$id.meant" "${path##*/}" ;;
        text) keep "$path" ;;
        *) unpack "$path" "$shown" "$3" "${path##*/}" ;;
        esac
    done
}
# A file that is no archive is passed over if it has not the name of one, either. (That of all that is handed in is meant so.)
unpack() { # FILE SHOWN DEPTH NAME
    { [ "$1" = "$from" ] || printf '%s\n' "$4" | grep -qiE '^hand-in|\.(zip|t?gz|t?xz|t?bz2?|tar|t?zst|7z|rar)([^a-z]|$)'; } && meant=yes || meant=
    [ -f "$1" ] && [ ! -L "$1" ] && [ -r "$1" ] || { [ -z "$meant" ] || problem problem "$2: not a plain file that can be read" && return; }
    [ "$3" != xxx ] || { [ -z "$meant" ] || problem problem "$2: an archive in archives in archives: hand in what is in it" && return; }
    into=$(mktemp -d) || exit 126
    # (A name that would lead out of the folder stays in it. Without a password it would ask for one.)
    if bsdtar -x -f "$1" -C "$into" --passphrase x --no-same-owner --no-same-permissions -s '|\.\./||g' >"$into.said" 2>&1 </dev/null; then
        [ -z "$meant" ] || [ -n "$(ls -A "$into")" ] || problem problem "${2##*/}: an empty archive"
    else
        { grep -q 'Unrecognized archive' "$into.said" && { { gzip -t <"$1" && gzip -dc <"$1" >"$into/${4%.*}"; } || [ -z "$meant" ]; } 2>/dev/null; } ||
            problem problem "${2##*/}: not a whole archive: $(sed 's/^bsdtar: //' "$into.said" | head -n 1)"
    fi
    chmod -R u+rwX "$into"
    # (What came of a file in part is filled up with bytes 0.)
    [ ! -s "$into.said" ] || LC_ALL=C find "$into" -type f -exec grep -LIsZ '' {} + | xargs -0 rm -f
    search "$into" "$2: " "${3}x"
    rm -rf "$into" "$into.said"
}

if [ -d "$from" ]; then
    search "$from" '' ''
elif [ ! -f "$from" ]; then
    problem problem "neither a folder nor a file"
else
    case $name in
    *.[cC]) [ -n "$single" ] && take "$single" "$from" "$name" ||
        { cut -d ' ' -f 1 "$wanted" | grep -qxFe "${name%.*}" && take "${name%.*}" "$from" "$name"; } ||
        problem problem "$name: which exercise is it? 04-1.c is that of 04-1" ;;
    *) unpack "$from" "$name" '' "$name" ;;
    esac
fi
