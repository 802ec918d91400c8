#!/bin/sh
# build_test.sh BUILD: the Makefile, the set-up script and the shape of the repository. Prints TAP. Builds in
# a copy of the tree, which starts from the objects in BUILD if it can; never calls the real apt-get.
set -u
. "$(dirname "$0")/tap.sh"
. "$(dirname "$0")/copy.sh"

# ---- the repository --------------------------------------------------------------------------------------

cd "$root" || exit 1
top=$(cut -d / -f 1 "$work/tracked" | sort -u | grep -v '^\.' | tr '\n' ' ')
[ "$top" = 'LICENSE Makefile README.md chapters common kernels plots tests ' ] || complain "beside dotfiles: $top"
verdict "the top level"

# The brackets keep these lines from finding themselves.
tr '\n' '\0' <"$work/tracked" | xargs -0 grep -InE -e '/hom[e]/|/roo[t]/|/User[s]/|/wor[k]/(main|shared)|/tm[p]/[a-z]' \
    -e '-ffast[-]math|-Ofas[t]|-funsafe[-]math|use_fast[_]math' >>"$problems" 2>/dev/null
verdict "no path of somebody's machine in the sources, and no flag that gives up exact arithmetic"

if git rev-parse >/dev/null 2>&1; then
    for set in true false; do git -c core.autocrlf=$set -c core.eol=crlf checkout-index --all --prefix="$work/crlf-$set/"; done 2>>"$problems"
    diff -r "$work/crlf-true" "$work/crlf-false" >>"$problems" 2>&1
    verdict "line ends are the same in a clone on Windows"
    sed -i 's/$/\r/' "$work/crlf-true/Makefile" "$work/crlf-true"/.make/*
    make -C "$work/crlf-true" help >"$out" 2>"$err"
    status=$?
    expect error 'err:^make: error: .*line ends of Windows' 'err:^hint: .*\\r\$'
    verdict "a zip with others says so"
fi

# ---- set-up ----------------------------------------------------------------------------------------------

# A PATH of our own with what the scripts call, but without apt-get, sudo and a compiler.
tools=$work/tools
mkdir "$tools"
for tool in sh dirname basename mktemp rm mkdir sort tr cut sed grep ls cat head tail env id uname fc-match \
    pkg-config cmp cp printf echo test true false awk nproc date touch; do
    path=$(command -v $tool) && case $path in /*) ln -s "$path" "$tools/$tool" ;; esac
done
fake() { # NAME SCRIPT: a tool that does this
    rm -f "$tools/$1"
    printf '#!/bin/sh\n%s\n' "$2" >"$tools/$1"
    chmod +x "$tools/$1"
}
setup() { # [CC]
    (cd "$root" && PATH=$tools CC=${1:-/nonexistent/cc} "$tools/sh" .make/setup.sh) >"$out" 2>"$err" </dev/null
    status=$?
}
refused() { # ERROR HINT [[!]FILE:REGEX..]: these are the last two lines
    tail -n 2 "$err" | paste -sd ' ' >"$work/last"
    error=$1 hint=$2
    shift 2
    expect error "last:^setup: error: .*$error.* hint: .*$hint" "$@"
    [ $status -eq 1 ] || complain "status $status"
}

setup
refused 'gcc.*libjansson-dev.*zlib1g-dev' .
[ "$(times_in err '')" -eq 2 ] || complain "$(times_in err '') lines"
verdict "setup without apt-get names the packages"

# An apt-get that writes down how it is called and installs nothing. What it says when it is asked to update
# and to install, and what ends it with an error, the tests put into files.
fake_apt() {
    fake apt-get "answers=$work"'
echo "$0 $*" >>"$answers/called"
case " $* " in
*" update "*) cat "$answers/update"; [ ! -e "$answers/update-fails" ] || exit 100 ;;
*" -s "*) cat "$answers/plan"; [ ! -e "$answers/plan-fails" ] || exit 100 ;;
*" --print-uris "*) cat "$answers/uris" ;;
*) cat "$answers/install"; [ ! -e "$answers/install-fails" ] || exit 100 ;;
esac'
    rm -f "$work/update-fails" "$work/plan-fails" "$work/install-fails"
    for file in called slept; do : >"$work/$file"; done
    echo 'Reading package lists...' | tee "$work/update" >"$work/install"
    printf '%s\n' 'Inst gcc (4:12.2.0-3 Debian:12)' 'Inst libc6-dev (2.36 Debian:12)' 'Conf gcc (4:12.2.0-3 Debian:12)' >"$work/plan"
    printf "%s\n" "Need to get 61.0 MB of archives." "After this operation, 1,202 MB of additional disk space will be used." \
        "'http://server/gcc_1%2b2.deb' gcc_1+2.deb 60000000 SHA256:1" "'http://server/libc6-dev.deb' libc6-dev.deb 1000000 " >"$work/uris"
}
fails() { # update|plan|install WHAT_IT_SAYS
    echo "$2" >>"$work/$1"
    touch "$work/$1-fails"
}
fake id 'echo 1000'
fake_apt
setup
refused 'sudo.*gcc' 'as root: apt-get update && apt-get install .*gcc' called:
verdict "setup without root and sudo says what root has to do"

fake sudo 'echo sudo >>"$(dirname "$0")/../called"; exec "$@"'
setup
refused 'still not usable.*gcc' . called:^sudo 'called:apt-get .*update' 'called:apt-get .*install .*-y .*gcc' \
    'out:^setup: missing: .*gcc' \
    'out:^setup: downloading 61 MB, then installing 2 packages (1,202 MB on the disk): about 2 minutes with'
verdict "setup uses sudo, says what it does, and looks whether what it installed is usable"

[ -z "$(sed -n 's/^setup: missing: //p' "$out" | tr ' ' '\n' | sort | uniq -d)" ] || complain "a name twice"
while read -r compiler wanted; do
    setup "$compiler"
    expect error "$wanted"
done <<'ROWS'
gcc-11 out:^setup: missing: .*gcc-11
tcc !out:libomp
clang out:^setup: missing: clang .*libomp-dev
clang-16 out:^setup: missing: clang-16 .*libomp-16-dev
ROWS
verdict "setup installs the compiler that CC names, and its OpenMP"

fake id 'echo 0'
# What apt says, and what is to be done then. An update that fails matters only if something cannot be installed
# afterwards, and then it is the reason.
fake sleep 'echo "$*" >>"$(dirname "$0")/../slept"'
while IFS='|' read -r when says wanted; do
    fake_apt
    case $when in
    update) fails plan 'E: Unable to locate package gcc' && echo "$says" >>"$work/update" ;;
    esac
    [ "$when" = update ] || fails "$when" "$says"
    setup
    refused 'could not install.*gcc' "$wanted" "err:$says"
done <<'ROWS'
install|E: Failed to fetch http://server/gcc.deb  Could not resolve 'server'|is there a network
install|dpkg: error: cannot copy extracted data: No space left on device|the disk is full
install|E: Something new|above is what apt-get said
plan|E: Unable to locate package dataset-fashion-mnist|universe
update|E: The repository 'http://server/old Release' does not have a Release file.|sources.list
ROWS
fake_apt
fails update "E: The repository 'http://server/old Release' does not have a Release file."
setup
refused 'still not usable.*gcc' .
verdict "setup tells what kept apt from installing, or from its lists"

fake_apt
fails install 'E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 77 (unattended-upgr)'
fake sleep "rm -f $work/install-fails"
setup
refused 'still not usable' . 'out:waiting for another apt'
verdict "setup waits for another apt to end"

fake_apt
echo 'Remv libomp-14-dev [1:14]' >>"$work/plan"
setup
refused . . 'out:removes libomp-14-dev' 'called:apt-get .*Status-Fd.* install'
: >"$work/called"
echo 'Remv desktop [1:14]' >>"$work/plan"
setup
refused 'would remove: libomp-14-dev desktop' . '!called:apt-get .*Status-Fd.* install'
verdict "setup removes nothing but another version of clang's OpenMP"

# What the book can do without is no obstacle: not in the list of packages, broken, in the way of something.
fake_apt
fake apt-get "answers=$work"'
echo "$*" >>"$answers/called"
case " $* " in *" -s "*" wasi-libc "*) echo "E: Unable to locate package wasi-libc"; exit 100 ;; esac'
export FOR=book
setup
refused 'still not usable: .*gcc' . 'out:setup: missing: .*wasi-libc' 'out:going on without WebAssembly' 'called:Status-Fd=3 install .*gcc'
export FOR=wasm
fake_apt
fails plan 'E: Unable to locate package wasi-libc'
setup
unset FOR
refused 'could not install: .*wasi-libc' universe '!out:going on'
verdict "setup book goes on without WebAssembly where it cannot be had; setup wasm insists"

fake id 'echo 1000'
fake_apt
while IFS='|' read -r says wanted; do
    fake sudo "echo '$says' >&2; exit 1"
    setup
    refused 'sudo.*gcc' "$wanted.*apt-get install .*gcc" called: "err:$says"
done <<'ROWS'
lena is not in the sudoers file.|ask whoever
sudo: a password is required|in a terminal
ROWS
verdict "setup says when sudo refuses"

if [ -n "$(cd "$root" && sh .make/probe.sh --packages 2>/dev/null)" ]; then
    skip "setup does nothing when nothing is missing" "something is missing here"
else
    mkdir "$work/traps" # found before the real ones
    cp "$tools/apt-get" "$tools/sudo" "$work/traps"
    (cd "$root" && PATH=$work/traps:$PATH sh .make/setup.sh) >"$out" 2>"$err" </dev/null
    status=$?
    expect 0 err: called:
    [ "$(times_in out '')" -le 1 ] || complain "expected one line at most"
    verdict "setup does nothing when nothing is missing"
fi

# ---- what is said of tests -------------------------------------------------------------------------------

mkdir "$work/tests"
cat >"$work/tests/some_test.sh" <<'TAP'
printf '%s\n' 1..5 'ok 1 - a' 'ok 2 - b # SKIP no MPI' '# SKIP no GPU' 'not ok 3 # SKIP cuda: c' 'ok 4 - d'
printf '%s\n' '# SKIP no GPU' 'not ok 5 # SKIP cuda: e'
TAP
sh "$root/tests/run.sh" "$work/tests" "$work/tests/some_test.sh" >"$out" 2>"$err"
status=$?
tail -n 3 "$out" | paste -sd ' ' >"$work/last"
expect 0 'last:^  2 skipped: no GPU   1 skipped: no MPI 2 passed, 0 failed, 3 skipped$'
verdict "tests that are skipped are counted by reason"

# ---- make ------------------------------------------------------------------------------------------------

# A new chapter is a new folder. Of its exercises one will not compile, and one is a starter, with a solution; it has
# what the chapter's exercises share.
hello=$copy/chapters/99_hello exercises=$copy/chapters/99_hello/exercises
mkdir -p "$hello/behind" "$exercises/1_broken" "$exercises/2_fine"
rm -r "$copy"/chapters/0[5-8]*/exercises # 15 programs less to link
cat >"$hello/main.c" <<'CODE'
#include "common/program/flags.h"
#include "chapters/03_split_batch/split_batch.h"
#include "behind/greeting.h"
#include <stdio.h>
int main(int argc, char *argv[]) {
    parse_flags(argc, argv, "Says hello.", "", (Program){0});
    printf("%s from shard %ld\n", greeting(), equal_range(7, 2, 1).first);
    return 0;
}
CODE
echo 'const char *greeting(void);' >"$hello/behind/greeting.h"
printf '#include "greeting.h"\nconst char *greeting(void) { return "hello"; }\n' >"$hello/behind/greeting.c"
printf '%s\n' 'int answer(void);' 'static int unused(int n) { return 1; }' 'int answer(void) {' '    // YOUR CODE HERE' \
    '    return 0;' '}' >"$exercises/2_fine/your_part.c"
