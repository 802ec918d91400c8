#!/bin/sh
# book.sh BUILD EDITION [tools | labs FOLDER]: makes BUILD/book of the chapters and of what their runs have left
# (run.sh). If anything fails the book that is there stays. With `tools` it only says whether what it needs is there,
# with `labs` it writes only the pages of the lab sheets, into FOLDER.
set -eu
build=$1 edition=$2
refuse() { # ERROR HINT
    echo "book: error: $1" >&2
    echo "hint: $2" >&2
    exit 1
}
case $edition in
student | instructor) ;;
*) refuse "no such edition: $edition" "EDITION=student or EDITION=instructor" ;;
esac
command -v pandoc >/dev/null || refuse "pandoc is missing" "make setup book"
# 2.17 reads with readers in Lua that know where text came from.
pandoc --version | awk 'NR == 1 { split($2, v, "."); exit !(v[1] > 2 || (v[1] == 2 && v[2] >= 17)) }' ||
    refuse "$(pandoc --version | head -n 1) is too old" "2.17 or newer is needed, that of Debian 12 or Ubuntu 23.04"
# Pages beside the chapters. What is handed out to students has no answers, and not the page for instructors.
texts=$(find chapters -maxdepth 1 -name '*.md' ! -name index.md | sort)
[ "$edition" = instructor ] || texts=$(echo "$texts" | grep -v '/for_instructors\.md$')
if [ "$edition" = instructor ]; then
    for text in chapters/[0-9]*/main.c chapters/[0-9]*/lab.md; do
        [ -e "$text" ] && grep -q '^\(// \)\{0,1\}## Questions' "$text" || continue
        answers=${text%/*}/answers.md
        case $text in *lab.md) answers=${text%/*}/lab_answers.md ;; esac
        [ -e "$answers" ] || refuse "$answers: not there, and so no instructor's edition" \
            "what is handed out has no answers; without EDITION=instructor the book is made without them"
    done
fi
[ "${3:-}" != tools ] || exit 0

BOOK_CHAPTERS=$(ls chapters/[0-9]*/main.c)
BOOK_HEADERS=$(ls common/*/*.h kernels/*.h kernels/*/*.h chapters/*/*.h)
BOOK_BUILD=$build BOOK_EDITION=$edition BOOK_FORMAT=html
export BOOK_CHAPTERS BOOK_HEADERS BOOK_BUILD BOOK_EDITION BOOK_FORMAT

# pandoc's own messages name its reader, where an error of ours names the file and the line.
read_with() { # READER and pandoc's arguments
    reader=$1
    shift
    pandoc -f "plots/book/$reader.lua" "$@" || exit 1
}
page() { # OUTPUT ROOT and further arguments, the sources last
    output=$1 root=$2
    shift 2
    read_with page -t html5 --mathml --no-highlight --template plots/book/page.html -V root="$root" "$@" -o "$new/$output"
}
number_of() { # chapters/NN_name/main.c
    number=${1#chapters/}
    echo "${number%%_*}"
}
title_of() { sed -n '1s|^\(// \)\{0,1\}# ||p' "$1"; } # of main.c, or of a lab.md

# The sheets of labs, each with the way to those before and behind it.
lab_pages() {
    last_lab=
    set -- $(ls chapters/[0-9]*/lab.md 2>/dev/null || true)
    for lab; do
        shift
        number=$(number_of "$lab")
        page "$number-lab.html" "" -M pagetitle="$(title_of "$lab")" -V chapter="$number.html" \
            ${last_lab:+-V previous="$(number_of "$last_lab")-lab.html" -V previous-title="$(title_of "$last_lab")"} \
            ${1:+-V next="$(number_of "$1")-lab.html" -V next-title="$(title_of "$1")"} "$lab"
        last_lab=$lab
    done
}
if [ "${3:-}" = labs ]; then
    new=$4
    cp plots/book/book.css plots/book/book.js "$new"
    lab_pages
    exit 0
fi

book=$build/book new=$build/book.new
rm -rf "$new"
mkdir -p "$new/ref" "$new/pictures"
trap 'rm -rf "$new"' EXIT
trap 'exit 1' HUP INT TERM

# A timeline as a script, because what lies in files a page may load as a script only.
timeline() { # NAME SVG
    {
        printf 'showTimeline("%s", `' "$1"
        sed 's/[\\`$]/\\&/g' "$2"
        echo '`);'
    } >"$new/$1.js"
}

# ---- chapters ------------------------------------------------------------------------------------

echo "  BOOK  $book"
page index.html "" -M pagetitle="Training on Multiple GPUs, in C" chapters/index.md
previous=
set -- $BOOK_CHAPTERS
for main; do
    shift
    number=$(number_of "$main")
    folder=${main%/main.c}
    pictures=$build/runs/${folder#chapters/}/plots
    if [ -d "$pictures" ]; then
        mkdir "$new/pictures/$number"
        find "$pictures" -name '*.png' -exec cp {} "$new/pictures/$number" \;
        for svg in "$pictures"/*.svg; do
            [ ! -e "$svg" ] || timeline "pictures/$number/$(basename "$svg" .svg)" "$svg"
        done
    else
        echo "book: chapter $number has no run, and so no output" >&2
    fi
    sheet=
    [ ! -e "$folder/lab.md" ] || sheet=$number-lab.html
    page "$number.html" "" --toc --toc-depth=3 -M pagetitle="$number $(title_of "$main")" ${sheet:+-V sheet="$sheet"} \
        ${previous:+-V previous="$(number_of "$previous").html" -V previous-title="$(title_of "$previous")"} \
        ${1:+-V next="$(number_of "$1").html" -V next-title="$(title_of "$1")"} "$main"
    previous=$main
done
for text in $texts; do
    page "$(basename "$text" .md).html" "" --toc --toc-depth=2 -M pagetitle="$(sed -n '1s/^# //p' "$text")" "$text"
done

lab_pages

# ---- headers -------------------------------------------------------------------------------------

for folder in $(dirname $BOOK_HEADERS | grep -v '^chapters/' | sort -u); do
    page "ref/$(echo "$folder" | tr / -).html" ../ --toc --toc-depth=2 -M pagetitle="$folder" "$folder"/*.h
done
read_with script -t plain --wrap=none chapters/index.md -o "$new/names.js"
cp plots/book/book.css plots/book/book.js "$new"

# ---- other forms ---------------------------------------------------------------------------------

for main in $BOOK_CHAPTERS; do
    [ ! -e plots/book/notebook.lua ] || read_with notebook -t plain --wrap=none "$main" -o "$new/$(number_of "$main").ipynb"
done
BOOK_FORMAT=epub read_with page -t epub3 --mathml --toc --toc-depth=2 --epub-chapter-level=1 --css plots/book/epub.css \
    -M lang=en -M title="Training on Multiple GPUs, in C" \
    -o "$new/training-on-multiple-gpus.epub" chapters/index.md $BOOK_CHAPTERS $texts

rm -rf "$book"
mv "$new" "$book"
echo "book: $book/index.html"
