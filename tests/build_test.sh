#!/bin/sh
# build_test.sh BUILD: the Makefile, the set-up script and the shape of the repository. Prints TAP. Builds in
# a copy of the tree, which starts from the objects in BUILD if it can; never calls the real apt-get.
set -u
build=$(cd "${1:?usage: build_test.sh BUILD}" && pwd) || exit 1
root=$(cd "$(dirname "$0")/.." && pwd) || exit 1

# What a make that runs the tests says to its children would change ours.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES SANITIZE V CUDA ARCH WERROR CFLAGS CC GNUMAKEFLAGS MAKE_TERMOUT MAKE_TERMERR
LC_ALL=C
export LC_ALL

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
out=$work/stdout err=$work/stderr problems=$work/problems
. "$(dirname "$0")/tap.sh"
show() { sed 's/^/#     /; 15q' "$1" >>"$problems"; }
expect_empty() { # WHAT FILE
    [ -s "$2" ] || return
    complain "expected nothing ($1), came:"
    show "$2"
}
expect_status() {
    [ "$status" -eq "$1" ] && return
    complain "expected status $1, came $status:"
    show "$out"
    show "$err"
}
expect_line() { # FILE REGEX
    grep -q -e "$2" "$1" && return
    complain "expected in $(basename "$1") a line with '$2', came:"
    show "$1"
}
expect_no_line() {
    grep -e "$2" "$1" >"$work/lines" || return
    complain "expected in $(basename "$1") no line with '$2', came:"
    show "$work/lines"
}

# ---- the repository --------------------------------------------------------------------------------------

# What belongs to it: what git has or would take, or everything but build/.
cd "$root" || exit 1
git ls-files --cached --others --exclude-standard >"$work/tracked" 2>/dev/null && [ -s "$work/tracked" ] ||
    find . -type f ! -path './build/*' ! -path './.git/*' | sed 's,^\./,,' >"$work/tracked"

cut -d / -f 1 "$work/tracked" | sort -u | grep -v '^\.' >"$work/top"
printf '%s\n' LICENSE Makefile README.md chapters common kernels plots tests >"$work/expected"
diff "$work/expected" "$work/top" >"$work/difference" || {
    complain "expected at the top level, beside dotfiles, just $(tr '\n' ' ' <"$work/expected"); < missing, > too many:"
    show "$work/difference"
}
verdict "the top level"

# The brackets keep these lines from finding themselves.
tr '\n' '\0' <"$work/tracked" | xargs -0 grep -InE '/hom[e]/|/roo[t]/|/User[s]/|/wor[k]/(main|shared)|/tm[p]/[a-z]' >"$work/found" 2>/dev/null
expect_empty "paths of somebody's machine" "$work/found"
verdict "no path of somebody's machine in the sources"

tr '\n' '\0' <"$work/tracked" | xargs -0 grep -InE -e '-ffast[-]math|-Ofas[t]|-funsafe[-]math|use_fast[_]math' >"$work/found" 2>/dev/null
expect_empty "flags that give up exact arithmetic" "$work/found"
verdict "no fast-math"

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
expect_refusal() { # REGEX: status 1, the last two lines are error and hint
    expect_status 1
    tail -n 2 "$err" >"$work/last"
    sed -n 1p "$work/last" | grep -q "^setup: error: .*$1" || { complain "expected 'setup: error: .. $1', came:"; show "$err"; }
    sed -n 2p "$work/last" | grep -q '^hint: .' || { complain "expected 'hint: ..', came:"; show "$err"; }
}