printf 'int answer(void);\nint answer(void) {\n    return 42;\n}\n' >"$exercises/2_fine/solution.c"
cat >"$exercises/2_fine/experiment.c" <<'CODE'
#include "../shared.h"
#include "common/program/exercise.h"
int answer(void);
static void experiment(const Flags *flags, FILE *csv) {
    fprintf(csv, "%d\n", flags->seed < 1);
    printf("fine %d\n", answer());
}
int main(int argc, char *argv[]) {
    const Exercise exercise = {.flags = "", .experiment = experiment, .plot = "x.gp"};
    return shared() + exercise_main(argc, argv, &exercise);
}
CODE
printf '%s\n' '#include "common/program/facts.h"' 'int answer(void);' 'const Part parts[] = {{"the answer", 10}, {0}};' \
    'static void cases(void) { begin_case("answer()"); record_int(1, answer(), "it"); }' \
    'const Group groups[] = {{"all", cases, 0}, {0}};' >"$exercises/2_fine/cases.c"
printf 'starter [1]: nothing is written yet\n    body answer\n    | return 0;\n' >"$exercises/2_fine/rivals"
echo 'defines answer' >"$exercises/2_fine/may_call"
echo 'int shared(void);' >"$exercises/shared.h"
printf '#include "shared.h"\nint shared(void) { return 0; }\n' >"$exercises/shared.c"

