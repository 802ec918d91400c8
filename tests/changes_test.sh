#!/bin/sh
# changes_test.sh BUILD: what a change makes anew: of settings, of sources, and of what the machine has. Prints TAP. Works
# in a copy of the tree, with a PATH of its own, in which tools come and go.
set -u
. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/copy.sh"
# (Fewer programs to link.)
rm -rf "$copy"/chapters/*/exercises "$copy"/chapters/0[01567]*/main.c "$copy"/chapters/*/in_browser
echo 'about chapter 3' >"$copy/chapters/03_split_batch/in_browser"
settings=${settings#CUDA=? }

mkdir "$work/hidden"
own_path "$work/path"
# shellcheck disable=SC2123 # all of it
PATH=$work/path
hide() { for tool; do mv "$work/path/$tool" "$work/hidden" 2>/dev/null; done; }
show() { for tool; do mv "$work/hidden/$tool" "$work/path" 2>/dev/null; done; }
fake() { # NAME SCRIPT: the tool is this now
    rm -f "$work/path/$1"
    printf '#!/bin/sh\n%s\n' "$2" >"$work/path/$1"
    chmod +x "$work/path/$1"
}
# (No machine has this toolkit.)
CUDA_HOME=$work/toolkit
export CUDA_HOME
rm -f "$work/path"/nvcc

# What make would do, in $work/steps: a line each. FOLDERS: how many are of these.
would() { # WORDS..
    (cd "$copy" && make -n COUNTING=1 SIDE_BY_SIDE=1 CC="$cc" ARCH="$arch" $settings "$@") >"$out" 2>"$err" </dev/null
    status=$?
    grep '^: step;' "$out" >"$work/steps"
}
steps() { grep -c -e "$1" "$work/steps"; } # REGEX
compiled_alone() { # REGEX: these are compiled, nothing else
    others=$(grep -e ' -c ' "$work/steps" | grep -v -e "$1" | sed 's/.* -c //')
    [ -z "$others" ] || complain "expected $1 to be compiled alone, and not" $others
    expect 0 "steps:-c $1"
}

would programs
files=$(ls "$copy"/common/*/*.c "$copy"/kernels/*.c "$copy"/chapters/*/*.c "$copy"/chapters/*/behind/*.c | wc -l)
build_copy programs
expect 0
would programs
expect 0 steps:
build_copy
expect 0 '!out:^\['
(export YOUR_PART=-DX DONE=x WANTED=x MPI=/opt/mpi NVCC=nvcc ZLIB=-lz CLASS=x && build_copy wanted && would programs && cp "$work/steps" "$work/exported")
expect 0 exported:
verdict "when nothing has changed, nothing is made, whatever somebody exports"

report() { # what make finds
    build_copy report "$@"
    cat "$copy/build/config.mk" >>"$out"
}

# ---- settings --------------------------------------------------------------------------------------------

would LDFLAGS=-L/nowhere programs
expect 0 'steps: -o build/08_many_machines .*-L/nowhere' '!steps: -c '
would 'CFLAGS=-march=native -flto' programs
expect 0 'steps:-march=native .*-c common/base/error.c' 'steps:-c kernels/cpu/' '!steps:-march=native .*-c kernels/cpu/' 'steps:libbook.a' '!steps:-flto'
[ "$(steps ' -c ')" -gt $((files - 20)) ] || complain "expected nearly all of $files sources, came $(steps ' -c ')"
verdict "flags that change are noticed, and those for one CPU are kept out of kernels for all"

build_copy build/03_split_batch CFLAGS=-Ofas''t
expect error "err:^make: error: -[a-zO=-]* among the flags" 'err:^hint: ' '!out:^\['
report "CPPFLAGS=-DTITLE='\"a b\"'"
expect 0 'out:✓ compiler'
report CFLAGS=-no-such-flag
expect error 'err:^make: error: with .*CFLAGS.* nothing compiles: .*no-such-flag' 'err:^hint: '
verdict "flags that break promises, or with which nothing compiles, are refused"

fake cc 'case "$*" in --version) echo "cc (newer) 99" ;; *) exec gcc "$@" ;; esac'
would CC=cc programs
[ "$(steps ' -c ')" -gt $((files - 20)) ] || complain "expected nearly all of $files sources, came $(steps ' -c ')"
rm "$work/path/cc"
ln -s "$(command -v gcc)" "$work/path/cc"
verdict "a newer compiler of the same name is another one"

# Libraries in one's own folder: this compiler has none in the system's.
fake cc "case \" \$* \" in *' -I$work/own '*' -L$work/own '*) ;; *' -ljansson '* | *' -lz '*) exit 1 ;; esac; exec gcc \"\$@\""
mkdir "$work/own"
report CC=cc
expect error 'err:^make: error: missing: zlib1g-dev libjansson-dev'
report CC=cc CPPFLAGS="-I$work/own" LDFLAGS="-L$work/own"
expect 0 'out:✓ zlib' 'out:✓ jansson'
would CC=cc CPPFLAGS="-I$work/own" LDFLAGS="-L$work/own" programs
expect 0 "steps:-I$work/own .*-c common/data/safetensors.c" "steps:-o build/08_many_machines .*-L$work/own"
would CC=cc JANSSON= ZLIB= programs
expect 0 'steps:-c common/data/safetensors_none.c' '!steps:-ljansson' '!steps:-lz '
report CC=cc JANSSON= ZLIB=
expect 0 err:
rm "$work/path/cc"
ln -s "$(command -v gcc)" "$work/path/cc"
verdict "libraries in a folder of one's own are found and linked, and two may be done without"

# ---- sources ---------------------------------------------------------------------------------------------

mv "$copy/chapters/05_resnet18_concise/running_statistics.c" "$work/moved.c"
would programs
expect 0 'steps:ar rcs build/libbook.a' '!steps:running_statistics.c.o' '!steps: -c '
mv "$work/moved.c" "$copy/chapters/05_resnet18_concise/running_statistics.c"
verdict "a source that is taken away is missed"

# ---- an exercise -----------------------------------------------------------------------------------------

# As students have it: with what is expected, and without the solution.
folder=chapters/04_lenet_multi_gpu/exercises its=$folder/1_larger_batches
if [ -f "$root/$its/solution.c" ] && [ -f "$build/lab/exercises/04-1/expected.tsv" ]; then
    mkdir -p "$copy/$its" && cp -p "$root/$folder"/*.[ch] "$copy/$folder" && cp -p "$root/$its"/*[!s] "$copy/$its" && rm "$copy/$its/solution.c"
    cp "$build/lab/exercises/04-1/expected.tsv" "$copy/$its"
    judged() { # FILE DATE REGEX..: this is the part now, and has this date
        cp "$1" "$copy/$its/your_part.c" && touch -d "$2" "$copy/$its/your_part.c" && shift 2
        build_copy exercise-04-1 ARGS=--check
        expect "$@"
    }
    part=$root/$its/your_part.c solution=$root/$its/solution.c
    judged "$part" 2002-02-02 error 'out:^0 of 10' "err:^hint: edit $its/your_part.c"
    # What students leave beside it.
    for name in 'your_part - Copy.c' your_part_old.c your_part_old.h your_part.c~ your_part.c.orig .#your_part.c my.c ../your_part.c '../../main (1).c'; do cp "$solution" "$copy/$its/$name"; done
    cp -r "$copy/$its" "$copy/$its - Copy" && cp -r "$copy/$its" "$copy/${its}_old" && cp -r "$copy/chapters/03_split_batch" "$copy/chapters/03_split_batch - Copy"
    judged "$solution" 2001-01-01 0 'out:^10 of 10' '!err:warning' '!err:target'
    rm -r "$copy/chapters/03_split_batch - Copy"
    # Its clock was set back.
    find "$copy/build/04_lenet_multi_gpu_exercise_1" "$copy/build/obj/$its" "$copy/build/lab" -type f -exec touch -d '+2 years' {} +
    judged "$part" 2000-01-01 error 'out:^0 of 10'
    cp -p "$copy/$its/your_part.h" "$work" && sed -i 's/train_epoch/&_2/' "$copy/$its/your_part.h" && touch -d 2001-01-01 "$copy/$its/your_part.h"
    judged "$part" 2000-01-01 error 'err:train_epoch'
    cp -p "$work/your_part.h" "$copy/$its"
    verdict "a verdict is about what is in the exercise's own files, whatever their dates"

    cp "$solution" "$copy/$its/your_part.c"
    fake flock 'echo "flock: 9: Function not implemented" >&2; exit 65'
    ln -sf "$(command -v bash)" "$work/path/sh"
    (SHELLOPTS=noclobber && export SHELLOPTS && build_copy grade LABS=04-1 && expect 0 'out: 10 of 10$' 'err:goes on without a lock.*(Function not implemented)')
    ln -sf "$(command -v dash)" "$work/path/sh"
    verdict "make grade does without locks, and with shell options of others"
    rm -rf "$copy"/chapters/*/exercises