setup
expect_refusal 'gcc.*libjansson-dev.*zlib1g-dev'
[ "$(wc -l <"$err")" -eq 2 ] || complain "expected two lines, came $(wc -l <"$err")"
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
    rm -f "$work/called" "$work/update-fails" "$work/plan-fails" "$work/install-fails"
    echo 'Reading package lists...' >"$work/update"
    printf 'Inst gcc (4:12.2.0-3 Debian:12)\nInst libc6-dev (2.36 Debian:12)\nConf gcc (4:12.2.0-3 Debian:12)\n' >"$work/plan"
    printf "%s\n" "Need to get 61.0 MB of archives." "After this operation, 1,202 MB of additional disk space will be used." \
        "'http://server/gcc_1%2b2.deb' gcc_1+2.deb 60000000 SHA256:1" "'http://server/libc6-dev.deb' libc6-dev.deb 1000000 " >"$work/uris"
    echo 'Reading package lists...' >"$work/install"
}
fake id 'echo 1000'
fake_apt
setup
expect_refusal 'sudo.*gcc'
expect_line "$err" '^hint: as root: apt-get update && apt-get install .*gcc'
[ -e "$work/called" ] && complain "expected no call of apt-get"
verdict "setup without root and sudo says what root has to do"

fake sudo 'echo sudo >>"$(dirname "$0")/../called"; exec "$@"'
setup
expect_refusal 'still not usable.*gcc'
expect_line "$work/called" '^sudo'
expect_line "$work/called" 'apt-get .*update'
expect_line "$work/called" 'apt-get .*install .*-y .*gcc'
expect_line "$out" '^setup: missing: .*gcc'
expect_line "$out" "apt's lists"
expect_line "$out" '^setup: downloading 61 MB, then installing 2 packages (1,202 MB on the disk): about 2 minutes with'
verdict "setup uses sudo, says what it does, and looks whether what it installed is usable"

setup
named=$(sed -n 's/^setup: missing: //p' "$out")
[ "$(printf '%s\n' $named | sort | uniq -d | wc -l)" -eq 0 ] || complain "expected no name twice, came $named"
for compiler in gcc-11 clang clang-16 tcc; do
    setup "$compiler"
    case $compiler in
    clang) expect_line "$out" '^setup: missing: clang .*libomp-dev' ;;
    clang-16) expect_line "$out" '^setup: missing: clang-16 .*libomp-16-dev' ;;
    *) expect_line "$out" "^setup: missing: .*$compiler " && expect_no_line "$out" 'libomp' ;;
    esac
done
verdict "setup installs the compiler that CC names, and its OpenMP"

fake id 'echo 0'
fake_apt
fake apt-get "$(sed -n '2,$p' "$tools/apt-get" | sed 's,cat "$answers/install",sh "$answers/progress",')"
cat >"$work/progress" <<'CODE'
printf 'Reading package lists...\n'
for percent in 0 8.5 12.2 45.1 100; do echo "dlstatus:1:$percent:Retrieving file 1 of 2" >&3; done
printf 'Fetched 61 MB\n'
for percent in 0 9 37.5 92.3; do echo "pmstatus:gcc:$percent:Installing gcc" >&3; done
CODE
fake date 'now=$(cat "$0.now" 2>/dev/null || echo 1000); echo $((now + 6)) >"$0.now"; echo $now'
setup
expect_line "$out" '^setup:   12% downloaded$'
expect_line "$out" '^setup: unpacking and installing 2 packages$'
expect_line "$out" '^setup:   37% installed$'
expect_no_line "$out" 'status:'
verdict "setup says how far it is"
rm "$tools/date" && ln -s "$(command -v date)" "$tools/date"

# What apt says, and what is to be done then. A row: when, what apt says, what the hint has to say.
fake sleep 'echo "$*" >>"$(dirname "$0")/../slept"'
while IFS='|' read -r when says wanted; do
    fake_apt
    echo "$says" >>"$work/$when"
    touch "$work/$when-fails"
    setup
    expect_refusal 'could not install.*gcc'
    expect_line "$err" "$wanted"
    expect_line "$err" "$says"
