#!/bin/sh
# arrows_test.sh BUILD: the arrows of the house run one way. A room of common/ includes, and links with, only
# rooms named before it, and the kernels; the kernels know neither rooms nor chapters; a chapter knows only
# chapters before it, and no backend; common/book.h, which brings all that chapters use, is for chapters (and
# tests) alone; and no two chapters define one symbol. (So no circle runs through two rooms; nor does one
# through the files of common/base, common/device or common/tensor.) In a chapter main.c uses the files beside it, which
# teach, and behind/, which uses what teaches: so what teaches includes no behind/, no chapter includes another's, and
# nothing needs main.c. POSIX's threads and processes are behind platform.h, but for those of many
# machines. Prints TAP. At the end each kind of mistake is planted in a small tree, and must be found.
. "$(dirname "$0")/tap.sh"
# In this order; common/README.md says what is in each. The last one is common/book.h.
rooms="base device model tensor data program book.h"
shown=$work/found

# Functions that both halves use. place("common/tensor/nn.c") is "tensor", place("kernels/cpu/sum.c") is
# "kernels", place("chapters/04_name/main.c") is "chapter 4". An arrow may run to a place of the same or a
# smaller rank.
functions='
    BEGIN { rooms = split(ROOMS, room, " "); for (i = 1; i <= rooms; i++) rank_of[room[i]] = i }
    function place(path,    part) {
        split(path, part, "/")
        if (part[1] == "kernels") return "kernels"
        if (part[1] == "chapters") return "chapter " (part[2] + 0)
        return part[2]
    }
    function rank(path,    name) {
        name = place(path)
        if (name == "kernels") return 0
        if (name ~ /^chapter /) return 1000 + substr(name, 9)
        if (!(name in rank_of)) print path ": the order of rooms in this test lacks " name
        return rank_of[name]
    }
    function is_main(path) { return path ~ /^chapters\/[^\/]*\/main\.c$/ }
    function teaches(path) { return path ~ /^chapters\/[^\/]*\/[^\/]*$/ && !is_main(path) }
    function is_backend(path) {
        return path ~ /^kernels\/(cpu|cuda)\// || path ~ /^common\/device\/(backend|device_cpu|device_cuda|cuda_none)\./
    }'

# ---- what is included ------------------------------------------------------------------------------------

