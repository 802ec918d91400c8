#!/bin/sh
# check.sh BOOK: looks at every page in the folder BOOK as a browser shows it, without network (check.js). Fails, with
# the page and the reason, where a script fails, a picture has no pixels, a link of the book leads nowhere, a page
# scrolls sideways on a phone, or a chapter's page is too large.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
limit=1000000 # bytes of a page
. "$(dirname "$0")/tools.sh"
command -v chromium >/dev/null || refuse "chromium is missing, which looks at the pages" "make setup book-check"
[ -e "$1/index.html" ] || refuse "no book in $1" "make book"
book=$(cd "$1" && pwd)

work=$(mktemp -d)

{
    echo '<!DOCTYPE html><meta charset="utf-8"><title>check</title><body><script>'
    echo "const BOOK = encodeURI(\"file://$book/\");"
    echo 'const FILES = ['
    (cd "$book" && find . -type f | LC_ALL=C sort | sed 's|^\./\(.*\)|  "\1",|')
    echo '];</script>'
    echo "<script src=\"file://$here/paraphrases.js\"></script><script src=\"file://$here/check.js\"></script>"
} >"$work/check.html"

# Its own complaints (no D-Bus, no GPU) and the console's lines both come on stderr.
status=0
browse 400 --allow-file-access-from-files --enable-logging=stderr --dump-dom "file://$work/check.html" \
    >"$work/dom" 2>"$work/log" || status=$?
grep -q ':CONSOLE.*"checked [0-9]* pages"' "$work/log" || {
    tail -n 3 "$work/log" >&2
    refuse "the pages could not be looked at: chromium ended with status $status" "does chromium --version work?"
}

# A page has nothing to say in the console, unless something is wrong.
awk '/:CONSOLE[:(]/ {
    said = $0
    sub(/^[^"]*"/, "", said)
    sub(/", source: [^"]*$/, "", said)
    if (said ~ /^page /) page = substr(said, 6)
    else if (said ~ /^fault /) print substr(said, 7)
    else if (said ~ /^checked /) exit
    else print page ": in the console: " said
}' "$work/log" >"$work/faults"
(cd "$book" && find . -name '*.html' -size +${limit}c -printf '%P: %s bytes, more than '$limit'\n') >>"$work/faults"

if [ -s "$work/faults" ]; then
    LC_ALL=C sort -u "$work/faults" | sed 's/^/book: error: /' >&2
    echo "hint: mend what the page is made of, then make book book-check" >&2
    exit 1
fi
sed -n 's/.*:CONSOLE.*"\(checked [0-9]* pages\)".*/book: \1/p' "$work/log"
