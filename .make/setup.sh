#!/bin/sh
# setup.sh: installs what probe.sh finds missing, with apt. Does nothing, and needs no network, when
# nothing is missing; nor does it need one where .packages/ has what was brought along for this system (make lab-kit
# OFFLINE=1). With --system it prints which system that is.
set -u
export LC_ALL=C
here=$(dirname "$0")
system() { (. /etc/os-release && echo "$ID ${VERSION_ID:-$VERSION_CODENAME} $(dpkg --print-architecture)"); }
if [ "${1:-}" = --system ]; then
    system
    exit
fi
began=$(date +%s)
missing() { sh "$here/probe.sh" --packages | sort -u | tr '\n' ' '; }
# The book is made with WebAssembly where that can be had: if something fails it is set up without. (FOR=wasm insists.)
refuse() { # ERROR HINT
    case " ${FOR:-} " in
    *' no-wasm '* | *' wasm '*) ;;
    *' book '*)
        all=$(missing) FOR="$FOR no-wasm"
        export FOR
        if [ "$all" != "$(missing)" ]; then
            echo "setup: $1"
            echo "setup: going on without WebAssembly, so no program will run in the book's pages; make setup wasm tries again"
            rm -rf "${work:-}"
            exec sh "$here/setup.sh"
        fi
        ;;
    esac
    echo "setup: error: $1" >&2
    echo "hint: $2" >&2
    exit 1
}

packages=$(missing)
command -v make >/dev/null 2>&1 || packages="${packages% } make" # whoever starts this by hand may have none
packages=${packages% }
if [ -z "$packages" ]; then
    echo "setup: everything is there"
    exit 0
fi
# Where nothing can be installed: an error only if what is asked for cannot be made without.
cannot() { # WHY HINT
    required=$(sh "$here/probe.sh" --required | sort -u | tr '\n' ' ')
    optional=$(printf '%s\n' $packages | grep -vxF "$(printf '%s\n' $required)" | tr '\n' ' ')
    FOR="${FOR:-} no-wasm"
    [ -z "${required% }" ] ||
        refuse "$1; missing: ${required% }${optional:+; not needed for this: ${optional% }}" "$2; then the same make again"
    echo "setup: $1; missing, and not needed for this: ${optional% }"
    exit 0
}
command -v apt-get >/dev/null 2>&1 ||
    cannot "no apt-get" "install what these Debian packages hold with your system's own tools"
as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || cannot "not root, and no sudo" "as root: apt-get update && apt-get install $packages"
    as_root="sudo "
fi

# ---- apt, and what it says -----------------------------------------------------------------------

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# English, because what went wrong is told from it; sudo asks for a password on the terminal. ($sources says where
# packages come from, if not from where the system has them from.)
sources=
apt_get() { env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -q $sources "$@" </dev/null; }
# Status lines go to file 3, which sudo would close. (Were they sent to 1, dpkg's scripts would find that closed.)
apt_get_as_root() {
    ${as_root}env LC_ALL=C DEBIAN_FRONTEND=noninteractive \
        sh -c 'exec apt-get -q -o APT::Status-Fd=3 "$@" 3>&1' sh $sources "$@" </dev/null
}

# Keeps apt's lines in FILE, and makes of its status lines, "dlstatus:3:45.2:.." while it downloads and
# "pmstatus:libc6:45.2:.." while it installs, a line of ours now and then.
follow() { # FILE
    last=$(date +%s) tens= doing=
    while IFS= read -r line; do
        case $line in
        dlstatus:*) now_doing=downloaded ;;
        pmstatus:*) now_doing=installed ;;
        pmerror:* | pmconffile:*) continue ;; # comes in words, too
        *)
            printf '%s\n' "$line" >>"$1"
            continue
            ;;
        esac
        percent=${line#*:*:}
        percent=${percent%%[!0-9]*}
        if [ $now_doing != "$doing" ]; then
            [ $now_doing = installed ] && echo "setup: unpacking and installing $new"
            doing=$now_doing tens=${percent%?}
        elif [ "${percent%?}" != "$tens" ]; then
            tens=${percent%?} now=$(date +%s)
            if [ $((now - last)) -ge 5 ]; then
                last=$now
                echo "setup:   $percent% $doing"
            fi
        fi
    done
}

