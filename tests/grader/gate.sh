#!/bin/sh
# gate.sh FOLDER SOURCE OBJECT COMPILE: whether a part can be an answer to the exercise FOLDER, before anything of it
# runs: its own lines are plain C, it calls what FOLDER/may_call and c_names list and nothing else, and it defines the
# exercise's functions and nothing else. OBJECT is SOURCE, compiled; COMPILE is the command that compiles "$SOURCE".
set -eu
folder=$1 SOURCE=$2 object=$3 compile=$4
export SOURCE
refuse() { # ERROR HINT
    echo "your_part.c: error: $1"
    echo "hint: $2"
    exit 1
}
# Its own lines, as the preprocessor leaves them, where no macro hides a word. (A file that changes though no other was
# entered, flag 1, or left, flag 2, was named by a #line of its own.)
why=$(sh -c "$compile -E" 2>/dev/null | awk -v own="$SOURCE" '
    /^# [0-9]+ "/ {
        split($0, quoted, "\"")
        flag = substr(quoted[3], 2, 1)
        if (begun && flag != 1 && flag != 2 && quoted[2] != file) { print "a #line"; exit }
        if (quoted[2] != own && quoted[2] ~ /\.c$/) { print "an #include of " quoted[2]; exit }
        begun = begun || (file ~ /^</ && quoted[2] == own)
        file = quoted[2]
        next
    }
    file == own { gsub(/"([^"\\]|\\.)*"/, "\"\"") }
    file == own && match($0, /(^|[^A-Za-z_0-9])(__asm__|__asm|asm|__attribute__|__attribute)([^A-Za-z_0-9]|$)|\[\[/) {
        print substr($0, RSTART, RLENGTH)
        exit
    }
    file == own && /^ *# *pragma/ { print "a #pragma"; exit }')
[ -z "$why" ] || refuse "it has $why, which no answer needs" "plain C: no assembler, attributes, pragmas, nor other .c files"

allowed() { sed -n "s/^$1 //p" "$folder/may_call" | tr ' ' '\n'; } # calls | defines: one a line
list=$(mktemp) && trap 'rm -f "$list"' EXIT
{ allowed calls && sed '/^#/d' tests/grader/c_names | tr ' ' '\n'; } >"$list"
name=$(nm -u "$object" | awk '{ print $NF }' | grep -Evxf "$list" | head -n 1) || :
[ -z "$name" ] || refuse "it uses $name, which is not among what this exercise is written with" \
    "what it may call is listed in $folder/may_call"
allowed defines >"$list"
name=$(nm -g --defined-only "$object" | awk '{ print $NF }' | grep -Evxf "$list" | head -n 1) || :
[ -z "$name" ] || refuse "it defines $name, a name that others could call" "make it static"
odd=$(nm -g --defined-only "$object" | awk '$(NF - 1) !~ /^[TDBR]$/ { print $NF; exit }')
[ -z "$odd" ] || refuse "it defines $odd in an odd way" "functions and data of the exercise, as your_part.h declares them"
section=$(objdump -h "$object" | awk '$2 ~ /^\.(preinit_array|init_array|ctors|fini_array|dtors|init|fini)/ { print $2; exit }')
[ -z "$section" ] || refuse "it has code that runs before main(), or after it ($section)" "the cases call your functions"
