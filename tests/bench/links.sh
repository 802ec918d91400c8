#!/bin/sh
# links.sh LINKS [HOSTS [RANKS [MB]]]: allreduces between hosts on this machine (tests/hosts.sh), over links of two
# speeds, next to what the speed allows. LINKS: the program, build/tests/bench/links. (Left out: 2 hosts, 4 ranks, 4 MB.)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
HOSTS_OWNER=$$
export HOSTS_OWNER
hosts() { sh "$here/../hosts.sh" "$@"; }
hosts can
trap 'hosts down' EXIT
trap 'exit 1' HUP INT TERM
for mbits in 100 400; do
    hosts up "${2:-2}" ${mbits}mbit
    hosts run "${3:-4}" "$1" $mbits "${4:-4}"
done
