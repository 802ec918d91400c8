#!/bin/sh
# kit.sh BUILD LABS OFFLINE CLASSROOM: writes BUILD/lab/training-on-multiple-gpus.tar.gz, what students get: the project
# without solutions and without what is written for instructors, and with what solutions do, expected.tsv, of
# BUILD/lab/exercises (`make graded`). LABS are the exercises that are handed out (labs.sh), OFFLINE=1 adds the packages
# that `make setup` installs, CLASSROOM=1 the workflow with which GitHub Classroom grades.
build=$1 labs=$2 offline=$3 classroom=$4 program=lab-kit name=training-on-multiple-gpus
. tests/grader/begin.sh
ls chapters/*/exercises/*/solution.c >/dev/null 2>&1 ||
    refuse "no exercise here has a solution, so none can be left out" "this is what students have; lab-kit is for the whole project"
kit=$work/$name
sh tests/grader/labs.sh lab-kit "$labs" >"$work/named"
while read -r id folder; do
    if [ -f "$build/lab/exercises/$id/expected.tsv" ]; then
        echo "$id $folder"
    else
        echo "lab-kit: $id is left out: it is not built here (chapter 8 needs MPI: make setup)" >&2
    fi
done <"$work/named" >"$work/labs"

# What belongs to the project is what git knows. Where there is no git, it is what the project is made of: other things
# lie about there, too. (-z: else git writes a name with an umlaut in another way.)
files() {
    git ls-files -z 2>/dev/null | tr '\0' '\n' | grep . || {
        ls .clang-format .editorconfig .gitattributes .gitignore LICENSE Makefile
        find README.md .devcontainer .make chapters common kernels plots tests -type f ! -path '*/.*' |
            grep -E '(/(Dockerfile|c_names|in_browser|may_call|needs_mpi|ranks|recorded)|\.(awk|c|cpp|css|csv|cu|cuh|gp|h|html|jq|js|json|lua|machine|md|mk|png|py|safetensors|sbatch|sed|sh|txt|yml))$'
    }
}
sh tests/grader/labs.sh lab-kit "" | grep -vFxf "$work/labs" | sed 's|.* \(.*\)|^\1/|' >"$work/left_out" || :
# Known mistakes (rivals) are edits of the solution. These tests are of what students do not have.
cat >>"$work/left_out" <<'END'
^chapters/.*/(solution|rivals)[^/]*$
^chapters/.*/(lab_answers|exercises/.*/answers)\.md$
^chapters/for_instructors\.md$
^tests/(lab/|(deceivers|exercises|grade|grade_machine|judge|lab_kit)_test\.sh)
^\.ci/
^plots/[^/]*\.(png|csv)$
END
mkdir "$kit"
files | grep -vEf "$work/left_out" | while IFS= read -r file; do [ ! -f "$file" ] || printf '%s\0' "$file"; done |
    xargs -0 cp -p --parents -t "$kit" || refuse "the project cannot be copied to $kit" "is there room on the disk?"
while read -r id folder; do
    cp "$build/lab/exercises/$id/expected.tsv" "$kit/$folder/"
done <"$work/labs"
# make help without what is for instructors.
sed '/for instructors:/d; /EDITION=instructor/d' .make/help.txt >"$kit/.make/help.txt"
for chapter in chapters/*/lab.md; do
    (cd "$kit" && sh tests/grader/answers.sh "${chapter%/*}" >"${chapter%/*}/your_answers.md")
done
[ "$offline" != 1 ] || sh tests/grader/packages.sh "$build" "$kit/.packages"
[ "$classroom" != 1 ] || sh tests/grader/classroom.sh "$build" "$labs" "$kit/.github/workflows/classroom.yml"

# Nothing in it tells who made it, and its date is that of the last commit: the same project gives the same bytes, and a
# newer one, unpacked over an old one, is built anew.
archive=$build/lab/$name.tar.gz
find "$kit" -exec touch -h -d "@$(git log -1 --format=%ct 2>/dev/null || echo 946684800)" {} +
pack() {
    tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw -cf "$work/tar" "$name" && gzip -nc "$work/tar" >"$work/new"
}
written "$archive" pack
echo "lab-kit: $archive ($(du -h "$archive" | cut -f 1)): ${labs:-all exercises}, without solutions"
if [ "$offline" = 1 ]; then
    echo "lab-kit: on $(cat "$kit/.packages/for") it needs no network: tar xf $name.tar.gz && cd $name && sh .make/setup.sh && make"
else
    echo "lab-kit: students begin with: tar xf $name.tar.gz && cd $name && make setup"
fi
