#!/bin/sh
# serve.sh BOOK: shows the pages in the folder BOOK to browsers of this machine (serve.py).
set -eu
. "$(dirname "$0")/tools.sh"
[ -e "$1/index.html" ] || refuse "no book in $1" "make book"
command -v python3 >/dev/null || refuse "python3 is missing, which serves the pages" \
    "make setup book; or open $1/index.html in a browser, as a file"
exec python3 "${0%.sh}.py" "$1"
