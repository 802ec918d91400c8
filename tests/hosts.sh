#!/bin/sh
# hosts.sh: several hosts on this one machine, to try out what ranks on many machines do.
#
#     sh tests/hosts.sh up 4                 makes node0 .. node3; each has a link to a switch
#     sh tests/hosts.sh run 8 PROGRAM ARG..  by mpirun on node0: 2 ranks on each
#     sh tests/hosts.sh on 1 COMMAND..       runs it on node1
#     sh tests/hosts.sh sent 1               bytes that have come out of node1's link since it was made
#     sh tests/hosts.sh cut 1                takes node1's link down; mend 1 takes it up again
#     sh tests/hosts.sh busy                 lists what is running on any of them
#     sh tests/hosts.sh down                 removes all
#     sh tests/hosts.sh can                  whether this machine lets us do that; says what is missing
#
# A host is a set of Linux namespaces: network, name, shared memory and temporary files. All hosts share other files. They
# are in a room, one more set, with processes of its own and the switch. When the room's first process is killed, the kernel
# ends all processes in it and removes all networks, so nothing can be left. This takes root, or a system that lets everybody
# be root in namespaces; ip (Debian: iproute2). The hosts end with the shell that made them (or with $HOSTS_OWNER).
set -eu
self=$(cd "$(dirname "$0")" && pwd)/hosts.sh
owner=${HOSTS_OWNER:-$PPID}
state=${HOSTS_STATE:-${TMPDIR:-/tmp}/hosts.$owner} # (what is started in the room gets it by name)

fail() { # ERROR HINT
    printf 'hosts.sh: error: %s\nhint: %s\n' "$1" "$2" >&2
    exit 1
}

