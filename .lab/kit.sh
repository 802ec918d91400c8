#!/bin/sh
# kit.sh BUILD LABS OFFLINE CLASSROOM: writes BUILD/lab/training-on-multiple-gpus.tar.gz, what students get:
# the project without solutions and without what is written for instructors. LABS are the exercises that are handed out
# ("04-1 06-2"; "": all), OFFLINE=1 adds the packages that `make setup` installs, CLASSROOM=1 the workflow with which
# GitHub Classroom grades.
set -eu
build=$1 labs=$2 offline=$3 classroom=$4
name=training-on-multiple-gpus
refuse() { # ERROR HINT
    echo "lab-kit: error: $1" >&2
    echo "hint: $2" >&2
    exit 1
}
grep -q '^ *// SOLUTION' chapters/*/exercises/*/your_part.c ||
    refuse "no exercise here has a solution that is marked, so none can be taken out" \
        "this is what students have; lab-kit is for the whole project"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
kit=$work/$name

id_of() { # chapters/04_name/exercises/1_title: 04-1
    chapter=${1#chapters/} title=${1##*/}
    echo "${chapter%%_*}-${title%%_*}"
}
exercises=$(ls -d chapters/*/exercises/[0-9]*/ | sed 's|/$||')
for lab in $labs; do
    found=
    for folder in $exercises; do [ "$(id_of "$folder")" != "$lab" ] || found=yes; done
    [ -n "$found" ] || refuse "LABS: there is no exercise $lab" \
        "there are $(for folder in $exercises; do id_of "$folder"; done | tr '\n' ' ')"
done
is_handed_out() { # ID
    case " $labs " in "  " | *" $1 "*) ;; *) return 1 ;; esac
}

# ---- files -----------------------------------------------------------------------------------------

# What belongs to the project: what git knows; where there is no git, everything but what was made.
files() {
    git ls-files 2>/dev/null | grep . || find . -path ./build -prune -o -path ./.git -prune -o -type f -print | sed 's|^\./||'
}
# Wrong answers are nearly right ones, and made-up hand-ins have right ones among them.
is_for_instructors() { # FILE
    case $1 in
    chapters/*answers.md | tests/wrong/* | tests/lab/* | .ci/* | plots/*.png | plots/*.csv) ;;
    *) return 1 ;;
    esac
    case $1 in plots/readme/exercise_*) ;; plots/readme/*) return 1 ;; esac
}
files >"$work/files"
mkdir "$kit"
while IFS= read -r file; do
    [ -f "$file" ] && ! is_for_instructors "$file" || continue
    case $file in
    chapters/*/exercises/[0-9]*/*) is_handed_out "$(id_of "${file%/*}")" || continue ;;
    esac
    mkdir -p "$kit/$(dirname "$file")"
    cp -p "$file" "$kit/$file"
done <"$work/files"
for folder in $exercises; do
    ! is_handed_out "$(id_of "$folder")" || sh .make/starter.sh "$folder/your_part.c" >"$kit/$folder/your_part.c"
done

# README.md and make help without what is for instructors, and without commands for exercises that are not there.
handed_out=$(for folder in $exercises; do ! is_handed_out "$(id_of "$folder")" || id_of "$folder"; done)
for_students() { # FILE
    awk -v ids="$handed_out" '
        BEGIN { n = split(ids, list); for (i = 1; i <= n; i++) is_here[list[i]] = 1 }
        /^<!-- for instructors -->$/ { skipped = 1 }
        /#for-instructors|for instructors:|^make exercises|EDITION=instructor/ { next }
        match($0, /^make exercise-[0-9][0-9]-[0-9]/) && !(substr($0, 15, 4) in is_here) { next }
        !skipped
        /^<!-- end -->$/ { skipped = 0 }' "$1"
}
for_students README.md >"$kit/README.md"
for_students .make/help.txt >"$kit/.make/help.txt"
for chapter in chapters/*/lab.md; do
    (cd "$kit" && sh .lab/answers.sh "${chapter%/*}" >"${chapter%/*}/your_answers.md")
done
left=$(grep -rlE '^ *// (END )?SOLUTION' "$kit/chapters" || true)
[ -z "$left" ] || refuse "solutions are left in: $left" "each // SOLUTION needs one // END SOLUTION behind it"

# ---- and the archive -------------------------------------------------------------------------------

[ "$offline" != 1 ] || sh .lab/packages.sh "$kit/.packages"
[ "$classroom" != 1 ] || sh .lab/classroom.sh "$build" "$labs" "$kit/.github/workflows/classroom.yml"
archive=$build/lab/$name.tar.gz
mkdir -p "$build/lab"
# Nothing in it tells who made it, and its date is that of the last commit: the same project gives the same bytes, and a
# newer one, unpacked over an old one, is built anew.
find "$kit" -exec touch -h -d "@$(git log -1 --format=%ct 2>/dev/null || echo 946684800)" {} +
tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw -cf - "$name" | gzip -n >"$archive.tmp"
mv "$archive.tmp" "$archive"
echo "lab-kit: $archive ($(du -h "$archive" | cut -f 1)): ${labs:-all exercises}, without solutions"
if [ "$offline" = 1 ]; then
    echo "lab-kit: on $(cat "$kit/.packages/for") it needs no network: tar xf $name.tar.gz && cd $name && sh .make/setup.sh && make"
else
    echo "lab-kit: students begin with: tar xf $name.tar.gz && cd $name && make setup"
fi
