#!/bin/sh
# grade_machine_test.sh BUILD: right hand-ins have all points whatever the modes of their files, and whatever the umask, the
# locale and the folders of the machine; where that cannot be, nobody has points, and it says why. Prints TAP. Needs
# bubblewrap, bsdtar and jq; as root it tries more.
set -u
if [ "$1" = --without-exec ]; then # FOLDER COMMAND..
    mount --bind "$2" "$2" && mount -o remount,bind,noexec "$2" && shift 2 && exec "$@"
fi
. "$(dirname "$0")/tap.sh"
cd "$root" || exit 1
out=$work/out errors=$work/errors
shown="$out $errors"
exercise=chapters/04_lenet_multi_gpu/exercises/3_efficient_allreduce
solution=$root/$exercise/solution.c
[ -f "$solution" ] || skip_all "grading on odd machines" "this is what students have"
for tool in bwrap bsdtar jq; do command -v $tool >/dev/null || skip_all "grading on odd machines" "no $tool (make setup grade)"; done
[ "$(id -u)" = 0 ] && root_grades=yes || root_grades=
new_build() { # FOLDER: for one grader, with all in it that is read
    mkdir -p "$1/lab/exercises" && cp "$build/libbook.a" "$1" && cp "$build/lab/judge" "$1/lab" && cp -r "$build/lab/exercises/04-3" "$1/lab/exercises"
    sed -i 's/ -O3 / -O0 /' "$1/lab/exercises/04-3/compile" # (sooner)
}
before=
grade() { # SETTING=VALUE..
    env BUILD="$work/build" LABS=04-3 LIMIT=60 JOBS=2 SEED=1 SUBMISSION= CLASS= JSON= CSV= GRADESCOPE= TRUSTED= STRICT= PART= \
        "$@" $before sh tests/grader/grade.sh >"$out" 2>"$errors" </dev/null
    status=$?
    return $status
}
right() { grade SUBMISSION="$work/04-3.c" "$@" && grep -q ' 10 of 10$' "$out"; }
refused() { # WORDS NAME: nobody has points
    [ $status -eq 1 ] && grep -q "error: .*$1" "$errors" && grep -q '^hint: ' "$errors" && ! grep -q ' of 10' "$out"
    verdict $? "$2"
}
new_build "$work/build"
cp "$solution" "$work/04-3.c"

# ---- modes -------------------------------------------------------------------------------------------

mkdir -p "$work/class" "$work/in/3_efficient_allreduce" && cp "$solution" "$work/in/3_efficient_allreduce/your_part.c"
put() { # NAME: what lies in $work/in is handed in as a folder, and by tar
    cp -a "$work/in" "$work/class/$1"
    tar -C "$work/in" -czf "$work/class/$1.tar.gz" 3_efficient_allreduce
}
if [ $root_grades ]; then
    for mode in 0000 0600; do chmod $mode "$work/in/3_efficient_allreduce/your_part.c" && put file_$mode; done
    chmod 644 "$work/in/3_efficient_allreduce/your_part.c"
    for mode in 0000 0555; do chmod $mode "$work/in/3_efficient_allreduce" && put folder_$mode; done
    chmod 000 "$work/in" && put all_0000
    chown -R 4711:4711 "$work/class/all_0000" "$work/class/file_0600" "$work/class/file_0600.tar.gz"
    chmod 000 "$work/class/all_0000.tar.gz"
fi
for mode in 0000 4711; do
    bsdtar --format zip -cf "$work/class/zip_$mode.zip" @- <<TREE
