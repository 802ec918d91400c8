# tools.sh: what the book's scripts share; to be sourced.
export LC_ALL=C
refuse() { # ERROR HINT
    echo "book: error: $1" >&2
    echo "hint: $2" >&2
    exit 1
}
# Says what ran where and when: on pages, behind "is from".
about() { # WHAT
    processor=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
    gpus=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | sort | uniq -c | sed "s/^ *//" | paste -sd, || true)
    echo "$1 on ${processor:-$(uname -m)}, $(nproc) cores${gpus:+; GPUs: $gpus},"
    echo "$(date +%Y-%m-%d), version $(git describe --always --dirty 2>/dev/null || echo unknown)."
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
