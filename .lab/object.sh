#!/bin/sh
# object.sh YOUR_PART.o GIVEN.o LIBRARY FOLDER: what is handed in for the exercise FOLDER, compiled, has functions and data
# of its own, uses no answer that is there already (calls.sh), and has nothing by which it would get between the cases and
# their facts: no code that runs before main(), no function under a name that the cases or the library call.
set -eu
part=$1 given=$2 library=$3 folder=$4
refuse() {
    echo "error: $1"
    exit 1
}
sections=$(objdump -h "$part" | awk '$2 ~ /^\.(preinit_array|init_array|ctors|fini_array|dtors|init|fini)/ { print $2; exit }')
[ -z "$sections" ] || refuse "it has code that runs before main(), or after it ($sections)"
# Of the names that these leave open, those that the library does not have are the exercise's.
names=$({
    nm -u "$given" | awk '{ print "open", $NF }'
    nm -A "$library" 2>/dev/null | awk '$(NF - 1) ~ /^[TDBRVWC]$/ { print "has", $NF } $(NF - 1) == "U" { print "calls", $NF }'
    nm --defined-only -g "$part" | awk '{ print $(NF - 1) == "i" || $(NF - 1) == "C" ? "odd" : "defines", $NF }'
} | awk '
    $1 == "open" { open[$2] = 1 } $1 == "has" || $1 == "calls" { taken[$2] = 1 }
    $1 == "odd" { print $2; exit }
    $1 == "defines" && $2 in taken { print $2; exit }')
[ -z "$names" ] || refuse "it defines $names, a name that the cases or the library have: give it another, or make it static"
sh .lab/calls.sh "$part" "$folder"
