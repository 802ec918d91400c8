#!/bin/sh
# probe.sh: finds out what this machine has, by compiling a line of each. Writes to standard output what
# the Makefile includes as build/config.mk; lines that start with "#! " are its report.
#
# From the environment: CC, CPPFLAGS, CFLAGS, LDFLAGS, CUDA (0: leave it out), ARCH (GPU architectures, such as "80 90").
# With the argument --packages it prints just the packages (Debian's names) of what is missing, with --required those of
# them without which nothing can be made, with --all-packages what would be missing on a bare system. With --state it
# compiles nothing, and prints a number that changes when there may be something else to find. What only some goals need is
# asked for by FOR: "test" for tests, "book" to make the book's pages, "book-check" to try them in a browser, too,
# "lab-sheets" to print those of labs, "grade" to grade hand-ins of others, "wasm" to make chapters 0 to 4 as WebAssembly
# and run them, "lint" to look at the sources' style.
set -u
export LC_ALL=C # tools' messages are read
CC=${CC:-cc}
CPPFLAGS=${CPPFLAGS:-} CFLAGS=${CFLAGS:-} LDFLAGS=${LDFLAGS:-}
CUDA=${CUDA:-1}
ARCH=${ARCH:-}
FOR=${FOR:-}
data=${FASHION_MNIST_DIR:-/usr/share/datasets/fashion-mnist}
nvcc=$(command -v nvcc 2>/dev/null || command -v "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" 2>/dev/null) || nvcc=
mode=${1:-config}

# Which tools there are, and when they, the folders with headers and libraries and the lists of what is installed were
# last changed. (A folder's date is that of the last name in it that came or went.)
folders_of_yours=${PKG_CONFIG_PATH:-}:${PKG_CONFIG_LIBDIR:-}:${CPATH:-}:${C_INCLUDE_PATH:-}:${LIBRARY_PATH:-}:${COMPILER_PATH:-}
state() {
    echo "$CC|$CPPFLAGS|$CFLAGS|$LDFLAGS|$CUDA|$ARCH|$data|$folders_of_yours"
    $CC --version | head -n 1
    {
        for tool in $CC gcc g++ clang wasm-ld ld objcopy pkg-config fc-match gnuplot prove mpirun mpicc; do
            command -v -- "$tool"
        done
        printf '%s\n' "$nvcc" "$(dirname "$(dirname "$(realpath "$nvcc")")")/include" "$data" "$data"/* "$data"/*/*
        printf '%s\n' /var/lib/dpkg/status /var/lib/rpm /var/lib/pacman/local /lib/apk/db /etc/ld.so.cache \
            /usr/include /usr/lib /usr/lib64 /usr/local/include /usr/local/lib /usr/share/fonts "$0"
        printf '%s\n' $CPPFLAGS $CFLAGS $LDFLAGS | sed -n 's/^-[IL]//p; s/^\//&/p'
        echo "$folders_of_yours" | tr ':' '\n'
        sed -n 's/^FONT := //p' "${CONFIG:-/dev/null}"
    } | tr '\n' '\0' | xargs -0 stat -L -c '%n %Y %s'
}
if [ "$mode" = --state ]; then
    state 2>&1 | cksum
    exit
fi

bare= # yes: nothing is there
[ "$mode" = --all-packages ] && bare=yes && CC=cc && CUDA=0 && CPPFLAGS='' && CFLAGS='' && LDFLAGS=''
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# All are set, if to nothing, so that variables of the environment with these names mean nothing.
config="$(printf '%s :=\n' COMPILER OPENMP ISAS ZLIB JANSSON STB RANDOM123 FONT CMOCKA PROVE SIMULATOR GNUPLOT MPI \
    WASM_CC WASM_VERSION NVCC NVCC_VERSION GENCODE CUDA_RPATH MISSING LACKING)