else
    skip "an exercise's files" "no solution here, or it is not built (make expected-04-1)"
fi

# ---- what the machine has --------------------------------------------------------------------------------

fake gnuplot 'echo gnuplot 5.4'
fake prove 'exit 0'
fake clang 'case "$*" in --version) echo clang 14 ;; esac'
hide gnuplot prove mpirun clang
report
expect 0 'out:✗ gnuplot' 'out:✗ prove' 'out:✗ MPI'
would programs
compiled_alone chapters/08_many_machines/
build_copy wasm
expect error 'err:error: no clang for WebAssembly' 'err:^hint: make setup wasm'
echo devices,epoch, >"$copy/plots/some.csv"
build_copy plots
expect error 'err:error: no gnuplot' 'err:^hint: make setup'
rm "$copy/plots/some.csv"
build_copy plots
expect error 'err:error: plots/ has no curves'
show gnuplot prove mpirun clang
report
expect 0 'out:✓ gnuplot' 'out:✓ prove'
would programs
expect 0 steps:
would wasm
expect 0 'steps:build/wasm/03_split_batch.wasm'
verdict "tools that go and come are noticed, and change only what needs them"

mkdir "$work/data"
FASHION_MNIST_DIR=$work/data report
expect 0 "out:✗ data: FASHION_MNIST_DIR is $work/data"
for name in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do echo 1 >"$work/data/$name-ubyte"; done
FASHION_MNIST_DIR=$work/data report
expect 0 "out:✓ data: $work/data"
FASHION_MNIST_DIR=$work/nowhere report
expect 0 "out:✗ data: FASHION_MNIST_DIR is $work/nowhere"
would programs
expect 0 steps:
verdict "so is the data set, where it is and where it is to be looked for"

