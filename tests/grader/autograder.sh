#!/bin/sh
# autograder.sh BUILD LABS OFFLINE: writes BUILD/lab/gradescope.zip, to be uploaded as an autograder to Gradescope: the
# students' archive (kit.sh), setup.sh, which Gradescope runs once, and run_autograder, which it runs for each hand-in, in
# a container of its own.
set -eu
build=$1 offline=$3
labs=$(sh tests/grader/labs.sh autograder "$2" ids)
name=training-on-multiple-gpus
mkdir -p "$build/lab"
work=$(mktemp -d "$build/lab/autograder.XXXXXX") || exit 1 # beside the zip: so it is there as a whole, or not at all
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
command -v bsdtar >/dev/null || {
    echo "autograder: error: there is no bsdtar to write a zip with" >&2
    echo "hint: make setup grade installs it (package libarchive-tools)" >&2
    exit 1
}
mkdir "$work/lab" && ln -s "$(cd "$build" && pwd)/lab/exercises" "$work/lab/exercises"
sh tests/grader/kit.sh "$work" "$labs" "$offline" '' >/dev/null
mv "$work/lab/$name.tar.gz" "$work"
cat >"$work/setup.sh" <<END
#!/bin/sh
# Gradescope runs this once, as root: installs, and builds all that does not depend on a hand-in.
set -eu
cd /autograder/source
tar xf $name.tar.gz
cd $name
apt-get update && apt-get install -y --no-install-recommends make
make setup grade LABS="$labs" SUBMISSION=. TRUSTED=1
END
cat >"$work/run_autograder" <<END
#!/bin/sh
# Gradescope runs this for each hand-in, as root, in a container that is thrown away afterwards. So there is no sandbox;
# what is handed in is run by another user, to whom the results do not belong.
cd /autograder/source/$name
results=/autograder/results/results.json
make -s grade LABS="$labs" SUBMISSION=/autograder/submission TRUSTED=1 GRADESCOPE="\$results" && exit
echo '{"score": 0, "output": "The grader failed, through no fault of yours: please tell your instructor.", "stdout_visibility": "hidden"}' >"\$results"
END
chmod +x "$work/setup.sh" "$work/run_autograder"
bsdtar --format zip -C "$work" -cf "$work/gradescope.zip" setup.sh run_autograder "$name.tar.gz"
mv "$work/gradescope.zip" "$build/lab/gradescope.zip"
echo "autograder: $build/lab/gradescope.zip, for Gradescope's Configure Autograder"