done <<'ROWS'
install|E: Failed to fetch http://server/gcc.deb  Could not resolve 'server'|^hint: is there a network
install|E: Failed to fetch http://server/gcc.deb  404  Not Found|^hint: .* apt-get update
install|E: You don't have enough free space in /var/cache/apt/archives/.|^hint: the disk is full.*1,202 MB
install|dpkg: error: cannot copy extracted data: No space left on device|^hint: the disk is full
install|E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem.|^hint: .* dpkg --configure -a
install|E: Something new|^hint: above is what apt-get said
plan|E: Unable to locate package dataset-fashion-mnist|^hint: .*universe
plan|E: Package 'gcc-11' has no installation candidate|^hint: .*CC=gcc
plan|E: Unable to correct problems, you have held broken packages.|^hint: .*-f install
ROWS
verdict "setup tells what kept apt from installing"

# An update that fails matters only if something cannot be installed afterwards, and then it is the reason.
fake_apt
echo "E: The repository 'http://server/old Release' does not have a Release file." >>"$work/update"
touch "$work/update-fails"
setup
expect_refusal 'still not usable.*gcc'
echo 'E: Unable to locate package gcc' >>"$work/plan"
touch "$work/plan-fails"
setup
expect_refusal 'could not install.*gcc'
expect_line "$err" '^hint: .*sources.list'
echo "W: Failed to fetch http://server/InRelease  Temporary failure resolving 'server'" >"$work/update"
rm "$work/update-fails"
setup
expect_line "$err" '^hint: is there a network'
echo "E: Release file for http://server/InRelease is not valid yet (invalid for another 3h)." >"$work/update"
setup
expect_line "$err" '^hint: .*clock'
verdict "setup finds the reason in a failed update"

fake_apt
rm -f "$work/slept"
echo 'E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 77 (unattended-upgr)' >>"$work/install"
touch "$work/install-fails"
setup
expect_refusal 'could not install.*gcc'
expect_line "$err" '^hint: another apt'
[ "$(grep -c waiting "$out")" -eq 1 ] || complain "expected one line that says it waits, came $(grep -c waiting "$out")"
expect_line "$out" 'waiting for another apt.*held by process 77 (unattended-upgr)'
fake sleep "echo 'Reading package lists...' >$work/install; rm -f $work/install-fails"
setup
expect_refusal 'still not usable'
expect_line "$out" 'waiting for another apt'
verdict "setup waits for another apt to end, but not for ever"

fake_apt
printf 'Remv libomp-14-dev [1:14]\n' >>"$work/plan"
setup
expect_line "$out" 'removes libomp-14-dev'
expect_line "$work/called" 'apt-get .*Status-Fd.* install'
rm "$work/called"
printf 'Remv desktop [1:14]\n' >>"$work/plan"
setup
expect_refusal 'would remove: libomp-14-dev desktop'
expect_no_line "$work/called" 'apt-get .*Status-Fd.* install'
verdict "setup removes nothing but another version of clang's OpenMP"

fake id 'echo 1000'
fake_apt
fake sudo 'echo "lena is not in the sudoers file." >&2; exit 1'
setup
expect_refusal 'sudo.*gcc'
expect_line "$err" 'not in the sudoers file'
expect_line "$err" '^hint: ask whoever.*apt-get install .*gcc'
[ -e "$work/called" ] && complain "expected no call of apt-get"
fake sudo 'echo "sudo: a terminal is required to read the password" >&2; echo "sudo: a password is required" >&2; exit 1'
setup
expect_refusal 'sudo.*gcc'
expect_line "$err" '^hint: in a terminal.*apt-get install .*gcc'
verdict "setup says when sudo refuses"

if [ -n "$(cd "$root" && sh .make/probe.sh --packages 2>/dev/null)" ]; then
    skip "setup does nothing when nothing is missing" "something is missing here"