"
report= packages= missing=
found() { report="$report#! ✓ $1
"; }
lacking() { # what, packages, whether all needs it ("required" or nothing)
    report="$report#! ✗ $1
"
    for lacked in $2; do
        case " $packages " in *" $lacked "*) ;; *) packages="$packages $lacked" ;; esac
        [ -z "${3:-}" ] && continue
        case " $missing " in *" $lacked "*) ;; *) missing="$missing $lacked" ;; esac
    done
}
set_variable() { config="$config$1 := $(printf '%s\n' "$2" | sed 's/\$/$$/g; s/#/\\#/g')
"; }
refuse() { # ERROR HINT
    printf 'make: error: %s\nhint: %s\n' "$1" "$2" >&2
    exit 1
}

# compiles CODE FLAGS...: does this program compile and link?
compiles() {
    [ -z "$bare" ] || return 1
    printf '%s\n' "$1" >"$work/probe.c"
    shift
    # (As in a recipe: quotes in flags are the shell's.)
    eval "$CC -std=c11 -D_GNU_SOURCE $CPPFLAGS $CFLAGS -o \"\$work/probe\" \"\$work/probe.c\" $LDFLAGS \"\$@\"" >"$work/log" 2>&1
}
# What a tool said of an error: the line with that word, or the first.
words_of() { { grep -v ^collect2 "$1" | grep -m 1 -i -e error -e fatal || grep -m 1 . "$1" || echo 'it said nothing'; } | tr -d '#'; }

# library NAME VARIABLE PACKAGE PKG-CONFIG-NAME CODE FLAGS: plainly, else with what pkg-config says.
library() {
    name=$1 variable=$2 package=$3 pc=$4 code=$5 flags=$6
    if ! compiles "$code" $flags; then
        flags=$(pkg-config --cflags --libs "$pc" 2>/dev/null) || flags=
        if [ -z "$flags" ] || ! compiles "$code" $flags; then
            lacking "$name (package $package)" "$package" required
            return
        fi
    fi
    set_variable "$variable" "$flags"
    found "$name"
}

# ---- what every chapter needs --------------------------------------------------------------------

# A compiler's package has its name (gcc-11, clang-16), that of cc is gcc.
compiler=gcc
for word in $CC; do
    case $word in
    -* | *=* | ccache | */ccache) continue ;;
    cc | */cc | c99 | */c99 | *[!a-zA-Z0-9/.+-]*) ;;
    *) compiler=${word##*/} ;;
    esac
    break
done
# gcc brings its OpenMP along; clang's is a package of its own, which must be of clang's version.
version=$(echo __clang_major__ | $CC -E -P -x c - 2>/dev/null | tail -n 1)
case $version:$compiler in
[0-9]*) openmp=libomp-${version%%[!0-9]*}-dev ;; # CC is a clang that works
:clang) openmp=libomp-dev ;;
:clang-*) openmp=libomp-${compiler#clang-}-dev ;;
*) openmp=$compiler ;;
esac

empty='int main(void) { return 0; }'
your_flags="$CPPFLAGS$CFLAGS$LDFLAGS"
if [ "$your_flags" ] && ! compiles "$empty" && mine=$(words_of "$work/log") && CPPFLAGS='' CFLAGS='' LDFLAGS='' compiles "$empty"; then
    refuse "with CPPFLAGS, CFLAGS or LDFLAGS nothing compiles: $mine" "without them $CC does"
fi
if compiles "$empty"; then
    set_variable COMPILER "$($CC --version | head -n 1)"
    found "compiler: $($CC --version | head -n 1)"
    library "OpenMP" OPENMP "$openmp" openmp '#include <omp.h>
int main(void) { return omp_get_max_threads() < 1; }' "-fopenmp"
else
    needed=$(printf '%s\n' "$compiler" libc6-dev "$openmp" | awk '!seen[$0]++' | tr '\n' ' ')
    lacking "compiler $CC (packages ${needed% })" "$needed" required
    # Another compiler finds the libraries as well.
    for CC in cc gcc clang; do compiles "$empty" && break; done
