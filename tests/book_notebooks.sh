#!/bin/sh
# book_notebooks.sh BUILD [NN...]: checks the notebooks that make book has written into BUILD/book, and runs those of
# the chapters NN (03 if none is named, none for "-") from the first cell to the last, in an empty folder, where the first
# one makes a clone of what is committed and compiles it; that takes minutes. Jupyter is looked for in
# build/notebooks-venv, then where python3 is: it is no part of make setup, and Debian's is too old.
set -eu
build=$1
shift
[ $# -gt 0 ] || set -- 03
cd "$(dirname "$0")/.."
refuse() { # ERROR HINT
    printf 'book_notebooks.sh: error: %s\nhint: %s\n' "$1" "$2" >&2
    exit 1
}
python=
for candidate in build/notebooks-venv/bin/python python3; do
    "$candidate" -c 'import nbformat, nbclient, ipykernel' 2>/dev/null && python=$candidate && break
done
[ "$python" ] || refuse "no Python here has nbformat, nbclient and ipykernel" \
    "python3 -m venv build/notebooks-venv && build/notebooks-venv/bin/pip install nbformat nbclient ipykernel"
ls "$build"/book/[0-9]*.ipynb >/dev/null 2>&1 || refuse "$build/book has no notebooks" "make book"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

"$python" tests/notebook_check.py files "$build"
"$python" tests/notebook_check.py your_part "$work"
mkdir "$work/run"
for number; do
    [ "$number" != - ] || continue
    main=$(ls "chapters/${number}_"*/main.c 2>/dev/null) || refuse "there is no chapter $number" "two digits, like 03"
    # The book's notebook, but that it copies the project from here.
    BOOK_REPOSITORY=$(pwd) BOOK_BUILD=$build BOOK_EDITION=student \
        pandoc -f plots/book/notebook.lua -t plain --wrap=none "$main" -o "$work/run/$number.ipynb"
    "$python" tests/notebook_check.py run "$work/run/$number.ipynb"
    mkdir -p "$build/notebooks"
    cp "$work/run/$number.run.ipynb" "$build/notebooks/$number.ipynb"
    echo "as it ran: $build/notebooks/$number.ipynb"
done
