# tools.sh: what the book's scripts share; to be sourced.
export LC_ALL=C
refuse() { # ERROR HINT
    echo "book: error: $1" >&2
    echo "hint: $2" >&2
    exit 1
}
# A browser without a screen and without network, which keeps what it writes in $work.
browse() { # SECONDS and its arguments
    seconds=$1
    shift
    HOME=$work timeout "$seconds" chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
        --user-data-dir="$work/profile" --host-resolver-rules="MAP * ~NOTFOUND" "$@"
}
trap 'rm -rf "${work:-}"' EXIT # the folder that a script works in
trap 'exit 1' HUP INT TERM