else
    mkdir "$work/traps" # found before the real ones
    for tool in apt-get sudo; do
        printf '#!/bin/sh\ntouch "%s/trapped"\nexit 1\n' "$work" >"$work/traps/$tool"
        chmod +x "$work/traps/$tool"
    done
    (cd "$root" && PATH=$work/traps:$PATH sh .make/setup.sh) >"$out" 2>"$err" </dev/null
    status=$?
    expect_status 0
    [ -e "$work/trapped" ] && complain "expected no call of apt-get or sudo"
    [ "$(cat "$out" "$err" | wc -l)" -le 1 ] || { complain "expected one line at most"; show "$out"; }
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
expect_status 0
printf '%s\n' '  2 skipped: no GPU' '  1 skipped: no MPI' '2 passed, 0 failed, 3 skipped' >"$work/expected"
tail -n 3 "$out" | cmp -s - "$work/expected" || { complain "expected the reasons to skip, came:"; show "$out"; }
verdict "tests that are skipped are counted by reason"

# ---- make ------------------------------------------------------------------------------------------------

copy=$work/copy
mkdir "$copy"
(cd "$root" && tr '\n' '\0' <"$work/tracked" | xargs -0 tar -cf - 2>/dev/null) | (cd "$copy" && tar -xf -)
# The settings that BUILD was made with; with other ones all would be compiled again.
setting() { sed -n "s/^CONFIG_SETTINGS := .*$1=\(.*\) $2=.*/\1/p" "$build/config.mk"; }
settings='CUDA=0' cc=cc arch=
if [ -f "$build/config.mk" ] && [ -d "$build/obj" ] && ! grep -q 'CFLAGS=.' "$build/config.mk"; then
    cc=$(setting CC CUDA) arch=$(setting ARCH WERROR)
    settings="CUDA=$(setting CUDA ARCH) WERROR=$(setting WERROR CFLAGS)"
    mkdir "$copy/build"
    cp -Rp "$build/config.mk" "$build/obj" "$copy/build/"
fi
build_copy() { # WORDS..: make in the copy
    (cd "$copy" && make CC="$cc" ARCH="$arch" $settings "$@") >"$out" 2>"$err" </dev/null
    status=$?
}

build_copy help
expect_status 0
for target in 'setup' 'run-NN' 'exercise-NN-N' 'grade' 'hand-in' 'book' 'test' 'help-all'; do
    expect_line "$out" "^make $target  *[a-z]"
done
[ "$(grep -c '^make ' "$out")" -eq 8 ] || complain "expected 8 goals, came $(grep -c '^make ' "$out")"
expect_line "$out" '^04  Multiple GPUs: training LeNet'
build_copy help-all
for target in 'lenet' 'test-all' 'sanitize' 'bench' 'truth' 'plots' 'clean'; do expect_line "$out" "^make $target  *[a-z]"; done
verdict "make help has the goals that a reader needs, and the chapters; make help-all has the others"

build_copy
expect_status 0
expect_empty stderr "$err"
expect_line "$out" '✓ compiler'
expect_line "$out" ' nvcc:'
expect_line "$out" ' OpenMP'
expect_line "$out" ' gnuplot'
expect_line "$out" ' data'
expect_no_line "$out" '-O3'
[ "$(grep -c '✓ compiler' "$out")" -eq 1 ] || complain "expected what was found once, came $(grep -c '✓ compiler' "$out") times"
verdict "make builds, quietly, and says what it found"

build_copy grade 'SUBMISSION=not here'
[ $status -ne 0 ] || complain "expected an error"
expect_line "$err" '^grade: error: not here: there is no such file'
expect_line "$err" '^hint: '
build_copy grade CLASS=
[ $status -ne 0 ] || complain "expected an error"
expect_line "$err" '^make: error: CLASS is empty'
[ ! -e "$copy/build/lab" ] || complain "expected nothing built before that"
verdict "make grade: what is not there is said at once"

find "$copy/build" -type f -exec ls -l --time-style=+%s.%N {} + 2>/dev/null | sort >"$work/before"
build_copy
find "$copy/build" -type f -exec ls -l --time-style=+%s.%N {} + 2>/dev/null | sort >"$work/after"
expect_status 0
expect_no_line "$out" '^\['
cmp -s "$work/before" "$work/after" || complain "expected no file in build/ to change"
verdict "a second make compiles nothing"

