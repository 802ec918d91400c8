#!/bin/sh
# book.sh BUILD EDITION [tools | labs FOLDER | whole FOLDER]: makes BUILD/book of the chapters and of what their runs
# have left (run.sh). If anything fails the book that is there stays. With `tools` it only says whether what it needs is
# there, with `labs` or `whole` it writes only the pages of the lab sheets, or one page of the whole book, into FOLDER.
set -eu
build=$1 edition=$2
. "$(dirname "$0")/tools.sh"
case $edition in
student | instructor) ;;
*) refuse "no such edition: $edition" "EDITION=student or EDITION=instructor" ;;
esac
for tool in pandoc gnuplot; do command -v $tool >/dev/null || refuse "$tool is missing" "make setup book"; done
# 2.17 reads with readers in Lua that know where text came from.
pandoc --version | awk 'NR == 1 { split($2, v, "."); exit !(v[1] > 2 || (v[1] == 2 && v[2] >= 17)) }' ||
    refuse "$(pandoc --version | head -n 1) is too old" "2.17 or newer is needed, that of Debian 12 or Ubuntu 23.04"
lunr=$(ls /usr/share/javascript/lunr/lunr.min.js /usr/share/javascript/lunr/lunr.js 2>/dev/null | head -n 1)
[ "$lunr" ] || refuse "lunr is missing, with which pages are searched" "make setup book"
# Pages beside the chapters. What is handed out to students has no answers to the labs' questions, and not the page for
# instructors.
texts=$(find chapters -maxdepth 1 -name '*.md' ! -name index.md | sort)
[ "$edition" = instructor ] || texts=$(echo "$texts" | grep -v '/for_instructors\.md$')
if [ "$edition" = instructor ]; then
    for lab in chapters/[0-9]*/lab.md; do
        [ ! -e "$lab" ] || [ -e "${lab%.md}_answers.md" ] ||
            refuse "${lab%.md}_answers.md: not there, and so no instructor's edition" \
                "what is handed out has no such answers; without EDITION=instructor the book is made without them"
    done
fi
[ "${3:-}" != tools ] || exit 0

BOOK_CHAPTERS=$(ls chapters/[0-9]*/main.c)
BOOK_HEADERS=$(find common kernels chapters -name "*.h" ! -path "*/exercises/*" -printf '%h %p\n' | LC_ALL=C sort | cut -d' ' -f2)
BOOK_TEXTS=$texts BOOK_BUILD=$build BOOK_EDITION=$edition BOOK_FORMAT=html
export BOOK_CHAPTERS BOOK_HEADERS BOOK_TEXTS BOOK_BUILD BOOK_EDITION BOOK_FORMAT

# pandoc's own messages name its reader, where an error of ours names the file and the line.
read_with() { # READER and pandoc's arguments
    reader=$1
    shift
    pandoc -f "plots/book/$reader.lua" "$@" || exit 1
}
page() { # OUTPUT ROOT SOURCE..., and pandoc's arguments
    output=$1 root=$2
    shift 2
    read_with page -t html5 --mathml --no-highlight --template plots/book/page.html -V root="$root" "$@" -o "$new/$output"
}
number_of() { # chapters/NN_name/main.c
    number=${1#chapters/}
    echo "${number%%_*}"
}
lab_pages() {
    for lab in chapters/[0-9]*/lab.md; do
        [ ! -e "$lab" ] || page "$(number_of "$lab")-lab.html" "" "$lab"
    done
}
whole() { # OUTPUT, and pandoc's arguments
    output=$1
    shift
    BOOK_FORMAT=book read_with page --mathml --toc --toc-depth=2 -M lang=en -M title="Training on Multiple GPUs, in C" \
        -o "$new/$output" "$@" chapters/index.md $BOOK_CHAPTERS $texts
}
case ${3:-} in
labs)
    new=$4
    cp plots/book/book.css plots/book/book.js "$new"
    lab_pages
    exit 0
    ;;
whole)
    new=$4
    whole whole.html -t html5 --self-contained --css plots/book/book.css
    exit 0
    ;;
esac