wrong_includes() { # TREE
    (cd "$1" && find common kernels chapters -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh') >"$work/files"
    (cd "$1" && xargs grep -n '^ *# *include *"' /dev/null) <"$work/files" | awk -F '"' -v ROOMS="$rooms" -v FILES="$work/files" "$functions"'
        BEGIN { while ((getline file <FILES) > 0) exists[file] = 1 }
        {
            where = $1; sub(/: *# *include *$/, "", where)
            file = where; sub(/:.*/, "", file)
            folder = file; sub(/[^\/]*$/, "", folder)
            included = plain(folder $2) # as the compiler does: from the folder of the file, then from the root
            if (!(included in exists)) included = $2
            if (!(included in exists)) print where ": there is no " $2
            else if (rank(included) > rank(file)) print where ": " place(file) " includes " included
            else if (file ~ /^chapters/ && is_backend(included)) print where ": a chapter includes " included
            else if (is_main(included) || included ~ /\/behind\// && (teaches(file) || place(file) != place(included)))
                print where ": includes " included
        }
        function plain(path) { # without folder/../
            while (sub(/[^\/.]+\/\.\.\//, "", path));
            return path
        }'
}

# ---- what is linked --------------------------------------------------------------------------------------

# The objects of the sources that there are: BUILD may hold older ones. Exercises are programs of their own,
# whose symbols meet nobody else's. The kernels of a CPU are looked at before those of one instruction set
# become one object.
objects() { # TREE BUILD
    (cd "$1" && find common kernels chapters -name '*.c' -o -name '*.cu' | grep -v /exercises/) | while read -r source; do
        for object in "$2/obj/$source.o" "$2/obj/kernels"/cpu-*/"${source#kernels/cpu/}.o"; do
            [ -f "$object" ] && echo "$object"
        done
    done
}

wrong_symbols() { # TREE BUILD
    objects "$1" "$2" >"$work/objects"
    [ -s "$work/objects" ] || echo "no objects in $2"
    xargs nm -A -P -g <"$work/objects" | sed "s,^.*/obj/,,; s,/cpu-[a-z0-9]*/,/cpu/," | awk -v ROOMS="$rooms" -v PAIRS="$work/pairs" "$functions"'
        BEGIN { printf "" >PAIRS }
        $2 == "main" { next }
        { object = $1; sub(/\.o:$/, "", object) }
        $3 == "U" { needs[object, $2] = 1; next }
        $3 ~ /^[A-TV-Z]$/ {
            if ($2 in home && place(home[$2]) != place(object) && (home[$2] object) ~ /chapters.*chapters/)
                print $2 " is defined in " home[$2] " and in " object
            home[$2] = object
        }
        END {
            for (need in needs) {
                split(need, part, SUBSEP)
                if (!(part[2] in home)) continue # a library has it
                if (rank(home[part[2]]) > rank(part[1]) || is_main(home[part[2]]))
                    print part[1] " needs " part[2] ", which " home[part[2]] " defines"
                else if (part[1] ~ /^chapters/ && is_backend(home[part[2]]))
                    print part[1] " needs " part[2] " of a backend, " home[part[2]]
                if (place(home[part[2]]) == place(part[1]) && part[1] ~ /^common\/(base|device|tensor)\//)
                    print part[1], home[part[2]] >PAIRS
            }
        }'
    tsort "$work/pairs" 2>&1 >"$work/sorted" | sed -n 's/^tsort: \(common.*\)/\1 is in a circle/p'
}

found() { # TREE BUILD
    wrong_includes "$1" >"$work/found"
    (cd "$1" && grep -nE '^ *# *include *<((pthread|sched|spawn|semaphore|threads)|sys/(wait|mman|ioctl))\.h>|^ *# *(el)?if.*__(linux|wasi|APPLE|GLIBC)__' /dev/null $(cat "$work/files") |
        grep -vE '^(common/base/platform_|chapters/08_)') >>"$work/found"
    wrong_symbols "$1" "$2" >>"$work/found"
}
found "$root" "$build"
[ ! -s "$work/found" ]
verdict $? "what is included, and what is linked"

# ---- each kind of mistake, planted in a small tree -------------------------------------------------------

tree=$work/tree
file() { # PATH TEXT: is written, and compiled
    mkdir -p "$tree/$(dirname "$1")"
    printf '%b\n' "$2" >"$tree/$1"
    object=$tree/obj/$1.o
    case $1 in *.h) return ;; kernels/cpu/*) object=$tree/obj/kernels/cpu-v1/${1#kernels/cpu/}.o ;; esac
    mkdir -p "$(dirname "$object")"
    (cd "$tree" && ${CC:-cc} -w -iquote . -c "$1" -o "$object")
}
while read -r path text; do file "$path" "$text"; done <<'FILES'
kernels/kernels.h int kernel(void);
kernels/sum.c #include "kernels/kernels.h"\nint kernel(void) { return 1; }
kernels/cpu/cpu.h int cpu_kernel(void);
kernels/cpu/sum.c #include "cpu.h"\nint cpu_kernel(void) { return 1; }
common/base/error.h int error(void);
common/base/error.c #include "error.h"\nint error(void) { return 1; }
common/device/device.h #include "kernels/kernels.h"\nint device(void), queue(void);
common/device/queue.c #include "device.h"\nint queue(void) { return 1; }
common/device/device.c #include "common/base/error.h"\n#include "device.h"\nint device(void) { return error() + kernel() + queue(); }
common/book.h #include "common/device/device.h"
chapters/01_one/one.h int one(void);
chapters/01_one/one.c #include "one.h"\n#include "common/device/device.h"\nint one(void) { return device(); }
chapters/01_one/behind/behind.h #include "../one.h"\nint behind(void);
chapters/01_one/behind/behind.c #include "behind.h"\nint behind(void) { return one(); }
chapters/01_one/main.c #include "one.h"\n#include "behind/behind.h"\nint own(void) { return 1; }\nint main(void) { return one() + behind(); }
chapters/02_two/two.h int two(void);
chapters/02_two/two.c #include "chapters/01_one/one.h"\nint two(void) { return one(); }
chapters/02_two/main.c #include "common/book.h"\nint main(void) { return 0; }
FILES
found "$tree" "$tree"
[ ! -s "$work/found" ]
verdict $? "a small tree as it should be"

# A row: what is wrong, the file that is so for a while, what is said of it.
while IFS='@' read -r name path text wanted; do
    cp "$tree/$path" "$work/kept" 2>/dev/null || echo '// nothing' >"$work/kept"
    file "$path" "$text" 2>/dev/null
    found "$tree" "$tree"
    grep -q "$wanted" "$work/found"
    verdict $? "found: $name"
    file "$path" "$(cat "$work/kept")"
done <<'ROWS'
a room that includes a later one@common/base/error.h@#include "common/device/device.h"@error.h:1: base includes common/device/device.h
a kernel that includes a room@kernels/kernels.h@#include "common/base/error.h"@kernels.h:1: kernels includes common/base/error.h
a room that includes a chapter@common/device/device.h@#include "../../chapters/01_one/one.h"@device includes chapters/01_one/one.h
a chapter that includes a later one@chapters/01_one/one.c@#  include "chapters/02_two/two.h"@chapter 1 includes chapters/02_two/two.h
a chapter that includes a backend@chapters/02_two/main.c@#include "kernels/cpu/cpu.h"@main.c:1: a chapter includes kernels/cpu/cpu.h
a room that includes what is for chapters@common/device/device.h@#include "common/book.h"@device includes common/book.h
a room without a place in the order@common/cellar/wine.h@#include "common/base/error.h"@the order of rooms in this test lacks cellar
an include of what is not there@chapters/01_one/one.c@#include "nowhere.h"@there is no nowhere.h
what teaches that includes behind/@chapters/01_one/one.c@#include "behind/behind.h"@one.c:1: includes chapters/01_one/behind/behind.h
a chapter that includes behind/ of another@chapters/02_two/main.c@#include "../01_one/behind/behind.h"@main.c:1: includes
an include of main.c@chapters/01_one/behind/behind.c@#include "../main.c"@behind.c:1: includes chapters/01_one/main.c
a room that needs a later one@common/base/error.c@int device(void); int error(void) { return device(); }@error.c needs device, which common/device/device.c defines
a kernel that needs a room@kernels/cpu/sum.c@int error(void); int cpu_kernel(void) { return error(); }@kernels/cpu/sum.c needs error, which common/base/error.c
a chapter that needs a later one@chapters/01_one/one.c@int two(void); int one(void) { return two(); }@one.c needs two, which chapters/02_two/two.c
what needs main.c@chapters/01_one/behind/behind.c@int own(void); int behind(void) { return own(); }@behind.c needs own, which chapters/01_one/main.c defines
a chapter that needs a backend@chapters/02_two/two.c@int cpu_kernel(void); int two(void) { return cpu_kernel(); }@two.c needs cpu_kernel of a backend
a chapter that knows POSIX@chapters/02_two/two.c@#include <pthread.h>\nint two(void) { return 2; }@chapters/02_two/two.c:1:#include <pthread.h>
a room that asks which system it is on@common/base/error.c@#ifdef __linux__\nint error(void) { return 1; }\n#endif@common/base/error.c:1:#ifdef __linux__
a circle of two files@common/device/queue.c@int device(void); int queue(void) { return device(); }@common/device/queue.c is in a circle
two chapters that define one symbol@chapters/02_two/two.c@int one(void) { return 2; }@one is defined in chapters.* and in chapters
ROWS
echo "1..$tests"
