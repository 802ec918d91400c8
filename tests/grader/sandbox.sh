# sandbox.sh: where what was handed in is unpacked, compiled and run; grade.sh and one.sh read it. TRUST says how:
#
#   contained   in bubblewrap's sandbox: it sees the system's programs and libraries, $BOOK (/book), and one folder of
#               its own (/own); no network, no devices, no other processes. Where root grades, it is another user, and no
#               namespace of users is between: the grader's files stay closed.
#   user        no sandbox; but root has it done by a user who owns nothing
#   own         whoever works here does it
#
# BOOK is a folder with what is needed of the project, for whoever compiles and runs a hand-in: the project itself may be
# closed to him.
# shellcheck shell=sh

THREADS=200 # of all processes together; an exercise of chapter 8 starts five ranks, with a few threads each
FILES=256   # MB in a file; in /tmp and in /dev/shm, which are in memory there
MEMORY=2000 # MB of all processes together where a cgroup counts them; else each may have twice that

# Numbers of users that systemd's list (systemd.io/UIDS-GIDS) leaves to nobody; somebody may have one all the same.
user_nobody_is() {
    user=$((60706 + $$ % 478))
    while getent passwd $user || find /proc -maxdepth 1 -uid $user | grep .; do user=$((60706 + (user - 60705) % 478)); done >/dev/null 2>&1
    echo $user
}

# A new cgroup, version 1 or 2, that counts memory; only root can make one so.
new_cgroup() {
    for limit in memory/memory.limit_in_bytes memory.max; do
        cgroup=$(mktemp -d /sys/fs/cgroup/${limit%memory.*}grade-XXXXXX 2>/dev/null) || continue
        [ -f "$cgroup/cgroup.procs" ] && { echo ${MEMORY}000000 >"$cgroup/${limit##*/}" && sh -c "echo \$\$ >$cgroup/cgroup.procs"; } 2>/dev/null &&
            echo "$cgroup" && return
        rmdir "$cgroup"
    done
    return 1
}
by_systemd="systemd-run --user --scope --quiet --property=MemoryMax=${MEMORY}M --property=MemorySwapMax=0"

# What counts memory here: cgroup, systemd, or nothing.
memory_counter() {
    find /sys/fs/cgroup /sys/fs/cgroup/memory -maxdepth 1 -name 'grade-*' -mmin +60 -exec rmdir {} + 2>/dev/null || : # a killed one's
    if [ "$TRUST" = own ]; then
        :
    elif cgroup=$(new_cgroup); then
        rmdir "$cgroup"
        echo cgroup
    elif $by_systemd true 2>/dev/null; then
        echo systemd
    fi
}

# Fills BOOK: the project's library, its headers, its scripts for this, and of the exercises in WANTED what hand-ins are
# linked with.
make_book() {
    mkdir -p "$BOOK/given" && find common kernels chapters .make tests/grader -type f \( -name '*.h' -o -name may_call -o \
        -name question.md -o -path '.make/*' -o -path 'tests/grader/*' \) -print0 | xargs -0 cp --parents -t "$BOOK" &&
        cp "$BUILD/libbook.a" "$BOOK" &&
        while read -r id title folder; do cp "$PREPARED/$id/given.o" "$BOOK/given/$id.o" || return; done <"$WANTED" &&
        chmod -R u+rwX,go=rX "$BOOK"
}

# How often memory ran out in this container.
times_out_of_memory() { cat /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control 2>/dev/null | sed -n 's/^oom_kill //p'; }

