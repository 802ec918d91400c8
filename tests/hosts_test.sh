#!/bin/sh
# hosts_test.sh BUILD: ranks on two and on four hosts: the same bits, the bytes of the formulas on the links, and the
# end of a job whose host loses its link. The hosts are networks inside this machine: see hosts.sh. Prints TAP.
set -u
. "$(dirname "$0")/tap.sh"
tests_folder=$(cd "$(dirname "$0")" && pwd)
ranks=$build/tests/test_process_group
[ -x "$ranks" ] || { echo "Bail out! $ranks: no such program"; exit 1; }
HOSTS_OWNER=$$ LC_ALL=C
export HOSTS_OWNER LC_ALL
hosts() { sh "$tests_folder/hosts.sh" "$@"; }
trap 'hosts down; rm -rf "$work"' EXIT

why=
hosts can >"$work/can" 2>&1 || why=$(sed -n 's/.*error: //p' "$work/can")
case $(mpirun --version 2>/dev/null) in *'Open MPI'*) ;; *) why="hosts.sh knows Open MPI's mpirun only" ;; esac
"$ranks" --case between | grep -q "no MPI" && why="this was built without MPI"
[ -z "$why" ] || skip_all "ranks on several hosts" "$why"

run() { # RANKS PROGRAM ARG..: what is said comes to $work/said
    timeout -k 1 90 sh "$tests_folder/hosts.sh" run "$@" >"$work/said" 2>&1 </dev/null
    status=$?
    [ $status -eq 0 ] || complain "$*: status $status: $(head -n 5 "$work/said")"
}
expect() { grep -q "$1" "$work/said" || complain "nothing says '$1': $(head -n 5 "$work/said")"; }
until_true() { # SECONDS COMMAND..
    tries=$(($1 * 20))
    shift
    while ! "$@"; do
        [ $tries -gt 0 ] || return 1
        sleep 0.05
        tries=$((tries - 1))
    done
}

# ---- sums, and bytes -------------------------------------------------------------------------------------

# What the link of a host has carried is what its ranks sent to others, with packets' headers (3 % and less) and what
# mpirun says to its daemons. Of that, three algorithms' part for N bytes on H hosts of L ranks is by their formulas.
# (That each rank sends what the formula says, to the byte, it has checked itself.)
sent_by_all() { for host in $(seq 0 $(($1 - 1))); do hosts sent "$host"; done; }
bytes_are_on_the_links() { # HOSTS
    sent_by_all "$1" >"$work/before"
    run 4 "$ranks" --case between
    sent_by_all "$1" | paste "$work/before" - | awk -v H="$1" -v N=8000012 '
        FNR == NR { crossed[FNR - 1] = $2 - $1; next }
        / host [0-9]+ sent / { counted[$3] += $5; if ($3 == 0) sent[$1] = $5 }
        END {
            formula["star:"] = (H - 1) * 4 / H * N; formula["ring:"] = 2 * 3 / 4 * N
            formula["hierarchical:"] = 2 * (H - 1) / H * N
            for (way in formula)
                if ((sent[way] - formula[way]) ^ 2 > 64 ^ 2) print "# " way " " sent[way] ", not " formula[way]
            for (h = 0; h < H; h++)
                if (!(counted[h] > 1e6 && crossed[h] >= counted[h] && crossed[h] <= 1.1 * counted[h] + 2e5))
                    print "# host " h ": ranks counted " counted[h] " bytes to others, the link " crossed[h]
        }' - "$work/said" >>"$problems"
}

training="$build/08_many_machines --train --epochs 1 --train-size 1024 --test-size 256 --out $work"
for count in 2 4; do
    hosts up $count 2>"$work/said" || complain "$(cat "$work/said")"
    for case in bits others groups; do
        # shellcheck disable=SC2086
        run 4 "$ranks" --case $case
    done
    verdict "4 ranks on $count hosts: sums are exact, to the bit, also in groups"
    bytes_are_on_the_links $count
    expect "^4 ranks on $count hosts,"
    expect "rank 3 on node$((count - 1)): "
    verdict "$count hosts are seen as such; their links carry what ranks count, and that is the formulas' bytes"

    # shellcheck disable=SC2086
    run 4 $training
    grep "parameters" "$work/said" >"$work/on_hosts"
    # shellcheck disable=SC2086
    sh "$tests_folder/../.make/ranks.sh" 4 $training 2>&1 | grep "parameters" >"$work/here"
    grep -q "parameters [0-9a-f]* on all 4 ranks" "$work/here" || complain "nothing is the same on all ranks"
    diff "$work/on_hosts" "$work/here" >>"$problems"
    verdict "chapter 8 trains on $count hosts: the bits of one host"
done

# ---- a link is cut ---------------------------------------------------------------------------------------

hosts up 2
run 4 "$ranks" --case forever &
job=$!
until_true 20 grep -q 'first step' "$work/said" || complain "the job does not begin"
sleep 0.5
hosts cut 1
began=$(date +%s)
wait $job # (8 s for the ranks, which begin slowly on a busy machine; mpirun waits up to 13 s for a lost host, or crashes and leaves nothing)
seconds=$(($(date +%s) - began))
status=$(sed -n 's/.*forever: status \([0-9]*\):.*/\1/p' "$problems")
: >"$problems"
[ "${status:-0}" -ne 0 ] && [ "${status:-0}" -ne 124 ] || complain "the job ended with status '$status'"
[ $seconds -le 30 ] || complain "the job ended after $seconds seconds"
expect '^test: rank [01]: error: rank [23] on node1 has not reached all_reduce [0-9]* (step [0-9]*)'
verdict "a host's link is cut: the job ends within seconds, and says which rank and host is missing"
until_true 10 sh -c "[ -z \"\$(sh '$tests_folder/hosts.sh' busy)\" ]" || complain "still running: $(hosts busy | tr '\n' ' ')"
for host in 0 1; do hosts on $host sh -c 'find "$TMPDIR" /dev/shm -mindepth 1'; done >>"$problems"
verdict "... and leaves no process and no file, on either side"
hosts mend 1
run 4 "$ranks" --case others
verdict "... and when the link is mended, the next job runs"

# ---- nothing is left -------------------------------------------------------------------------------------

temporary=${TMPDIR:-/tmp}
is_gone() { # PROCESS FOLDER; (nobody may have asked yet how the process has ended: state Z)
    case $(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) in '' | Z*) [ ! -e "$2" ] ;; *) return 1 ;; esac
}
room=$(cat "$temporary/hosts.$$/room")
hosts on 1 tail -f /dev/null &
until_true 5 sh -c "sh '$tests_folder/hosts.sh' busy | grep -q tail" || complain "nothing runs on node1"
hosts down
is_gone "$room" "$temporary/hosts.$$" || complain "process $room or $temporary/hosts.$$ is left"
wait
ip -o link | grep -E ' (node[0-9]+|switch)[@:]' >>"$problems"
verdict "hosts go, with all that runs on them"

echo "1..$tests"