fi
# The instruction sets that kernels/cpu is compiled for.
if compiles '#ifndef __x86_64__
#error
#endif
int main(void) { return 0; }'; then set_variable ISAS "v1 v2 v3 v4"; else set_variable ISAS plain; fi
library "zlib" ZLIB zlib1g-dev zlib '#include <zlib.h>
int main(void) { return gzopen("", "r") != 0; }' "-lz"
library "jansson" JANSSON libjansson-dev jansson '#include <jansson.h>
int main(void) { json_t *j = json_object(); json_decref(j); return 0; }' "-ljansson"
library "stb" STB libstb-dev stb '#include <stb/stb_image_write.h>
#include <stb/stb_truetype.h>
int main(void) { return stbtt_InitFont == 0 || stbi_write_png_to_func == 0; }' "-lstb -lm"
library "Random123" RANDOM123 librandom123-dev random123 '#include <Random123/philox.h>
int main(void) { philox4x32_ctr_t c = {{0}}; philox4x32_key_t k = {{0}}; return philox4x32(c, k).v[0] == 0; }' ""

# fc-match always names a font; it must be the one asked for, because others may be in other formats.
font=$(fc-match -f '%{family}|%{file}' 'DejaVu Sans:style=Book' 2>/dev/null) || font=
case $font in
'DejaVu Sans|'*.ttf) font=${font#*|} ;;
*) font= ;;
esac
if [ -z "$bare" ] && [ -n "$font" ] && printf '__asm__(".incbin \\"%s\\"");int main(void){return 0;}' "$font" >"$work/font.c" &&
    $CC -o "$work/font" "$work/font.c" >/dev/null 2>&1; then
    set_variable FONT "$font"
    found "font for pictures: $(basename "$font")"
else
    lacking "font for pictures (packages fontconfig fonts-dejavu-core)" "fontconfig fonts-dejavu-core" required
fi

# ---- what some things need -----------------------------------------------------------------------

case " $FOR " in
*test*) for_tests=required ;;
*) for_tests='' ;;
esac
library_before=$missing
library "cmocka (for make test)" CMOCKA libcmocka-dev cmocka '#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
int main(void) { return cmocka_set_test_filter == 0; }' "-lcmocka"
[ "$for_tests" ] || missing=$library_before
if [ -z "$bare" ] && command -v prove >/dev/null 2>&1; then
    set_variable PROVE prove
    found "prove (for make test)"
else
    lacking "prove: no make test without it (package perl)" perl $for_tests
fi

# gcc and g++ whatever CC is, because they compile .cu files for tests/cudasim.
echo 'int main() { return 0; }' >"$work/probe.cpp"
if [ -z "$bare" ] && g++ -std=c++17 -fsanitize=address,undefined -fopenmp -o "$work/probe" "$work/probe.cpp" >/dev/null 2>&1 &&
    gcc -fsanitize=address,undefined -x c -o "$work/probe" "$work/probe.cpp" >/dev/null 2>&1; then
    set_variable SIMULATOR "$(g++ --version | head -n 1)"
    found "g++ (for make test-all: CUDA code on simulated GPUs)"
else
    lacking "g++: no tests of CUDA code on simulated GPUs (package g++)" "g++"
fi

if [ -z "$bare" ] && gnuplot --version >/dev/null 2>&1; then
    set_variable GNUPLOT yes
    found "gnuplot: $(gnuplot --version)"
else
    lacking "gnuplot: no curves without it (package gnuplot-nox)" gnuplot-nox
fi