#mtree
04-3.c type=file mode=$mode contents=$work/04-3.c
TREE
done
all_right() { # TABLE
    [ "$(sed -n 's/^"[^"]*",10,10,10,""$/1/p' "$1" | wc -l)" = "$(find "$work/class" -mindepth 1 -maxdepth 1 | wc -l)" ]
}
grade CLASS="$work/class" CSV="$work/class.csv" && cp "$work/class.csv" "$out" && all_right "$work/class.csv"
verdict $? "whoever hands in what only its owner may read has all points"

if [ ! $root_grades ]; then
    for what in "an ordinary user" "another's files" "umasks" "TRUSTED=1"; do skip "$what" "only root can be somebody else"; done
else
    # An ordinary user, in a home of his own, with a blank.
    home="$work/her home" && user=60700 && chmod 711 "$work"
    mkdir "$home" && cp --parents -r common kernels chapters .make tests/grader Makefile "$home" && new_build "$home/build" && mv "$work/class" "$home"
    chown -R $user:$user "$home" && chmod -R go= "$home"
    as_her() { (umask 077 && cd "$home" && grade setpriv --reuid=$user --regid=$user --clear-groups env HOME="$home" BUILD=build "$@"); status=$?; }
    work_of_class=$work work=$home
    as_her CLASS="$home/class" CSV="$home/class.csv" && all_right "$home/class.csv" && [ "$(stat -c %a "$home/class.csv")" = 600 ]
    verdict $? "as an ordinary user, too, with umask 077 and a blank in the path; the table is hers alone"
    work=$work_of_class
    mkdir "$home/theirs" && cp "$solution" "$home/theirs/04-3.c" && chmod 600 "$home/theirs/04-3.c"
    as_her CLASS="$home/theirs" CSV="$home/class.csv"
    [ $status -eq 1 ] && grep -q 'not graded: .*Permission denied' "$out" && ! grep -q ' of 10' "$out"
    verdict $? "what she may not read has no points rather than 0"

    # Root, another user for what is handed in, and a project that only root may read.
    for umask in 027 007; do (umask $umask && right) || complain "umask $umask: $(cat "$out" "$errors")"; done
    chown -R 0:0 "$home"
    (umask 077 && cd "$home" && right BUILD=build) || complain "closed to others: $(cat "$out" "$errors")"
    shown='' verdict "with any umask, and in a project that was checked out and built with one"
    rm "$home"/chapters/*/exercises/*/solution.c "$home"/chapters/*/exercises/*/rivals # students have none
    (umask 077 && cd "$home" && right BUILD=build TRUSTED=1)
    verdict $? "TRUSTED=1 in such a project"
fi

# ---- the machine -------------------------------------------------------------------------------------

if command -v localedef >/dev/null && mkdir "$work/locales" && localedef -i de_DE -f UTF-8 "$work/locales/de_DE.UTF-8" 2>/dev/null; then
    LOCPATH=$work/locales
    export LOCPATH
    for name in LC_ALL LC_NUMERIC; do
        right LC_ALL= $name=de_DE.UTF-8 JSON="$work/one.json" && jq -e '.exercises[0].seconds > 0' "$work/one.json" >/dev/null || complain "$name: $(cat "$errors")"
    done
    shown='' verdict "where numbers have a comma, those in JSON have a point"
else
    skip "a decimal comma" "no localedef, or no sources of locales"
fi
if command -v gnuplot >/dev/null; then
    mkdir "$work/his" && printf 'devices,epoch,train_loss,test_acc,seconds\n1,0.5,2.25,0.5,1.5\n1,1,1.125,0.625,1.5\n' >"$work/curves.csv"
    draw() { HOME=$work/his gnuplot -c plots/training_curves.gp "$work/curves.csv" "$work/$name.png" 2>"$errors"; }
    name=plain && draw
    echo 'set decimalsign locale; set logscale x' >"$work/his/.gnuplot"
    name=comma && LC_ALL=de_DE.UTF-8 draw && cmp "$work/plain.png" "$work/comma.png" >"$out"
    verdict $? "pictures do not depend on the locale and on ~/.gnuplot"
    printf '#!/bin/sh\ncase " $* " in *" --version "* | *" -d "*) exit 0 ;; esac\necho "$*" >>"%s"\n' "$work/without" >"$work/his/gnuplot" && chmod +x "$work/his/gnuplot"
    (cd "$work/his" && PATH=$work/his:$PATH "$build/02_get_params_and_allreduce" --quick >"$out" 2>"$errors")
    [ ! -e "$work/without" ] && ! grep -Hn '^[^#]*gnuplot .*-[ce] ' Makefile .make/* plots/book/*.sh | grep -v 'gnuplot -d' >"$out"
    verdict $? "and programs start gnuplot without it"
fi

if [ $root_grades ] && unshare -m true 2>/dev/null; then
    mkdir "$work/noexec"
    without_exec() { before="unshare -m sh tests/grade_machine_test.sh --without-exec $1"; } # FOLDER: no program in it starts
    without_exec "$work/noexec"
    LIBRARY=$build/libbook.a TMPDIR=$work/noexec $before sh tests/grader/derive.sh "$build/lab/judge" "$build/lab/exercises/04-3" $exercise 1 "$work/expected.tsv" >"$out" 2>"$errors" &&
        cmp "$work/expected.tsv" "$build/lab/exercises/04-3/expected.tsv" >>"$out"
    verdict $? "folders for temporary files may forbid that programs are started"
    right TMPDIR="$work/noexec"
    verdict $? "also when hand-ins are graded"
    without_exec "$work/build"
    grade SUBMISSION="$work/04-3.c"
    refused 'judge cannot be started: Permission denied' "a build folder that does is said"
    before=
fi
if [ -x "$build/solved/08_many_machines_exercise_2" ]; then
    mkdir "$work/mpi" && printf '#!/bin/sh\nexit 1\n' >"$work/mpi/mpirun" && chmod +x "$work/mpi/mpirun"
    PATH=$work/mpi:$PATH "$build/solved/08_many_machines_exercise_2" --facts "$work/facts" 1 >"$out" 2>"$errors"
    status=$?
    [ $status -eq 126 ] && grep -q 'error: ranks do not come together' "$errors" && grep -q '^hint: ' "$errors"
    verdict $? "ranks that do not start are a fault of the machine"
else
    skip "ranks that do not start" "no MPI"
fi
# What Gradescope's run_autograder says of a grader (make) that did not come to an end, or not to a good one.
mkdir -p "$work/autograder/results" "$work/autograder/source/project" "$work/make"
labs=04-3 seconds=60 name=project
eval "$(sed -n '/^cat >"$work\/run_autograder"/,/^END$/p' tests/grader/autograder.sh)"
sed -i "s|/autograder/|$work&|g; s/ 570 / 1 /" "$work/run_autograder"
autograder_says() { # WORDS COMMAND
    printf '#!/bin/sh\n%s\n' "$2" >"$work/make/make" && chmod +x "$work/make/make"
    PATH=$work/make:$PATH sh "$work/run_autograder" >"$out" 2>"$errors"
    jq -e --arg why "$1" '.score == 0 and (.output | test($why))' "$work/autograder/results/results.json" >>"$out"
}
autograder_says "no fault of yours.*ran out of time" "sleep 9" && autograder_says 'no fault of yours.*out: the x is' 'echo "y: not graded: memory ran out: the \"x\" is"; exit 1' &&
    autograder_says '^Not graded, as handed in: a.zip' 'echo "y: not graded: handed in: a.zip"; exit 1'
verdict $? "Gradescope's students read why there is no grade"
# Libraries in a home are not seen in the sandbox.
sed -i 's/ -lz / -lnowhere &/' "$work/build/lab/exercises/04-3/link"
grade SUBMISSION="$work/04-3.c"
! grep -q TRUSTED "$errors"
refused 'in the sandbox: .*lnowhere' "where not even an empty program can be made nobody is graded"
echo "1..$tests"
