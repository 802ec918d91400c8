#!/bin/sh
# sheets.sh BUILD EDITION labs|whole: prints the labs' sheets to BUILD/book/labs/lab-NN.pdf, or the whole book to
# BUILD/book/training-on-multiple-gpus.pdf, with a browser without a screen. A student's sheet has to be one page. The
# instructor's edition has the answers behind it.
set -eu
build=$1 edition=$2 what=$3
. "$(dirname "$0")/tools.sh"
sh plots/book/book.sh "$build" "$edition" tools
command -v chromium >/dev/null || refuse "chromium is missing, which prints pages" "make setup lab-sheets"

work=$(mktemp -d)
sh plots/book/book.sh "$build" "$edition" "$what" "$work"
print() { # PAGE PDF
    browse 300 --no-pdf-header-footer --print-to-pdf="$work/pdf" "file://$1" >"$work/log" 2>&1 || true
    [ -s "$work/pdf" ] || {
        tail -n 3 "$work/log" >&2
        refuse "$1 could not be printed" "does chromium --version work?"
    }
    pages=$(grep -a -c '/Type */Page$' "$work/pdf" || true)
    [ "$what" != labs ] || [ "$edition" = instructor ] || [ "$pages" = 1 ] ||
        refuse "$(ls chapters/"$number"_*/lab.md): its sheet is $pages pages, and has to be one" "make it shorter"
    mv "$work/pdf" "$2"
    echo "  PRINT $2"
}
mkdir -p "$build/book/labs"
if [ "$what" = whole ]; then
    print "$work/whole.html" "$build/book/training-on-multiple-gpus.pdf"
    exit
fi
for page in "$work"/*-lab.html; do
    [ -e "$page" ] || refuse "no chapter has a lab.md" "chapters/NN_name/lab.md is the sheet of a lab"
    number=${page##*/}
    number=${number%-lab.html}
    print "$page" "$build/book/labs/lab-$number.pdf"
done
