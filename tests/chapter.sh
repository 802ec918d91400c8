# chapter.sh: what the tests of the chapters share. A test begins with
#
#     name=02_get_params_and_allreduce
#     . "$(dirname "$0")/chapter.sh"
#
# and ends with echo "1..$tests". Then there are $build (BUILD, the test's argument), $program, the chapter's,
# and $out, an empty folder that goes at the end, where run leaves what the program said.
build=$(cd "${1:?usage: $(basename "$0") BUILD}" && pwd) || exit 1
program=$build/$name
chapter=$(cd "$(dirname "$0")/../chapters/$name" && pwd) || exit 1
[ -x "$program" ] || { echo "Bail out! $program: no such program"; exit 1; }
LC_ALL=C
export LC_ALL
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
trap 'exit 1' HUP INT TERM
: >"$out/log"
: >"$out/error"

. "$(dirname "$0")/tap.sh"
shown="$out/log $out/error"

# The program with these flags: what it said is in $out/log and $out/error, its status is returned and in $status.
# The line that a program built with CUDA says on a machine without a GPU is no error.
run_program() {
    "$program" "$@" >"$out/log" 2>"$out/all_errors" </dev/null
    status=$?
    without_gpu_line <"$out/all_errors" >"$out/error"
    return $status
}
without_gpu_line() { sed "/^$name: no GPU (.*): using CPU devices\$/d"; }
run() { run_program "$@"; } # a test may give it flags of its own
has() { grep -q -e "$1" "$out/log"; }

# A data set of 64 images, in $out/data; their pixels are bytes of the program.
small_data_set() {
    mkdir "$out/data"
    {
        printf '\000\000\010\003\000\000\000\100\000\000\000\034\000\000\000\034'
        tail -c $((64 * 784)) "$program"
    } >"$out/data/train-images-idx3-ubyte"
    {
        printf '\000\000\010\001\000\000\000\100'
        for i in 1 2 3 4 5 6 7 8; do printf '\001\005\000\011\003\007\002\004'; done
    } >"$out/data/train-labels-idx1-ubyte"
}

# Whether a file is a whole picture: its first and its last bytes.
is_png() {
    [ "$(head -c 8 "$1" 2>/dev/null | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ] &&
        [ "$(tail -c 8 "$1" | od -An -tx1 | tr -d ' \n')" = 49454e44ae426082 ]
}
is_svg() { # FILE TEXT: it has this text, too
    [ "$(head -c 5 "$1" 2>/dev/null)" = '<svg ' ] && [ "$(tail -n 1 "$1")" = '</svg>' ] && grep -q "$2" "$1"
}
png_size() { # the width and height that a PNG says it has
    od -An -j16 -N8 -tu1 "$1" 2>/dev/null | awk '{ print $3 * 256 + $4, $7 * 256 + $8 }'
}

# The run that most of a test looks at: the book's, with the default flags, if it is newer than what it is made of (make
# book and make test-all make it); else one with these flags. What it wrote is in $out/plots.
main_run() { # FLAGS
    recorded=$build/runs/$name
    if [ "$(find "$recorded/stdout" -newer "$build/libbook.a" -newer "$chapter/main.c" 2>/dev/null)" ]; then
        cp "$recorded/stdout" "$out/log"
        cp -r "$recorded/plots" "$out"
        without_gpu_line <"$recorded/stderr" >"$out/error"
        status=0 # else there would be none
    else
        run_program --out "$out/plots" "$@"
    fi
}