mkdir -p "$copy/chapters/99_hello/behind"
cat >"$copy/chapters/99_hello/main.c" <<'CODE'
#include "common/program/flags.h"
#include "chapters/03_split_batch/split_batch.h"
#include "behind/greeting.h"
#include <stdio.h>
int main(int argc, char *argv[]) {
    parse_flags(argc, argv, "Says hello.", "", default_flags);
    printf("%s from shard %ld\n", greeting(), equal_range(7, 2, 1).first);
    return 0;
}
CODE
printf 'const char *greeting(void);\n' >"$copy/chapters/99_hello/behind/greeting.h"
printf '#include "greeting.h"\nconst char *greeting(void) { return "hello"; }\n' >"$copy/chapters/99_hello/behind/greeting.c"
build_copy V=1
expect_status 0
expect_line "$out" '-O3 .*chapters/99_hello/main.c'
expect_no_line "$out" ' -c common/'
[ "$("$copy/build/99_hello" --backend cpu 2>&1)" = "hello from shard 4" ] || complain "expected build/99_hello to say hello"
verdict "a new chapter is a new folder; V=1 shows the commands"

build_copy run-99 'ARGS=--backend cpu'
expect_status 0
expect_line "$out" '^hello from shard 4$'
verdict "make run-NN runs a chapter"

build_copy run-77
[ "$status" -ne 0 ] || complain "expected a failure"
expect_line "$err" '^make: error: .*77'
expect_line "$err" '^hint: '
verdict "make run-NN without that chapter says so"

# One exercise that does not compile, and one that is a starter, with a solution; it has what the chapter's exercises share.
exercises=$copy/chapters/99_hello/exercises
mkdir -p "$exercises/1_broken" "$exercises/2_fine"
printf 'int main(void) { return 0 }\n' >"$exercises/1_broken/your_part.c"
printf '%s\n' 'int answer(void);' 'static int unused(int n) { return 1; }' 'int answer(void) {' '    // YOUR CODE HERE' \
    '    return 0;' '}' >"$exercises/2_fine/your_part.c"
printf 'int answer(void);\nint answer(void) {\n    return 42;\n}\n' >"$exercises/2_fine/solution.c"
printf '%s\n' '#include "../shared.h"' '#include "common/program/exercise.h"' 'int answer(void);' \
    'static void experiment(const Flags *flags, FILE *csv) { fprintf(csv, "%d\n", flags->seed < 1); printf("fine %d\n", answer()); }' \
    'int main(int argc, char *argv[]) {' \
    '    return shared() + exercise_main(argc, argv, &(Exercise){.flags = "", .defaults = default_flags, .experiment = experiment, .plot = "x.gp"});' \
    '}' >"$exercises/2_fine/experiment.c"
printf '%s\n' '#include "common/program/facts.h"' 'int answer(void);' 'const Part parts[] = {{"the answer", 10}, {0}};' \
    'static void cases(void) { begin_case("answer()"); record_int(1, answer(), "it"); }' \
    'const Group groups[] = {{"all", cases, 0}, {0}};' >"$exercises/2_fine/cases.c"
