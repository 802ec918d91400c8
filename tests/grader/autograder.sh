#!/bin/sh
# autograder.sh BUILD LABS OFFLINE: writes BUILD/lab/gradescope.zip, to be uploaded as an autograder to Gradescope: the
# students' archive (kit.sh), what solutions do in the cases of three new seeds, setup.sh, which Gradescope runs once, and
# run_autograder, which it runs for each hand-in, in a container of its own.
build=$1 offline=$3 program=autograder name=training-on-multiple-gpus
. tests/grader/begin.sh
labs=$(sh tests/grader/labs.sh autograder "$2" ids)
[ "$labs" != none ] || refuse "LABS=$2 has no code, and numbers are not graded there" "LABS=\"04-1 04-3\""
command -v bsdtar >/dev/null || refuse "there is no bsdtar to write a zip with" "make setup grade installs it (package libarchive-tools)"
mkdir "$work/lab" "$work/seeds" && ln -s "$(realpath "$build")/lab/exercises" "$work/lab/exercises"
sh tests/grader/kit.sh "$work" "$labs" "$offline" '' >/dev/null
mv "$work/lab/$name.tar.gz" "$work"
sh tests/grader/labs.sh autograder "$labs" >"$work/labs"
while read -r id folder; do
    [ -f "$build/lab/exercises/$id/expected.tsv" ] || continue # not built here (MPI)
    for seed in $(shuf -n 3 -i 2-9990); do
        printf '%s\0' "$build/lab/exercises/$id" "$folder" "$seed" "$work/seeds/$id-$seed.tsv"
    done
done <"$work/labs" >"$work/derive"
echo "autograder: what solutions do in the cases of three new seeds: some minutes, if these are all exercises"
LIBRARY=$build/libbook.a xargs -0 -a "$work/derive" -n 4 -P "$(nproc)" sh tests/grader/derive.sh "$build/lab/judge"
# Ten minutes are what a container has. In one with half a CPU solutions of all exercises take half a minute in all, and
# 150 MB; programs that hang may take 60 seconds each, or less if there are many.
exercises=$(wc -l <"$work/labs")
seconds=$((480 / exercises - 5))
[ $seconds -lt 60 ] || seconds=60
cat >"$work/setup.sh" <<END
#!/bin/sh
# Gradescope runs this once, as root: installs, and builds all that does not depend on a hand-in.
set -eu
cd /autograder/source
chmod -R go= seeds # for root alone; a hand-in is run by another user
tar xf $name.tar.gz
cd $name
apt-get update && apt-get install -y --no-install-recommends make
make -j2 setup grade LABS="$labs" SUBMISSION=chapters TRUSTED=1 # (more compilers at once take more memory than there may be)
END
cat >"$work/run_autograder" <<END
#!/bin/sh
# Gradescope runs this for each hand-in, as root, in a container that is thrown away afterwards. So there is no sandbox;
# what is handed in is run by another user, to whom neither the results nor the seeds' files belong.
cd /autograder/source/$name
results=/autograder/results/results.json
timeout -k 9 570 make -s grade LABS="$labs" SUBMISSION=/autograder/submission SEED=/autograder/source/seeds TRUSTED=1 SECONDS=$seconds \\
    GRADESCOPE="\$results" >said 2>&1 && cat said && exit
[ \$? = 124 ] && why="it ran out of time" || why=\$(sed -n 's/.*not graded: //p; s/^grade: error: //p' said | tail -n 1 | tr -d '"\\\\')
cat said
case \$why in 'handed in: '*) why="Not graded, as \$why" ;; *) why="The grader failed, through no fault of yours: please tell your instructor. (\$why)" ;; esac
echo "{\"score\": 0, \"output\": \"\$why\", \"stdout_visibility\": \"hidden\"}" >"\$results"
END
chmod +x "$work/setup.sh" "$work/run_autograder"
written "$build/lab/gradescope.zip" bsdtar --format zip -C "$work" -cf "$work/new" setup.sh run_autograder seeds "$name.tar.gz"
echo "autograder: $build/lab/gradescope.zip, for Gradescope's Configure Autograder"