# A toolkit that compiles everything.
arch=
mkdir -p "$work/toolkit/bin"
cat >"$work/toolkit/bin/nvcc" <<CODE
#!/bin/sh
case " \$* " in
*--list-gpu-code*) printf 'sm_%s\n' 75 80 90 ;;
*--version*) printf '%s\n' 'release 99.1, V99' ;;
*) ! cat "$work/toolkit/fails" ;;
esac
CODE
chmod +x "$work/toolkit/bin/nvcc"
would CUDA=1 programs
expect 0 'steps:-c kernels/cuda/' 'steps:-c common/device/device_cuda.c' 'steps:libbook.a' '!steps:-c common/tensor'
report CUDA=1
expect 0 'out:✓ nvcc: CUDA 99.1, code for sm_75 sm_80 sm_90 compute_90$'
would CUDA=0 programs
expect 0 steps:
mv "$work/toolkit" "$work/elsewhere"
would CUDA=1 programs
expect 0 steps:
mv "$work/elsewhere" "$work/toolkit"
verdict "a CUDA toolkit that comes, and one that goes"

(cd "$copy" && ARCH=x86_64 make CUDA=1 CC="$cc" report) >"$out" 2>"$err" </dev/null
status=$?
expect error "err:^make: error: ARCH is 'x86_64'" 'err:^hint: .*make ARCH='
arch='8.0,sm_90' report CUDA=1
expect 0 'out:✓ nvcc: .*code for sm_80 sm_90 compute_90$'
echo 'nvcc fatal : gcc 99 is too new' >"$work/toolkit/fails"
report CUDA=1
expect 0 'out:✗ nvcc: found, but it does not compile: nvcc fatal : gcc 99 is too new$'
rm "$work/toolkit/fails"
verdict "ARCH is a list of GPU architectures, and what nvcc says is shown"

fake find 'case " $* " in *" -writable "* | *" -printf "*) echo "find: unrecognized" >&2; exit 1 ;; esac; exec '"$(realpath "$work/path/find")"' "$@"'
fake ar 'echo "Usage: ar x|p|t" >&2; exit 1'
rm "$copy/build/libbook.a"
build_copy programs
expect error "err:^make: error: $work/path/ar makes no archive" 'err:^hint: '
report
expect 0 err:
verdict "tools with fewer options than GNU's do, or are named"

# ---- who builds ------------------------------------------------------------------------------------------

# A folder that may not be written; or, if root runs this test, a file of root's, and a make of somebody else's.
somebody=
if [ "$(id -u)" = 0 ]; then
    chmod go+rx "$work" && chown -R 65534 "$copy" && chown 0 "$copy/build/with/c"
    somebody='setpriv --reuid=65534 --clear-groups'
else
    chmod a-w "$copy/build/obj/common"
fi
(cd "$copy" && $somebody make CC="$cc" report) >"$out" 2>"$err" </dev/null
status=$?
expect error 'err:^make: error: .* cannot write to build/[a-z/]*, which belongs to ' 'err:^hint: as root: chown -R '
verdict "what belongs to somebody else in the build is named"

echo "1..$tests"