printf 'starter [1]: nothing is written yet\n    body answer\n    | return 0;\n' >"$exercises/2_fine/rivals"
echo 'defines answer' >"$exercises/2_fine/may_call"
printf 'int shared(void);\n' >"$exercises/shared.h"
printf '#include "shared.h"\nint shared(void) { return 0; }\n' >"$exercises/shared.c"
build_copy exercise-99-2
[ "$status" -ne 0 ] || complain "expected a failure"
expect_line "$out" '^      it: 0, expected 42$'
expect_line "$out" '^    hint: nothing is written yet$'
expect_no_line "$out" '^fine'
verdict "a starter has no points, and the hint of a rival; its experiment is not run"
build_copy exercise-99-2 SOLVED=1 ARGS=--check
expect_status 0
expect_empty stderr "$err"
expect_line "$out" '^10 of 10 points$'
expect_no_line "$out" '^fine'
verdict "SOLVED=1 takes the solution, and --check stops before the experiment"
build_copy exercise-99-2 SOLVED=1
expect_line "$out" '^fine 42$'
verdict "the experiment comes after that, whether or not another exercise compiles"
sed -i 's/^starter \[1\]/starter [2]/' "$exercises/2_fine/rivals"
build_copy exercise-99-2
expect_line "$err" 'rivals: error: starter \[2\] loses part 1'
verdict "a rival that loses other parts than it declares is an error"
build_copy run-99 'ARGS=--backend cpu'
expect_status 0
expect_line "$out" '^hello from shard 4$'
expect_no_line "$out" 'up to date'
verdict "make run-NN builds no exercises"
build_copy exercise-99-1
[ "$status" -ne 0 ] || complain "expected a failure"
expect_line "$err" '1_broken/your_part.c:1'
verdict "an exercise that does not compile says where"
rm -r "$exercises"

printf 'const char *greeting(void); // changed\n' >"$copy/chapters/99_hello/behind/greeting.h"
build_copy
expect_status 0
expect_line "$out" '^\[ *[0-9]*/[0-9]*\] chapters/99_hello/main.c$'
expect_line "$out" '^\[ *[0-9]*/[0-9]*\] chapters/99_hello/behind/greeting.c$'
expect_line "$out" '^\[ *\([0-9]*\)/\1\] build/' # the last step is the one that the total says
expect_line "$out" '\] build/99_hello$'
expect_no_line "$out" '\] common/'
verdict "a changed header compiles again what includes it, and no more"

# A program of many processes, where MPI is and where it is not: a folder of tools without mpirun and mpicc.
mkdir -p "$work/no_mpi"
printf '4\n' >"$copy/chapters/99_hello/ranks"
for tool in $(printf '%s:' "$PATH" | tr ':' '\n' | while read -r folder; do ls "$folder" 2>/dev/null; done | sort -u); do
    case $tool in mpi* | orte* | prte*) continue ;; esac
    path=$(command -v "$tool") && case $path in /*) ln -s "$path" "$work/no_mpi/$tool" ;; esac
done
without_mpi() { # WORDS..
    (cd "$copy" && PATH=$work/no_mpi make -o build/config.mk CC="$cc" ARCH="$arch" $settings MPI= "$@") >"$out" 2>"$err" </dev/null
    status=$?
}
without_mpi run-99 'ARGS=--backend cpu'
expect_status 0
expect_line "$out" '^hello from shard 4$'
expect_line "$err" '^make: no MPI, so this is one rank; make setup installs MPI$'
verdict "a chapter of many ranks is one rank without MPI, and says so"
without_mpi run-99 RANKS=3 'ARGS=--backend cpu'
[ "$status" -ne 0 ] || complain "expected a failure"
expect_line "$err" 'error: there is no mpirun to start 3 ranks'
expect_line "$err" '^hint: make setup installs MPI'
verdict "and more ranks are refused there"
rm "$copy/chapters/99_hello/ranks"

build_copy clean
expect_status 0
[ -z "$(find "$copy/build" -type f 2>/dev/null)" ] || complain "expected an empty build/"
settings="CUDA=0" cc=/nonexistent/cc
build_copy
[ "$status" -ne 0 ] || complain "expected a failure"
expect_line "$out" '✗ compiler'
[ "$(grep -c '✗ compiler' "$out")" -eq 1 ] || complain "expected it once, came $(grep -c '✗ compiler' "$out") times"
expect_line "$err" '^make: error: missing: .*gcc'
expect_line "$err" '^hint: make CC=/nonexistent/cc setup'
verdict "make without a compiler says what is missing"

echo "1..$tests"