build_copy help
expect 0 'out:^04  Multiple GPUs: training LeNet'
said=$(sed -n 's/^make \([^ ]*\)  *[a-z].*/\1/p' "$out" | tr '\n' ' ')
[ "$said" = 'setup run-NN exercise-NN-N grade hand-in book test help-all ' ] || complain "goals: $said"
build_copy help-all
for goal in lenet test-all sanitize bench truth plots clean; do expect 0 "out:^make $goal  *[a-z]"; done
verdict "make help has the goals that a reader needs, and the chapters; make help-all has the others"

echo 'echo installing' >"$copy/.make/setup.sh"
while IFS='|' read -r goals wanted; do
    build_copy $goals
    expect error "err:^make: error: there is no goal or file '" "err:^hint: did you mean make $wanted? " '!out:installing'
done <<'ROWS'
run-4|run-04
setup boook|book
ROWS
build_copy setup
expect 0 out:installing
verdict "goals that there are not have the nearest one in the hint, before anything is installed"

build_copy grade CLASS=
expect error 'err:^make: error: CLASS is empty' 'err:^hint: '
build_copy grade 'SUBMISSION=not here'
expect error 'err:^grade: error: not here: there is no such file' 'err:^hint: '
[ ! -e "$copy/build/lab" ] || complain "expected nothing built before that"
verdict "make grade: what is not there is said at once"

