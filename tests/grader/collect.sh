#!/bin/sh
# collect.sh WANTED FROM NAME: finds in what was handed in, a folder or a file of that name, the parts of the exercises in
# WANTED ("04-1 1_larger_batches" in a line each), and copies them to $OWN/04-1.c. Where that cannot be, $OWN/04-1.problem says why;
# $OWN/problem is one of all. It runs in the sandbox: names and archives are strangers'.
#
# What counts is ../1_larger_batches/your_part.c or ../04-1.c, wherever that lies, in archives, too. If one exercise is
# asked for, also ../your_part.c, and any .c that is all that was handed in. Folders named build are passed over, and links.
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
        cat "$2" >"$OWN/$1.c" # (without its mode)
        printf '%s\n' "$3" >"$OWN/$1.from"
    else
        cmp -s "$2" "$OWN/$1.c" || problem "$1.problem" "handed in twice, and not the same: $(cat "$OWN/$1.from") and $3"
    fi
}

# The files below a folder, each with what it is: "take 04-1", "meant 04-1" (by its name it may have been), "archive".
kinds() { # FOLDER
    find "$1" -maxdepth 13 \( -name '.?*' -o -type d -name build \) ! -path "$1" -prune -o ! -type d -print | sort |
        awk -v single="$single" -v folders="$(ls -d chapters/*/exercises/[0-9]*)" '
            FNR == NR { folder_of[$1] = $2; next }
            FNR == 1 { n = split(folders, part, /[\/\n]/); for (i = 1; i <= n; i++) exercise[part[i]] = 1 }
            {
                n = split(tolower($0), part, "/")
                name = part[n]
                elsewhere = !(part[n - 1] in exercise)
                for (id in folder_of) {
                    its = part[n - 1] == folder_of[id]
                    if (name == id ".c" || (name == "your_part.c" && (its || (single != "" && elsewhere))))
                        print "take " id " " $0
                    else if (index(name, id) == 1 || (index(name, "your_part") == 1 && (its || elsewhere)))
                        print "meant " id " " $0
                }
                if (name ~ /.\.(zip|tar|tar\.gz|tgz|tar\.xz|tar\.bz2|7z)$/) print "archive - " $0
            }' "$wanted" -
}
search() { # FOLDER NAME [inside]: NAME stands for FOLDER in what is said; in an archive no other is opened
    kinds "$1" | while IFS= read -r line; do
        kind=${line%% *} rest=${line#* }
        id=${rest%% *} path=${rest#* }
        shown=$2${path#"$1"/}
        case $kind in
        take) take "$id" "$path" "$shown" ;;
        meant) problem "$id.meant" "${path##*/}" ;;
        *) [ $# = 2 ] && unpack "$path" "$shown" || problem problem "$shown: an archive in an archive: hand in what is in it" ;;
        esac
    done
}
unpack() { # ARCHIVE SHOWN
    [ -f "$1" ] && [ ! -L "$1" ] && [ -r "$1" ] || { problem problem "$2: not a plain file that can be read" && return; }
    into=$(mktemp -d) || exit 126
    # (A name that would lead out of the folder stays in it.)
    bsdtar -x -f "$1" -C "$into" --no-same-owner --no-same-permissions -s '|\.\./||g' >"$into.said" 2>&1 </dev/null ||
        problem problem "${2##*/}: not a whole archive: $(sed 's/^bsdtar: //' "$into.said" | head -n 1)"
    chmod -R u+rwX "$into"
    [ -n "$(ls -A "$into")" ] || problem problem "${2##*/}: an empty archive"
    search "$into" "$2: " inside
    rm -rf "$into" "$into.said"
}

if [ -d "$from" ]; then
    search "$from" ''
elif [ ! -f "$from" ]; then
    problem problem "neither a folder nor a file"
else
    case $name in
    *.c) [ -n "$single" ] && take "$single" "$from" "$name" ||
        { cut -d ' ' -f 1 "$wanted" | grep -qxFe "${name%.c}" && take "${name%.c}" "$from" "$name"; } ||
        problem problem "$name: which exercise is it? 04-1.c is that of 04-1" ;;
    *) unpack "$from" "$name" ;;
    esac
fi
