#!/bin/sh
# ranks.sh K PROGRAM ARGUMENT...: starts a program as K ranks on this machine, by mpirun. More ranks than cores are
# all right, and so is root in a container: Open MPI wants both to be said. It is not told to bind ranks to cores
# either: the ranks divide those that they find. (All of it as variables, which other MPIs do not mind; those of PRTE
# are Open MPI 5's.)
set -eu
command -v mpirun >/dev/null 2>&1 || {
    echo "ranks.sh: error: there is no mpirun to start $1 ranks" >&2
    echo "hint: make setup installs MPI; without it a program is one rank" >&2
    exit 1
}
# Open MPI 4 has room for 56 letters of a host's name before the first digit, and writes on.
letters=$(uname -n | sed 's/[0-9.].*//')
if [ ${#letters} -gt 56 ] && mpirun --version 2>/dev/null | grep -q 'Open MPI) [1-4]\.'; then
    echo "ranks.sh: error: Open MPI 4 cannot start where the host's name is so long: $(uname -n)" >&2
    echo "hint: as root: hostname SHORTER; or in a container: docker run --hostname SHORTER" >&2
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
export HWLOC_HIDE_ERRORS="${HWLOC_HIDE_ERRORS:-2}" # without /sys it says so in every process
[ ! -t 2 ] || export BOOK_TERMINAL=1 # of which ranks have a pipe to mpirun; for progress.c
k=$1
shift
case $k in
'' | *[!0-9]* | 0*)
    echo "ranks.sh: error: not a number of ranks: '$k'" >&2
    echo "hint: a whole number, 1 or more" >&2
    exit 2
    ;;
esac
exec mpirun -np "$k" "$@"