# The names and places are those of common/data/fashion_mnist.c.
has_file() { # FOLDER NAME
    dotted=${2%-idx*}.idx${2#*-idx}
    for own in '' "$2/" "$dotted/" "$2.gz/" "$dotted.gz/"; do
        for suffix in .gz '' .GZ; do
            [ -f "$1/$own$2$suffix" ] || [ -f "$1/$own$dotted$suffix" ] && return
        done
    done
    return 1
}
complete=no
for place in . FashionMNIST/raw raw data/fashion fashion-mnist; do
    [ $complete = yes ] && break
    complete=yes
    for name in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
        has_file "$data/$place" $name-ubyte || complete=no
    done
done
if [ $complete = yes ] && [ -z "$bare" ]; then
    found "data: $data"
elif [ -n "${FASHION_MNIST_DIR:-}" ] && [ -z "$bare" ]; then # for the user to mend: no package brings files into that folder
    report="$report#! ✗ data: FASHION_MNIST_DIR is $data, which has not all four files
"
else
    lacking "data: Fashion-MNIST (package dataset-fashion-mnist, or set FASHION_MNIST_DIR)" "dataset-fashion-mnist"
fi

# Ranks of chapter 8 are started by MPI's mpirun. Some MPIs are known to pkg-config, all to their own mpicc.
mpi_code='#include <mpi.h>
int main(void) { return MPI_Init_thread(0, 0, MPI_THREAD_MULTIPLE, 0) == MPI_SUCCESS && MPI_Finalize(); }'
mpi=
for pc in ompi-c mpich mpi; do
    [ -n "$mpi" ] || mpi=$(pkg-config --cflags --libs $pc 2>/dev/null) || mpi=
done
[ -n "$mpi" ] || mpi=$(mpicc --showme:compile 2>/dev/null && mpicc --showme:link 2>/dev/null) || mpi=
[ -n "$mpi" ] || mpi=-lmpi
mpi=$(echo $mpi) # one line
if compiles "$mpi_code" $mpi && command -v mpirun >/dev/null 2>&1; then
    set_variable MPI "$mpi"
    found "MPI: $(echo $(mpirun --version 2>/dev/null | head -n 2))" # MPICH says its version in the second line
else
    lacking "MPI: chapter 8 runs on one rank only (packages libopenmpi-dev openmpi-bin)" "libopenmpi-dev openmpi-bin"
fi

# ---- what grades hand-ins of others, what the book's pages need, and what makes WebAssembly ----------

case " $FOR " in
*' grade '*)
    command -v bwrap >/dev/null 2>&1 || lacking "bubblewrap (package bubblewrap)" bubblewrap required
    command -v bsdtar >/dev/null 2>&1 || lacking "bsdtar (package libarchive-tools)" libarchive-tools required
    command -v jq >/dev/null 2>&1 || lacking "jq (package jq)" jq required
    ;;
esac

case " $FOR " in
*' book'* | *' lab-sheets '*)
    command -v pandoc >/dev/null 2>&1 || lacking "pandoc (package pandoc)" pandoc required
    command -v git >/dev/null 2>&1 || lacking "git (package git)" git required
    command -v python3 >/dev/null 2>&1 || lacking "python3 (package python3)" python3 required
    [ -e /usr/share/javascript/lunr/lunr.js ] || lacking "lunr (package libjs-lunr)" libjs-lunr required
    ;;
esac
case " $FOR " in
*' book-'* | *' lab-sheets '*)
    command -v chromium >/dev/null 2>&1 || lacking "chromium (package chromium)" chromium required
    ;;
esac
case " $FOR " in
*' lab-sheets '*) # with a wider font, two sheets are longer than a page
    fc-list 2>/dev/null | grep -q 'Liberation Serif' || lacking "Liberation Serif (package fonts-liberation)" fonts-liberation
    ;;
esac

echo "$empty" >"$work/probe.c"
if [ -z "$bare" ] && clang --target=wasm32-wasi --sysroot=/usr -msimd128 -o "$work/probe.wasm" "$work/probe.c" \
    -lwasi-emulated-signal -lwasi-emulated-getpid >/dev/null 2>&1; then
    set_variable WASM_CC "clang --target=wasm32-wasi --sysroot=/usr"
    set_variable WASM_VERSION "$(clang --version | head -n 1)"