# Runs apt-get with these arguments, says in FILE what it said, and waits for another apt to end.
run() { # FILE ARGUMENT...
    log=$1 waited=0
    shift
    while :; do
        : >"$log"
        { { apt_get_as_root "$@" 2>&1; echo $? >"$work/status"; } | follow "$log"; }
        [ "$(cat "$work/status")" = 0 ] && return 0
        grep -q 'Could not get lock' "$log" && [ $waited -lt 600 ] || return 1
        [ $waited = 0 ] && echo "setup: waiting for another apt to end$(
            sed -n 's/.*\(held by process [^.]*\).*/ (the lock is \1)/p' "$log" | head -n 1)"
        waited=$((waited + 5))
        sleep 5
    done
}

# What went wrong, in a word, from what apt said.
cause_in() { # FILE
    while read -r word pattern; do
        grep -qiE "$pattern" "$1" && echo "$word" && return
    done <<'CAUSES'
locked Could not get lock
interrupted dpkg was interrupted|dpkg --configure -a
full No space left on device|enough free space
clock not valid yet|Release file .* expired|invalid since
network Could not resolve|Temporary failure|Could not connect|Unable to connect|unreachable|Connection (timed out|refused|failed)|Cannot initiate
sources does not have a Release file|is not signed|NO_PUBKEY|no longer has a Release file|Malformed
stale 404 +Not Found|Hash Sum mismatch|unexpected size|not be authenticated
unknown Unable to locate package|no installation candidate
conflict unmet dependencies|held broken packages|conflicting
CAUSES
}

# What sudo refuses never comes to apt, which begins by saying what it reads.
refused_by_sudo() { # FILE
    [ -n "$as_root" ] && ! grep -qE '^(Hit|Get|Ign|Err|Fetched|Reading|Building|E|W|N)[: ]' "$1"
}

# Says what went wrong and what to do about it.
fail() { # FILE ERROR
    cause=$(cause_in "$1")
    case $cause in
    '' | unknown | stale) # perhaps because the lists of packages could not be brought up to date
        earlier=
        [ -f "$work/update" ] && [ "$1" != "$work/update" ] && earlier=$(cause_in "$work/update")
        [ -n "$earlier" ] && cause=$earlier && grep -E '^(E|W|Err)' "$work/update" | tail -n 5 >&2
        ;;
    esac
    tail -n 10 "$1" >&2
    case $cause in
    locked) hint="another apt has been at work on this machine for ten minutes: when it has ended, make setup again" ;;
    interrupted) hint="an installation was cut off: ${as_root}dpkg --configure -a, then make setup again" ;;
    full) hint="the disk is full (df -h / /var shows it${room:+; $room are needed}); ${as_root}apt-get clean frees what apt keeps" ;;
    clock) hint="apt takes its lists for too old or too new: is the clock of this machine right? date shows it" ;;
    network) hint="is there a network? Behind a proxy, apt wants Acquire::http::Proxy in a file in /etc/apt/apt.conf.d" ;;
    sources) hint="apt-get update must end without an error: mend or remove that line in /etc/apt/sources.list or sources.list.d" ;;
    stale) hint="apt's lists do not fit what the server has: ${as_root}apt-get update, then make setup again; a server that is being renewed needs an hour" ;;
    unknown) hint="this release has no such package. On Ubuntu it may be in 'universe': ${as_root}add-apt-repository universe. Another compiler: make CC=gcc setup" ;;
    conflict) hint="packages of this machine stand in the way: ${as_root}apt-get -f install may mend that; ${as_root}apt-get install $packages says more" ;;
    *) hint="above is what apt-get said; ${as_root}apt-get update && ${as_root}apt-get install $packages says all of it" ;;
    esac
    refuse "$2" "$hint"
}

# ---- what is to be done, and doing it ------------------------------------------------------------

room= new=
echo "setup: missing: $packages"

