#!/bin/sh
# setup.sh: installs what probe.sh finds missing, with apt. Does nothing, and needs no network, when
# nothing is missing.
set -u
here=$(dirname "$0")
packages=$(sh "$here/probe.sh" --packages | sort -u | tr '\n' ' ')
if [ -z "${packages% }" ]; then
    echo "setup: everything is there"
    exit 0
fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "setup: error: missing, and there is no apt-get to install it: $packages" >&2
    echo "hint: install what these Debian packages hold with your system's own tools, then run make setup again" >&2
    exit 1
fi
as_root=
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "setup: error: not root, and no sudo; missing: $packages" >&2
        echo "hint: as root: apt-get update && apt-get install $packages" >&2
        exit 1
    fi
    as_root="sudo"
fi
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
echo "setup: installing $packages"
if ! { $as_root apt-get update -q && $as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends $packages; } </dev/null >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    echo "setup: error: apt-get could not install: $packages" >&2
    echo "hint: is there a network? On Ubuntu the data set is in 'universe': sudo add-apt-repository universe" >&2
    exit 1
fi
packages=$(sh "$here/probe.sh" --packages | tr '\n' ' ')
if [ -n "${packages% }" ]; then
    echo "setup: error: installed, but still not usable: $packages" >&2
    echo "hint: sh .make/probe.sh shows what was tried; CC=gcc make setup tries another compiler" >&2
    exit 1
fi
echo "setup: done"