fi
case " $FOR " in
*' no-wasm '*) ;;
*' book '* | *' wasm '*) # without it there is a book, too
    case " $FOR " in *' wasm '*) needed=required ;; *) needed= ;; esac
    version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p' | head -n 1)
    case $config in *'WASM_CC := '*) ;; *) lacking "clang for WebAssembly" "clang lld wasi-libc libclang-rt-${version:-14}-dev-wasm32" $needed ;; esac
    [ -z "$needed" ] || command -v node >/dev/null 2>&1 || lacking "node (package nodejs)" nodejs required
    ;;
esac

case " $FOR " in
*' lint '*)
    for tool in clang-format-14 shellcheck; do
        command -v $tool >/dev/null 2>&1 || lacking "$tool (package $tool)" $tool required
    done
    ;;
esac

# ---- CUDA, where there is a toolkit. The GPU itself is never asked: it may be another machine's. ------

cat >"$work/probe.cu" <<'CODE'
#include <cublas_v2.h>
__global__ void probe(int *x) { *x = 1; }
int main(void) { probe<<<1, 1>>>(nullptr); return cublasSgemm == nullptr; }
CODE

# One machine code per generation (it runs on the later members too), and PTX of the newest for GPUs to
# come. Those that this nvcc does not know are left out, if nobody asked for them: "8.0", "80", "sm_80" and, with commas, lists.
gencode_flags() {
    known=$("$nvcc" --list-gpu-code 2>/dev/null | sed -n 's/^sm_//p')
    last=
    for arch in $(printf '%s\n' "${ARCH:-75 80 90 100 120}" | sed 's/sm_//g; s/compute_//g; s/\.//g; s/[,;]/ /g'); do
        if ! printf '%s\n' "$known" | grep -qxF "$arch"; then
            [ "$ARCH" ] || continue
            refuse "ARCH is '$ARCH', and nvcc lists no GPU architecture $arch" \
                "it lists $(echo $known); if other software has set ARCH: make ARCH="
        fi
        printf ' -gencode arch=compute_%s,code=sm_%s' "$arch" "$arch"
        last=$arch
    done
    [ -z "$last" ] || printf ' -gencode arch=compute_%s,code=compute_%s' "$last" "$last"
}

if [ "$mode" != config ]; then
    : # nothing to install for CUDA: it is optional
elif [ "$CUDA" = 0 ]; then
    found "nvcc: left out (CUDA=0)"
elif [ -z "$nvcc" ]; then
    report="$report#! ✗ nvcc: no CUDA toolkit (optional; without it devices are CPU workers)
"
else
    gencode=$(gencode_flags) || exit
    first=$(printf '%s' "$gencode" | cut -d ' ' -f 2-3) # all of them would take long; those asked for are tried
    [ -n "$ARCH" ] && first=$gencode
    if "$nvcc" -c $first -o "$work/probe.o" "$work/probe.cu" >"$work/log" 2>&1; then
        # Where the toolkit's libraries are: cuBLAS is loaded from there when a GPU is used.
        libraries=$("$nvcc" --dryrun "$work/probe.cu" 2>&1 | sed -n 's/^#\$ LIBRARIES=//p' | tr -d '"')
        set_variable NVCC "$nvcc"
        set_variable NVCC_VERSION "$("$nvcc" --version | tail -n 1)"
        set_variable GENCODE "$gencode"
        for directory in $libraries; do
            case $directory in
            *stubs | *stubs/) ;;
            -L*) config="${config}CUDA_RPATH += -Wl,-rpath,${directory#-L}
" ;;
            esac
        done
        found "nvcc: $("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/CUDA \1/p'), code for$(printf '%s' "$gencode" | sed 's/ -gencode arch=compute_[0-9a-z]*,code=/ /g')"
    else
        report="$report#! ✗ nvcc: found, but it does not compile: $(words_of "$work/log")
"
    fi
fi

if [ "$mode" = --required ]; then
    printf '%s\n' $missing
elif [ "$mode" != config ]; then
    printf '%s\n' $packages
else
    set_variable MISSING "$missing"
    set_variable LACKING "$packages"
    printf '%s%s' "$config" "$report"
fi