# What was brought along, if it is for this system and all of it is there: then apt is told of nothing else.
brought=$(cd "$here/.." && pwd)/.packages
use_brought() {
    if [ "$(cat "$brought/for")" != "$(system)" ]; then
        echo "setup: the packages that were brought along are for $(cat "$brought/for"), and this is $(system)"
        return
    fi
    mkdir -p "$work/lists/partial"
    echo "deb [trusted=yes] file:$(echo "$brought" | sed 's/ /%20/g') ./" >"$work/brought.list"
    sources="-o Dir::Etc::SourceList=$work/brought.list -o Dir::Etc::SourceParts=/dev/null"
    sources="$sources -o Dir::State::Lists=$work/lists -o APT::Sandbox::User=root"
    if run "$work/update" update && apt_get install -s -y --no-install-recommends $packages >"$work/plan" 2>&1; then
        echo "setup: with the packages that were brought along, without a network"
    else
        echo "setup: what was brought along is not enough for this system"
        sources=
    fi
}
[ ! -f "$brought/Packages" ] || use_brought
[ -n "$sources" ] || echo "setup: asking for apt's lists of packages (apt-get update; seconds, on a slow network minutes)"
# An error here may be that of a source of which nothing is needed: whether apt can install decides.
if [ -z "$sources" ] && ! run "$work/update" update && refused_by_sudo "$work/update"; then
    tail -n 5 "$work/update" >&2
    who="ask whoever administers this machine for"
    grep -q 'password is required' "$work/update" && who="in a terminal sudo can ask for your password; or, as root"
    cannot "sudo did not let apt-get install" "$who: apt-get update && apt-get install $packages"
fi

apt_get install -s -y --no-install-recommends $packages >"$work/plan" 2>&1 ||
    fail "$work/plan" "apt-get could not install: $packages"
# Another version of clang's OpenMP has to go, as there can be one only. Nothing else is removed.
removed=$(sed -n 's/^Remv \([^ ]*\).*/\1/p' "$work/plan" | tr '\n' ' ')
for package in $removed; do
    case $package in
    libomp*) ;;
    *) refuse "to install $packages, apt would remove: ${removed% }" \
        "nothing was changed; if you agree with it: ${as_root}apt-get install $packages" ;;
    esac
done
apt_get install --print-uris -y --no-install-recommends $packages >"$work/uris" 2>&1
new=$(grep -c '^Inst ' "$work/plan")
[ "$new" = 1 ] && new="1 package" || new="$new packages"
room=$(sed -n 's/^After this operation, \([0-9.,]* [kMG]\{0,1\}B\) of additional.*/\1/p' "$work/uris")
# A full setup on two cores and Debian 12, with MPI: 162 MB, 564 MB on the disk, 30 seconds with a mirror near by.
sed -n "s/^'.*' [^ ]* \([0-9][0-9]*\) .*/\1/p" "$work/uris" | awk -v room="$room" '
{ bytes += $1 }
END {
    split(room, on_disk, " ")
    gsub(",", "", on_disk[1])
    megabytes = on_disk[1] * (on_disk[2] == "GB" ? 1000 : on_disk[2] == "MB" ? 1 : 0)
    seconds = bytes / 5e6 + megabytes / 10
    printf "%.0f MB %s\n", bytes / 1e6 + (bytes > 0 && bytes < 5e5), seconds < 40 ? "less than a minute" : \
        seconds < 80 ? "about a minute" : sprintf("about %d minutes", (seconds + 40) / 60)
}' >"$work/figures"
read -r megabytes unit duration <"$work/figures"
echo "setup: downloading $megabytes $unit, then installing $new${room:+ ($room on the disk)}:" \
    "$duration with a network of 5 MB a second"
[ -n "$removed" ] && echo "setup: this removes ${removed% }: there can be one version only"

run "$work/install" install -y --no-install-recommends $packages ||
    fail "$work/install" "apt-get could not install: $packages"
packages=$(missing)
[ -n "${packages% }" ] && refuse "installed, but still not usable: ${packages% }" \
    "sh .make/probe.sh shows what was tried; make CC=gcc setup tries another compiler"
seconds=$(($(date +%s) - began))
echo "setup: done, after $((seconds / 60)) min $((seconds % 60)) sec"
