# copy.sh: for tests of the Makefile, which source it after tap.sh: a copy of the tree in $copy, with BUILD's objects if they
# serve, and makes in it.

# What a make that runs the tests says to its children would change ours.
unset MAKEFLAGS OPTIMIZE ISAS MPI ZLIB JANSSON CPPFLAGS LDFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES SANITIZE V CUDA ARCH WERROR CFLAGS CC GNUMAKEFLAGS MAKE_TERMOUT MAKE_TERMERR

out=$work/out err=$work/err
# What the last command did: its end, and lines that are, or are not, in files of $work. FILE: alone is an empty one.
expect() { # 0|error [!]FILE:REGEX..
    case $1/$status in 0/0 | error/[1-9]*) ;; *) complain "expected status $1, came $status" ;; esac
    shift
    for wanted; do
        file=${wanted%%:*} regex=${wanted#*:}
        case $wanted in
        "$file:") [ ! -s "$work/$file" ] ;;
        !*) ! grep -q -e "$regex" "$work/${file#!}" ;;
        *) grep -q -e "$regex" "$work/$file" ;;
        esac || complain "expected $wanted"
    done
    [ ! -s "$problems" ] || head -n 15 "$out" "$err" | sed 's/^/#     /' >>"$problems"
}
times_in() { grep -c -e "$2" "$work/$1"; } # FILE REGEX

# What belongs to the repository: what git has or would take, or everything but build/.
(cd "$root" && git ls-files --cached --others --exclude-standard) >"$work/tracked" 2>/dev/null && [ -s "$work/tracked" ] ||
    (cd "$root" && find . -type f ! -path './build/*' ! -path './.git/*' | sed 's,^\./,,') >"$work/tracked"

copy=$work/copy
mkdir "$copy"
(cd "$root" && tr '\n' '\0' <"$work/tracked" | xargs -0 tar -cf - 2>/dev/null) | (cd "$copy" && tar -xf -)
# The settings that BUILD was made with; with other ones all would be compiled again.
setting() { sed -n "s/^SETTINGS := .*$1='\([^']*\)'.*/\1/p" "$build/config.mk"; }
settings='CUDA=0' cc=cc arch=
if [ -f "$build/config.mk" ] && [ -d "$build/obj" ] && ! grep -q "FLAGS='[^']" "$build/config.mk"; then
    cc=$(setting CC) arch=$(setting ARCH)
    settings="CUDA=$(setting CUDA) WERROR=$(grep -c -e ' -Werror ' "$build/with/c")"
    mkdir "$copy/build"
    cp -Rp "$build/config.mk" "$build/obj" "$build/with" "$copy/build/"
fi
build_copy() { # WORDS..: make in the copy
    (cd "$copy" && make CC="$cc" ARCH="$arch" $settings "$@") >"$out" 2>"$err" </dev/null
    status=$?
}
# A folder with all tools, as links, from which some can be taken away. (ccache looks for the compiler in the other folders.)
own_path() { # FOLDER
    mkdir "$1"
    for folder in $(echo "$PATH" | tr ':' ' '); do
        case $folder in *ccache*) ;; *) ln -s "$folder"/* "$1" 2>/dev/null ;; esac
    done
}
