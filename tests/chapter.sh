# chapter.sh: what the tests of the chapters share. A test begins with
#
#     name=02_get_params_and_allreduce
#     . "$(dirname "$0")/chapter.sh"
#
# and ends with echo "1..$tests". Then there are $build (BUILD, the test's argument), $root, the repository, $program, the
# chapter's, and $out, where the test is: an empty folder that goes at the end. Facts, not wording: it compares numbers.
. "$(dirname "$0")/tap.sh"
program=$build/$name chapter=$root/chapters/$name
[ -x "$program" ] || { echo "Bail out! $program: no such program"; exit 1; }
out=$work && cd "$out" || exit 1
: >log
: >error
shown="$out/problems $out/log $out/error"

# The program with these flags: what it said is in log and error, its status is returned and in $status.
# Two remarks are no errors: there is no GPU, for a program built with CUDA; and this machine is busy.
run_program() {
    "$program" "$@" >"$out/log" 2>"$out/all_errors" </dev/null
    status=$?
    without_remarks <"$out/all_errors" >"$out/error"
    return $status
}
without_remarks() { sed "/^$name: no GPU (.*): using CPU devices\$/d; /^$name: products of matrices reach .* here, where /d"; }
run() { run_program "$@"; } # a test may give it flags of its own

# The last run ended well, and has no NaN; with these flags it does.
good() { [ $status -eq 0 ] && [ ! -s error ] && ! grep -Eiqw 'nan|-?inf' log || complain "status $status, an error or a NaN"; }
works() { # FLAGS
    command="$name $*"
    run "$@"
    good
}
# Rows "STATUS TEXT | FLAGS; FLAGS..": with these, it ends with two lines, an error that has TEXT and a hint; with status 2,
# a wrong flag, it has said nothing before, nor made a file.
refusals() {
    while IFS='|' read -r text row; do
        while [ "$row" ]; do
            flags=${row%%;*} row=${row#"$flags"}
            row=${row#;}
            run $flags
            wanted=${text#* }
            refused "${text%% *}" "${wanted% }"
            [ "${text%% *}" != 2 ] || [ ! -s log ] || complain "it began all the same"
            verdict "refused:${flags% }"
        done
    done
}
refused() { # STATUS TEXT
    [ $status -eq "$1" ] || complain "status $status, not $1"
    grep -q "error: .*$2" error && grep -q '^hint: ' error && [ "$(wc -l <error)" -eq 2 ] || complain "not an error '$2' and a hint"
}

# What the log has, whatever its lines: all of these regexes, none of them.
words() { tr -s ' \n' ' ' <log; }
has() { for regex; do words | grep -q -e "$regex" || complain "no '$regex'"; done; }
lacks() { for regex; do ! words | grep -i -e "$regex" || complain "there is '$regex'"; done; }
# Rows "LABEL | NUMBERS": a line that begins with LABEL (a regex) goes on with these; LOW..HIGH is between them, * any.
log_rows() {
    awk -F ' *[|] *' '
        function plain(s) {
            while (match(s, /[0-9],[0-9]/)) s = substr(s, 1, RSTART) substr(s, RSTART + 2)
            gsub(/ +/, " ", s); sub(/^ /, "", s)
            return s " "
        }
        function fits(line, wanted,    came, w, range, i, n) {
            split(line, came, " ")
            for (i = split(wanted, w, " "); i > 0; i--)
                if (w[i] != "*" && w[i] != came[i] &&
                    !(split(w[i], range, /\.\./) == 2 && came[i] ~ /^[0-9.]+(e[-+]?[0-9]+)?$/ && came[i] + 0 >= range[1] + 0 && came[i] + 0 <= range[2] + 0))
                    return 0
            return 1
        }
        FNR == NR { label[++n] = $1; wanted[n] = plain($2); next }
        { line = plain($0)
          for (i = 1; i <= n; i++) if (match(line, "^" label[i] " ")) {
              rest = substr(line, RLENGTH + 1); all[i] = all[i] "; " rest
              if (fits(rest, wanted[i])) found[i] = 1 } }
        END { for (i = 1; i <= n; i++) if (!found[i]) print "# wanted: " label[i] " " wanted[i] all[i]; if (!n) print "# no rows" }' - log >>"$problems"
}
# Of a file, what an awk program prints is wrong.
figures() { # FILE PROGRAM
    case $1 in *.csv) set -- "$1" "$2" , ;; *) set -- "$1" "$2" ' ' ;; esac
    [ -s "$1" ] || complain "no $1"
    awk -F "$3" "$2" "$1" >wrong 2>&1
    [ ! -s wrong ] || complain "$1: $(head -n 3 wrong)"
}

# A data set of the first images of Fashion-MNIST, not packed: a program reads it in no time.
first() { head -c "$1" && cat >/dev/null; } # (reads all: whoever writes and ignores SIGPIPE would complain)
small_data_set() { # [TRAIN TEST]
    from=${FASHION_MNIST_DIR:-/usr/share/datasets/fashion-mnist}
    mkdir data
    for part in "train ${1:-64}" "t10k ${2:-64}"; do
        set=$from/${part% *} n=${part#* }
        size=$(printf '\\%03o\\%03o' $((n / 256)) $((n % 256)))
        { printf "\0\0\010\003\0\0$size"; gzip -cdf "$set"-images-idx3-ubyte* | first $((784 * n + 16)) | tail -c +9; } >"data/${part% *}-images-idx3-ubyte"
        { printf "\0\0\010\001\0\0$size"; gzip -cdf "$set"-labels-idx1-ubyte* | first $((n + 8)) | tail -c +9; } >"data/${part% *}-labels-idx1-ubyte"
    done
    export FASHION_MNIST_DIR="$out/data"
}

# Each is a whole picture: its first and its last bytes.
is_png() { # FILE..
    for png; do
        [ "$({ head -c 8 "$png"; tail -c 8 "$png"; } 2>&1 | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a49454e44ae426082 ] || complain "no picture: $png"
    done
}
is_svg() { # FILE TEXT: it has this text, too
    [ "$(head -c 5 "$1")" = '<svg ' ] && [ "$(tail -n 1 "$1")" = '</svg>' ] && grep -q "$2" "$1" || complain "no SVG with '$2': $1"
}
png_size() { # FILE "WIDTH HEIGHT"
    came=$(od -An -j16 -N8 -tu1 "$1" | awk '{ print $3 * 256 + $4, $7 * 256 + $8 }')
    [ "$came" = "$2" ] || complain "$1 is $came, not $2"
}

# The run that most of a test looks at: the book's, with the default flags, if it is newer than what it is made of (make
# book and make test-all make it: $is_recorded); else one with these flags. What it wrote is in plots.
main_run() { # FLAGS
    recorded=$build/runs/$name is_recorded=
    if [ "$(find "$recorded/stdout" -newer "$build/libbook.a" -newer "$chapter/main.c" 2>/dev/null)" ]; then
        is_recorded=yes
        cp "$recorded/stdout" log
        cp -r "$recorded/plots" .
        without_remarks <"$recorded/stderr" >error
        status=0 # else there would be none
    else
        run_program "$@"
    fi
}
