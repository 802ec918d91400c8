# chapter_08_ranks.sh: what the tests of ranks share (chapters 8 and 10); a test reads it after chapter.sh. The program that is run is
# $mine, with $out in its path: so those that a job leaves behind are known from those of others.
mkdir "$out/bin"
mine=$out/bin/$name start_ranks=$root/.make/ranks.sh
ln -s "$program" "$mine"
small_data_set 512 50

has_mpi() { command -v mpirun >/dev/null 2>&1 && ldd "$program" | grep -q 'libmpi'; }

# The program as K ranks; K 0: started by hand. A minute is more than most of these take: who hangs ends with status 124.
ranks() { # K FLAGS
    command="$*"
    k=$1
    shift
    began=$(date +%s)
    case $k in
    0) timeout -k 2 60 "$mine" "$@" >log 2>all_errors </dev/null ;;
    *) timeout -k 2 60 sh "$start_ranks" "$k" "$mine" "$@" >log 2>all_errors </dev/null ;;
    esac
    status=$?
    took=$(($(date +%s) - began))
    without_remarks <all_errors >error
    return $status
}
train() { # K FLAGS
    ranks_of=$1
    shift
    ranks "$ranks_of" --train $small "$@"
}
run() { train 0 "$@"; }
trains() { # K FLAGS: it ends well
    train "$@"
    good
}
checksum() { sed -n 's/.*parameters \([0-9a-f]\{8\}\) on all.*/\1/p' log; }
same_bits() { # CHECKSUM: of the last training
    [ "$1" ] && [ "$(checksum)" = "$1" ] || complain "parameters '$(checksum)', not '$1'"
}

# Nobody is left: neither running nor stopped.
nobody_left() {
    tries=60
    while pgrep -f "^$mine" >left && [ $tries -gt 0 ]; do
        tries=$((tries - 1))
        sleep 0.05
    done
    [ $tries -gt 0 ] || complain "left: $(cat left)"
}
# The job ended by itself (nobody had to end it), not with status 0, and said this; nobody is left. Said TIMES times, if
# that is given.
failed_with() { # TEXT [TIMES]
    [ "$status" -ne 0 ] && [ $took -lt 30 ] || complain "status $status after $took s"
    grep -q -e "error: .*$1" error && grep -q '^hint: ' error || complain "no error '$1', or no hint"
    [ $# = 1 ] || [ "$(grep -c 'error: ' error)" -eq "$2" ] || complain "not $2 errors"
    nobody_left
}