book=$build/book new=$build/book.new work=$build/book.new
rm -rf "$new"
mkdir -p "$new/ref" "$new/pictures"
BOOK_SECTIONS=$new/sections
export BOOK_SECTIONS

# A timeline as a script, because what lies in files a page may load as a script only.
timeline() { # NAME SVG
    {
        printf 'showTimeline("%s", `' "$1"
        sed 's/[\\`$]/\\&/g' "$2"
        echo '`);'
    } >"$new/$1.js"
}

# ---- pages ---------------------------------------------------------------------------------------

echo "  BOOK  $book"
[ ! -d plots/readme ] || cp plots/readme/*.png "$new/pictures"
page index.html "" chapters/index.md
for main in $BOOK_CHAPTERS; do
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
    page "$number.html" "" --toc --toc-depth=3 "$main"
done
[ ! -e chapters/questions.md ] || [ -e "$build/runs/questions" ] || echo "book: chapters/questions.md has no runs, and so no output" >&2
for text in $texts; do page "$(basename "$text" .md).html" "" --toc --toc-depth=3 "$text"; done
lab_pages
for folder in $(dirname $BOOK_HEADERS | grep -v '^chapters/' | sort -u); do
    page "ref/$(echo "$folder" | tr / -).html" ../ --toc --toc-depth=2 "$folder"/*.h
done

# ---- what pages load -----------------------------------------------------------------------------

read_with script -t plain --wrap=none chapters/index.md -o "$new/names.js"
{ echo 'const SECTIONS = [' && cat "$BOOK_SECTIONS" && echo '];'; } >"$new/sections.js"
rm "$BOOK_SECTIONS"
unset BOOK_SECTIONS
cp "$lunr" "$new/lunr.js"
cp plots/book/book.css plots/book/book.js "$new"

# ---- programs that run in a page -----------------------------------------------------------------

begin_script() { printf '\377\376'; } # UTF-16
# The first COUNT (the first byte of it and the second, in octal) of a file of Fashion-MNIST, or with IMAGES=all the file.
first_of() { # NAME COUNT BYTES BYTES_OF_HEAD BYTES_OF_EACH
    unpack() { gzip -dcf "$data/$1"*; }
    first() { head -c "$1" && cat >/dev/null; } # (reads all: gzip would complain where SIGPIPE is ignored)
    if [ "${IMAGES:-}" = all ]; then
        unpack "$1"
    else
        unpack "$1" | first 4 && printf "\\0\\0$3" && unpack "$1" | first $(($4 + $2 * $5)) | tail -c +9
    fi | python3 plots/book/pack.py "images/$1"
}
modules=
for main in $BOOK_CHAPTERS; do
    name=$(basename "$(dirname "$main")")
    [ -e "$build/wasm/$name.wasm" ] || continue
    command -v python3 >/dev/null || refuse "python3 is missing, which packs programs for pages" "make setup book"
    { begin_script && python3 plots/book/pack.py "$name" <"$build/wasm/$name.wasm"; } >"$new/run-$(number_of "$main").js"
    modules=yes
done
if [ "$modules" ]; then
    data=${FASHION_MNIST_DIR:-/usr/share/datasets/fashion-mnist}
    {
        begin_script
        first_of train-images-idx3-ubyte 2000 '\7\320' 16 784
        first_of train-labels-idx1-ubyte 2000 '\7\320' 8 1
        first_of t10k-images-idx3-ubyte 1000 '\3\350' 16 784
        first_of t10k-labels-idx1-ubyte 1000 '\3\350' 8 1
    } >"$new/images.js"
    cp plots/book/wasi.js plots/book/run.js "$new"
else
    echo "book: no WebAssembly, so no program runs in a page: make setup wasm" >&2
fi

# ---- other forms ---------------------------------------------------------------------------------

for main in $BOOK_CHAPTERS; do
    BOOK_FORMAT=notebook read_with notebook -t ipynb "$main" -o "$new/$(number_of "$main").ipynb"
done
whole training-on-multiple-gpus.epub -t epub3 --epub-chapter-level=1 --css plots/book/epub.css

rm -rf "$book"
mv "$new" "$book"
echo "book: $book/index.html"
