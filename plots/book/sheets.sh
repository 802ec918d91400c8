#!/bin/sh
# sheets.sh BUILD EDITION: prints the labs' sheets to BUILD/book/labs/lab-NN.pdf, with a browser without a screen. A
# student's sheet has to be one page. The instructor's edition has the answers behind it.
set -eu
build=$1 edition=$2
here=$(dirname "$0")
refuse() { # ERROR HINT
    echo "book: error: $1" >&2
    echo "hint: $2" >&2
    exit 1
}
sh "$here/book.sh" "$build" "$edition" tools
command -v chromium >/dev/null || refuse "chromium is missing, which prints the sheets" "make setup lab-sheets"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
sh "$here/book.sh" "$build" "$edition" labs "$work"
set -- "$work"/*-lab.html
[ -e "$1" ] || refuse "no chapter has a lab.md" "chapters/NN_name/lab.md is the sheet of a lab"

labs=$build/book/labs
mkdir -p "$labs"
for page; do
    number=${page##*/}
    number=${number%-lab.html}
    pdf=$work/lab-$number.pdf
    HOME=$work timeout 120 chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
        --user-data-dir="$work/profile" --host-resolver-rules="MAP * ~NOTFOUND" --no-pdf-header-footer \
        --print-to-pdf="$pdf" "file://$page" >"$work/log" 2>&1 || true
    [ -s "$pdf" ] || {
        tail -n 3 "$work/log" >&2
        refuse "lab $number could not be printed" "does chromium --version work?"
    }
    pages=$(grep -a -c '/Type */Page$' "$pdf" || true)
    [ "$edition" = instructor ] || [ "$pages" = 1 ] ||
        refuse "$(ls chapters/"$number"_*/lab.md): its sheet is $pages pages, and has to be one" "make it shorter"
    mv "$pdf" "$labs"
    echo "  PRINT $labs/lab-$number.pdf"
done