is_alive() { # PROCESS
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    case ${stat##*) } in [ZX]*) return 1 ;; esac
}

spaces="--net --uts --ipc --mount"
if [ "$(id -u)" = 0 ]; then become="" stay=""; else become=--map-root-user stay="--user --preserve-credentials"; fi

# ---- in the room -----------------------------------------------------------------------------------------

without_ipv6() { [ ! -e /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; }

# On a host, until it is gone.
host() { # NAME
    hostname "$1"
    without_ipv6
    echo 5 >/proc/sys/net/ipv4/tcp_retries2 # 13 s; with Linux' 15, mpirun may wait 15 minutes for a lost host
    ip link set lo up
    mount -t tmpfs tmpfs "$state/tmp"
    mount -t tmpfs tmpfs /dev/shm
    : >"$state/$1.stands"
    exec sleep infinity
}

# A cable from the switch to the host of this process.
plug_in() { # NAME PROCESS ADDRESS
    ip link add "$1" type veth peer name eth0 netns "$2"
    ip link set "$1" master switch up
    nsenter -t "$2" --net sh -euc 'ip addr add "$1/24" dev eth0 && ip link set eth0 up' sh "$3"
}

room() { # HOSTS
    read -r process rest </proc/self/stat # its number outside, where this /proc is from
    echo "$process" >"$state/room"
    mount -t proc proc /proc
    without_ipv6
    # Addresses that are set aside for examples: no machine has them.
    { echo 127.0.0.1 localhost; for i in $(seq 0 $(($1 - 1))); do echo "192.0.2.$((i + 1)) node$i"; done; } >"$state/hosts"
    mount --bind "$state/hosts" /etc/hosts
    ip link add switch type bridge
    ip link set switch up
    for i in $(seq 0 $(($1 - 1))); do
        unshare $spaces sh "$self" host "node$i" &
        echo $! >"$state/node$i"
        until [ -e "$state/node$i.stands" ]; do
            is_alive $! # else it has failed, and so does this
            sleep 0.02
        done
        plug_in "node$i" $! "192.0.2.$((i + 1))"
    done
    : >"$state/stands"
    exec env --ignore-signal=CHLD sleep infinity # those that nobody waits for are this one's, and vanish
}

# What mpirun calls instead of ssh; like there the environment is a fresh one.
log_in() { # NODE COMMAND..
    node=$1
    shift
    on_host / "$node" env -i PATH="$PATH" HOME="${HOME:-/}" TMPDIR="$state/tmp" sh -c "$*"
}

on_host() { # FOLDER NODE COMMAND..
    folder=$1 process=$(cat "$state/$2")
    shift 2
    TMPDIR=$state/tmp exec nsenter -t "$process" $spaces sh -c 'cd "$1" && shift && exec "$@"' sh "$folder" "$@"
}

# The first processes of room and hosts sleep; everything else is at work.
list_busy() {
    for process in /proc/[0-9]*; do
        { read -r name <"$process/comm"; } 2>/dev/null || continue # it has just ended
        [ "$process" = "/proc/$$" ] || [ "$name" = sleep ] || echo "$name"
    done
}

# ---- outside ---------------------------------------------------------------------------------------------

in_room() { # COMMAND..
    [ -s "$state/room" ] || fail "there are no hosts of process $owner" "sh tests/hosts.sh up 2"
    HOSTS_STATE=$state exec nsenter -t "$(cat "$state/room")" $stay --pid $spaces "$@"
}

# Holds the room, until its owner is gone or it is told to end.
guard() { # HOSTS
    holder=
    # (Its holder ends when all that was in the room has ended.)
    trap 'kill -9 "$(cat "$state/room")" || kill -9 $holder; wait; rm -rf "$state"' EXIT
    trap 'exit 1' HUP INT TERM
    echo $$ >"$state/guard"
    HOSTS_STATE=$state setpriv --pdeathsig KILL \
        unshare $become --pid --fork --kill-child $spaces sh "$self" room "$@" &
    holder=$!
    while is_alive "$owner" && is_alive $holder; do sleep 0.2; done
}

up() { # HOSTS
    down
    mkdir -m 700 "$state"
    mkdir "$state/tmp"
    echo "$1" >"$state/count"
    HOSTS_OWNER=$owner setsid sh "$self" guard "$1" >"$state.log" 2>&1 </dev/null &
    while [ ! -e "$state/stands" ] && is_alive $!; do sleep 0.05; done
    said=$(cat "$state.log")
    rm -f "$state.log"
    [ -e "$state/stands" ] || fail "the hosts do not stand: ${said:-nothing was said}" "sh tests/hosts.sh can"
}

down() {
    [ -d "$state" ] || return 0
    [ -O "$state" ] || fail "$state is not ours" "set TMPDIR to another folder"
    guard=$(cat "$state/guard")
    kill "$guard" 2>/dev/null || :
    while is_alive "$guard"; do sleep 0.05; done
    rm -rf "$state" # it has done that, unless it was killed
}

# No MPI here has another way to its hosts; in the room Open MPI would find it by itself, but for these.
run() { # RANKS PROGRAM ARG..
    hosts=$(cat "$state/count")
    for i in $(seq 0 $((hosts - 1))); do echo "node$i slots=$((($1 + hosts - 1) / hosts))"; done >"$state/hostfile"
    export OMPI_MCA_orte_default_hostfile="$state/hostfile" OMPI_MCA_plm_rsh_agent="sh $self log_in"
    export PRTE_MCA_prte_default_hostfile="$state/hostfile" PRTE_MCA_plm_ssh_agent="sh $self log_in"
    in_room sh "$self" on_host "$PWD" node0 sh "$(dirname "$self")/../.make/ranks.sh" "$@"
}

# (The hosts also forget whom they could not reach.)
mend() { # HOST
    (in_room ip link set "node$1" up)
    for i in $(seq 0 $(($(cat "$state/count") - 1))); do
        (in_room sh "$self" on_host / "node$i" ip neigh flush all)
    done
}

can() {
    for tool in ip unshare nsenter setpriv setsid; do
        command -v $tool >/dev/null 2>&1 || fail "there is no $tool" "apt-get install iproute2 util-linux"
    done
    command -v mpirun >/dev/null 2>&1 || fail "there is no mpirun" "make setup"
    unshare $become --pid --fork --kill-child $spaces sh -euc 'mount -t proc proc /proc
        mount -t tmpfs tmpfs /dev/shm
        ip link add switch type bridge
        ip link add cable type veth peer name end' 2>/dev/null ||
        fail "this machine does not let us make networks of our own" "as root, or in a container that is --privileged"
}

case ${1:-} in
up) up "${2:?hosts}" ;;
run) shift && run "$@" ;;
on) folder=$PWD node=node${2:?host} && shift 2 && in_room sh "$self" on_host "$folder" "$node" "$@" ;;
sent) # /proc/net/dev: "NAME: BYTES.. received"; the switch receives what the host sends
    in_room awk -v port="node${2:?host}:" '$1 == port { print $2 }' /proc/net/dev ;;
cut) in_room ip link set "node${2:?host}" down ;;
mend) mend "${2:?host}" ;;
busy) in_room sh "$self" list_busy ;;
down | can) "$1" ;;
guard | room | host | log_in | on_host | list_busy) "$@" ;; # by itself
*) sed -n 's/^#     //p' "$self" >&2; exit 2 ;;
esac