# in_sandbox SECONDS OWN SAID COMMAND [BWRAP'S ARGUMENT..]: a shell does the command, in $BOOK; $OWN is OWN. (Paths are
# absolute.) What it prints comes to the file SAID. 137: it had not ended in time; 125 to 127: it could not begin, which is a fault of
# this machine. It ends when whoever called this ends, or, killed while bwrap begins, in time (the timeout in the sandbox).
in_sandbox() {
    seconds=$1 OWN=$2 said=$3 command=$4 cgroup='' root=''
    shift 4
    [ "$TRUST" = contained ] || set --
    [ "$(id -u)" != 0 ] || root=yes
    # From the last of the arguments to the first: the command, its limits, and in which folder it runs ..
    [ "$TRUST" != contained ] || set -- "$@" --remount-ro / --chdir /book timeout -s KILL "$seconds"
    [ "$TRUST" = own ] || set -- "$@" prlimit --core=0 --nproc=$THREADS --fsize=${FILES}000000
    [ "$TRUST" = own ] || [ -n "$COUNTER" ] || set -- "$@" --as=$((2 * MEMORY))000000
    [ "$TRUST" = own ] || [ -z "$root" ] || set -- "$@" setpriv --reuid="$(user_nobody_is)" --regid=65534 --clear-groups \
        --inh-caps=-all --bounding-set=-all --no-new-privs
    set -- "$@" sh -c "$command"
    [ "$TRUST" != contained ] || {
        # .. what it sees of the system
        for file in alternatives ld.so.cache openmpi mpich passwd group hosts nsswitch.conf; do
            set -- --ro-bind-try "/etc/$file" "/etc/$file" "$@"
        done
        for folder in /bin /sbin /lib /lib32 /lib64; do
            [ -L $folder ] && set -- --symlink "$(readlink $folder)" $folder "$@" || set -- --ro-bind-try $folder $folder "$@"
        done
        case $PWD/ in /usr/*) set -- --tmpfs "$PWD" "$@" ;; *) ;; esac # solutions are here
        set -- --perms 0755 --dir /etc "$@" # (bwrap would make it for root alone)
        for folder in /dev/shm /tmp; do set -- --perms 1777 --size ${FILES}000000 --tmpfs $folder "$@"; done
        [ -z "${OMP_NUM_THREADS-}" ] || set -- --setenv OMP_NUM_THREADS "$OMP_NUM_THREADS" "$@"
        set -- --clearenv --setenv PATH /usr/local/bin:/usr/bin:/bin --setenv HOME /tmp --setenv LC_ALL C.UTF-8 \
            --setenv OWN /own --ro-bind "$BOOK" /book --ro-bind /usr /usr --proc /proc --dev /dev "$@"
        # .. and who does it
        [ -n "$root" ] && set -- --cap-add CAP_SETUID --cap-add CAP_SETGID --cap-add CAP_SETPCAP "$@" || set -- --unshare-user "$@"
        set -- bwrap --die-with-parent --new-session --unshare-ipc --unshare-pid --unshare-net --unshare-uts --unshare-cgroup-try "$@"
    }
    [ "$TRUST" != user ] || set -- env HOME="$OWN" TMPDIR=/tmp "$@" # (the grader's may be closed to another user)
    set -- timeout -s KILL "$seconds" "$@"
    [ "$COUNTER" != systemd ] || set -- $by_systemd "$@"
    [ "$COUNTER" != cgroup ] || cgroup=$(new_cgroup) || { echo "no new cgroup can be made" >"$said" && return 126; }
    # shellcheck disable=SC2016
    [ -z "$cgroup" ] || set -- sh -c 'echo $$ >"$0/cgroup.procs" || exit 126; exec "$@"' "$cgroup" "$@"
    status=0
    # (9: grade.sh's lock)
    (cd "$BOOK" || exit 126; OWN=$OWN LC_ALL=C.UTF-8 LANGUAGE='' exec setpriv --pdeathsig KILL "$@") >"$said" 2>&1 </dev/null 9>&- || status=$?
    [ $status != 1 ] || [ "$TRUST" != contained ] || ! head -n 1 "$said" | grep -q '^bwrap: ' || status=126
    [ -z "$cgroup" ] || rmdir "$cgroup" 2>/dev/null || { sleep 0.2 && rmdir "$cgroup" 2>/dev/null; } || :
    return $status
}
