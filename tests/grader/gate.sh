#!/bin/sh
# gate.sh FOLDER SOURCE OBJECT PREPROCESSED: whether a part can be an answer to the exercise FOLDER, before anything of it
# runs: its own lines are plain C, it calls what FOLDER/may_call and c_names list and nothing else, and it defines the
# exercise's functions and nothing else. OBJECT is SOURCE, compiled; PREPROCESSED is what the preprocessor has made of it.
# (tests/lab/deceivers: what it is there for)
set -eu
folder=$1 object=$3
refuse() { # ERROR HINT
    echo "your_part.c: error: $1"
    echo "hint: $2"
    exit 1
}
# First as it was written, its lines joined where they end with \. No line may pretend to be a header's (a "# 1" of its
# own), and no macro change what a header says. Then its own lines as they were compiled, where no macro hides a word.
why=$(awk -v own="$2" '
    BEGIN {
        begins = "(\n|[*]/)[^!-~\n]*(#|%:|[?][?]=)[^!-~\n]*" # a directive
        words = "__asm__|__asm|asm|__attribute__|__attribute|gnu|__gnu__|_GLOBAL_OFFSET_TABLE_"
        words = words "|__builtin_[a-z_]*(address|jmp|return|apply|unwind)[a-z_]*"
    }
    FNR == NR { text = text "\n" $0; next }
    FNR == 1 {
        gsub(/(\\|\?\?\/)[ \t\f\v\r]*\n/, "", text)
        gsub(/define[ \t]+_[A-Z]+_SOURCE/, "", text)
        if (text ~ begins "([0-9]|line|/[*])") { print "a #line"; exit }
        defines = match(text, begins "(define|undef)")
        late = defines && substr(text, defines + 1) ~ begins "(include|import)"
        if (late) { print "an #include after a #define"; exit }
    }
    /^# [0-9]+ "/ {
        split($0, quoted, "\"")
        file = quoted[2]
        if (file == own || file ~ /^<|\/\/$/) next # (the last is the folder in which the compiler works)
        if (file !~ /^([^\/]|\/usr\/|\/opt\/).*\.h$/ || file ~ /\.\./) { print "an #include of " file; exit }
        next
    }
    file != own { next }
    /^ *#/ { print "a " $1; exit }
    { gsub(/"([^"\\]|\\.)*"|\047([^\047\\]|\\.)*\047/, "\"\"") }
    match($0, "(^|[^A-Za-z_0-9])(" words ")([^A-Za-z_0-9]|$)|[[][[]") {
        word = substr($0, RSTART, RLENGTH)
        gsub(/[^][A-Za-z_]/, "", word)
        print word
        exit
    }' "$2" "$4")
[ -z "$why" ] || refuse "it has $why, which no answer needs" \
    "plain C: first #includes of headers, and no assembler, attributes or pragmas"

allowed() { sed -n "s/^$1 //p" "$folder/may_call" | tr ' ' '\n'; } # calls | defines: one a line
list=$object.allowed && trap 'rm -f "$list"' EXIT
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
