#!/bin/sh
# kit.sh BUILD LABS OFFLINE CLASSROOM: writes BUILD/lab/training-on-multiple-gpus.tar.gz, what students get:
# the project without solutions and without what is written for instructors, and with what solutions do, expected.tsv,
# of BUILD/lab/exercises (`make graded`). LABS are the exercises that are handed out
# (labs.sh), OFFLINE=1 adds the packages that `make setup` installs, CLASSROOM=1 the workflow with which
# GitHub Classroom grades.
set -eu
build=$1 labs=$2 offline=$3 classroom=$4
name=training-on-multiple-gpus
refuse() { # ERROR HINT
    echo "lab-kit: error: $1" >&2
    echo "hint: $2" >&2
    exit 1
}
ls chapters/*/exercises/*/solution.c >/dev/null 2>&1 ||
    refuse "no exercise here has a solution, so none can be left out" \
        "this is what students have; lab-kit is for the whole project"
mkdir -p "$build/lab"
work=$(mktemp -d "$build/lab/kit.XXXXXX") || exit 1 # beside the archive: so it is there as a whole, or not at all
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
kit=$work/$name
sh tests/grader/labs.sh lab-kit "$labs" >"$work/named"
while read -r id folder; do
    if [ -f "$build/lab/exercises/$id/expected.tsv" ]; then
        echo "$id $folder"
    else
        echo "lab-kit: $id is left out: it is not built here (chapter 8 needs MPI: make setup)" >&2
    fi
done <"$work/named" >"$work/labs"
is_handed_out() { # chapters/04_name/exercises/1_title
    grep -q " $1\$" "$work/labs"
}

# ---- files -----------------------------------------------------------------------------------------

# What belongs to the project is what git knows. Where there is no git, it is what the project is made of: other things
# lie about there, too. (-z: else git writes a name with an umlaut in another way.)
files() {
    git ls-files -z 2>/dev/null | tr '\0' '\n' | grep . || {
        ls -d .clang-format .editorconfig .gitignore
        find LICENSE Makefile README.md .devcontainer .[a-z]*/ [a-z]*/ -type f ! -path "${build#./}/*" | sed 's|^\./||' |
            grep -E '^(\.(ci|devcontainer|lab|make)|chapters|common|kernels|plots|tests|[A-Z][^/]*)(/|$)' | grep -v '/\.' |
            grep -E '(/(Dockerfile|may_not_call|needs_mpi|ranks|run)|^(LICENSE|Makefile)|\.(c|cpp|css|csv|cu|cuh|gp|h|html|js|json|lua|machine|md|mk|png|py|safetensors|sbatch|sed|sh|txt|yml))$'
    }
}
# Known mistakes (rivals) are edits of the solution.
is_for_instructors() { # FILE
    case $1 in
    plots/readme/*) return 1 ;;
    chapters/*/exercises/*/solution.c | chapters/*/exercises/*/rivals | chapters/*answers.md | chapters/for_instructors.md | tests/lab/* | .ci/* | plots/*.png | plots/*.csv) ;;
    *) return 1 ;;
    esac
}
files >"$work/files"
mkdir "$kit"
while IFS= read -r file; do
    [ -f "$file" ] && ! is_for_instructors "$file" || continue
    case $file in
    */question.md) ;;
    chapters/*/exercises/[0-9]*/*) is_handed_out "$(printf '%s\n' "$file" | cut -d / -f 1-4)" || continue ;;
    esac
    mkdir -p "$kit/$(dirname "$file")"
    cp -p "$file" "$kit/$file"
done <"$work/files"
while read -r id folder; do
    cp "$build/lab/exercises/$id/expected.tsv" "$kit/$folder/"
done <"$work/labs"

# make help without what is for instructors.
sed '/for instructors:/d; /EDITION=instructor/d' .make/help.txt >"$kit/.make/help.txt"
for chapter in chapters/*/lab.md; do
    (cd "$kit" && sh tests/grader/answers.sh "${chapter%/*}" >"${chapter%/*}/your_answers.md")
done

# ---- and the archive -------------------------------------------------------------------------------

[ "$offline" != 1 ] || sh tests/grader/packages.sh "$kit/.packages"
[ "$classroom" != 1 ] || sh tests/grader/classroom.sh "$build" "$labs" "$kit/.github/workflows/classroom.yml"
archive=$build/lab/$name.tar.gz
# Nothing in it tells who made it, and its date is that of the last commit: the same project gives the same bytes, and a
# newer one, unpacked over an old one, is built anew.
find "$kit" -exec touch -h -d "@$(git log -1 --format=%ct 2>/dev/null || echo 946684800)" {} +
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw -cf - "$name" | gzip -n >"$work/$name.tar.gz"
mv "$work/$name.tar.gz" "$archive"
echo "lab-kit: $archive ($(du -h "$archive" | cut -f 1)): ${labs:-all exercises}, without solutions"
if [ "$offline" = 1 ]; then
    echo "lab-kit: on $(cat "$kit/.packages/for") it needs no network: tar xf $name.tar.gz && cd $name && sh .make/setup.sh && make"
else
    echo "lab-kit: students begin with: tar xf $name.tar.gz && cd $name && make setup"
fi