build_copy
expect 0 err: 'out: nvcc:' 'out: OpenMP' 'out: gnuplot' 'out: data' '!out:-O3' \
    'out:^\[ *[0-9]*/[0-9]*\] chapters/99_hello/main.c$' 'out:^\[ *\([0-9]*\)/\1\] build/' # the last step is the one that the total says
[ "$(times_in out '✓ compiler')" -eq 1 ] || complain "expected what was found once"
files() { find "$copy/build" -type f -exec ls -l --time-style=+%s.%N {} + | sort; }
files >"$work/before"
build_copy
files | cmp -s "$work/before" - || complain "expected no file in build/ to change"
expect 0 '!out:^\['
verdict "make builds, quietly, and says what it found; a second one compiles nothing"

echo 'int main(void) { return 0 }' >"$exercises/1_broken/your_part.c"
build_copy run-99 'ARGS=--backend cpu'
expect 0 'out:^hello from shard 4$' '!out:up to date'
build_copy run-77
expect error 'err:^make: error: .*77' 'err:^hint: '
verdict "make run-NN runs a chapter, builds no exercises, and says where there is none"

build_copy exercise-99-2
expect error 'out:^      it: 0, expected 42$' '!out:^    hint: ' '!out:^fine'
build_copy exercise-99-2
expect error 'out:^    hint: nothing is written yet$' '!out:^fine'
verdict "a starter has no points, and, at the second check, the hint of a rival; its experiment is not run"
build_copy exercise-99-2 SOLVED=1 ARGS=--check
expect 0 err: 'out:^10 of 10 points$' '!out:^fine'
build_copy exercise-99-2 SOLVED=1
expect 0 'out:^fine 42$'
verdict "SOLVED=1 takes the solution; --check stops before the experiment, whether or not another exercise compiles"
mkdir "$exercises/3_asked" && echo '# Why?' >"$exercises/3_asked/question.md"
sed '/^int answer/d; s/answer()/7/' "$exercises/2_fine/experiment.c" >"$exercises/3_asked/experiment.c"
build_copy exercise-99-3 SOLVED=1
expect 0 'out:^# Why?$' 'out:^fine 7$' '!out:points'
verdict "a question with a command is shown, and its experiment is run; there is nothing to judge"
sed -i 's/^starter \[1\]/starter [2]/' "$exercises/2_fine/rivals"
build_copy exercise-99-2
expect error 'err:rivals: error: starter \[2\] loses part 1'
build_copy exercise-99-1
expect error 'err:1_broken/your_part.c:1'
verdict "a rival that loses other parts than it declares is an error; an exercise that does not compile says where"
rm -r "$exercises"

echo 'const char *greeting(void); // changed' >"$hello/behind/greeting.h"
build_copy run-99 V=1 'ARGS=--backend cpu'
expect 0 'out:-O3 .*chapters/99_hello/main.c' 'out:-O3 .*chapters/99_hello/behind/greeting.c' 'out:-o build/99_hello' '!out: -c common/'
verdict "a changed header compiles again what includes it, and no more; V=1 shows the commands"

# A program of many processes, where MPI is and where it is not: a folder of tools without mpirun and mpicc.
own_path "$work/no_mpi"
echo 4 >"$hello/ranks"
rm -f "$work/no_mpi"/mpi* "$work/no_mpi"/orte* "$work/no_mpi"/prte*
without_mpi() { # WORDS..
    PATH=$work/no_mpi build_copy "$@"
}
without_mpi run-99 'ARGS=--backend cpu'
expect 0 'out:^hello from shard 4$' 'err:^make: no MPI, so this is one rank; make setup installs MPI$'
without_mpi run-99 RANKS=3 'ARGS=--backend cpu'
expect error 'err:error: there is no mpirun to start 3 ranks' 'err:^hint: make setup installs MPI'
verdict "a chapter of many ranks is one rank without MPI, and says so; more are refused"

build_copy clean
expect 0
[ -z "$(find "$copy/build" -type f 2>/dev/null)" ] || complain "expected an empty build/"
settings="CUDA=0" cc=/nonexistent/cc
build_copy
expect error 'err:^make: error: missing: .*gcc' 'err:^hint: make CC=/nonexistent/cc setup'
[ "$(times_in out '✗ compiler')" -eq 1 ] || complain "expected it once"
verdict "make without a compiler says what is missing"

echo "1..$tests"
