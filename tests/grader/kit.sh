#!/bin/sh
# kit.sh BUILD LABS OFFLINE CLASSROOM [ROSTER]: writes BUILD/lab/training-on-multiple-gpus.tar.gz, what students get: the project
# without solutions and without what is written for instructors, and with what solutions do, expected.tsv, of
# BUILD/lab/exercises (`make graded`). LABS are the exercises that are handed out (labs.sh), OFFLINE=1 adds the packages
# that `make setup` installs, CLASSROOM=1 the workflow with which GitHub Classroom grades. my.machine is the machine of which
# the sheets ask numbers: rtx4090-pcie. For each student in ROSTER (roster.awk) there is an archive to be unpacked over the kit,
# BUILD/lab/students/ID.tar.gz, with a machine of her own, and with mistakes of her own to find (plant.sh).
build=$1 labs=$2 offline=$3 classroom=$4 roster=${5-} program=lab-kit name=training-on-multiple-gpus
. tests/grader/begin.sh
ls chapters/*/exercises/*/solution.c >/dev/null 2>&1 ||
    refuse "no exercise here has a solution, so none can be left out" "this is what students have; lab-kit is for the whole project"
kit=$work/$name
[ -z "$roster" ] || awk -f tests/grader/roster.awk "$roster" | cut -f 1 | uniq >"$work/ids"
[ -z "$roster" ] || [ -s "$work/ids" ] || exit 1
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
            grep -E '(/(Dockerfile|budget|c_names|in_browser|may_call|needs_mpi|ranks|recorded)|\.(awk|c|cpp|css|csv|cu|cuh|gp|h|html|jq|js|json|lua|machine|md|mk|png|py|safetensors|sbatch|sed|sh|txt|yml))$'
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
cp common/model/machines/rtx4090-pcie.machine "$kit/my.machine"
[ "$offline" != 1 ] || sh tests/grader/packages.sh "$build" "$kit/.packages"
[ "$classroom" != 1 ] || sh tests/grader/classroom.sh "$build" "$labs" "$kit/.github/workflows/classroom.yml"

# Nothing in it tells who made it, and its date is that of the last commit: the same project gives the same bytes, and a
# newer one, unpacked over an old one, is built anew.
archive=$build/lab/$name.tar.gz
date=$(git log -1 --format=%ct 2>/dev/null || echo 946684800)
pack() { # FOLDER: in it is what goes into the archive
    find "$1/$name" -exec touch -h -d "@$date" {} + &&
        tar -C "$1" --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw -cf "$work/tar" "$name" && gzip -nc "$work/tar" >"$work/new"
}
written "$archive" pack "$work"
if [ -n "$roster" ]; then
    mkdir -p "$build/lab/students" && rm -f "$build"/lab/students/*.tar.gz
    : >"$work/mistakes.tsv"
    while read -r id; do
        own=$work/own/$id/$name
        mkdir -p "$own"
        sh tests/grader/draw.sh "$id" >"$own/my.machine"
        while read -r exercise folder; do
            grep -q '^# drawable: ' "$folder/rivals" || continue
            mistakes=$(sh tests/grader/plant.sh "$folder" for "$id")
            mkdir -p "$own/$folder"
            # shellcheck disable=SC2086
            sh tests/grader/plant.sh "$folder" $mistakes >"$own/$folder/your_part.c"
            echo "$id	$exercise	$mistakes"
        done <"$work/labs" >>"$work/mistakes.tsv"
        written "$build/lab/students/$id.tar.gz" pack "$work/own/$id"
    done <"$work/ids"
    cp "$work/mistakes.tsv" "$build/lab/students/mistakes.tsv"
    echo "lab-kit: $build/lab/students/ID.tar.gz for $(wc -l <"$work/ids") students ($(head -n 1 "$work/ids") to $(tail -n 1 "$work/ids")), to be unpacked over it: tar xf $name.tar.gz && tar xf ID.tar.gz"
    [ ! -s "$work/mistakes.tsv" ] || echo "lab-kit: $build/lab/students/mistakes.tsv says which mistakes each has to find"
fi
echo "lab-kit: $archive ($(du -h "$archive" | cut -f 1)): ${labs:-all exercises}, without solutions"
if [ "$offline" = 1 ]; then
    echo "lab-kit: on $(cat "$kit/.packages/for") it needs no network: tar xf $name.tar.gz && cd $name && sh .make/setup.sh && make"
else
    echo "lab-kit: students begin with: tar xf $name.tar.gz && cd $name && make setup"
fi
