# chapter_08_ranks.sh: what the tests of chapter 8 share. A test begins with
#
#     name=08_many_machines
#     . "$(dirname "$0")/chapter.sh"
#     . "$(dirname "$0")/chapter_08_ranks.sh"
#
# The program that is run is $mine, with $out in its path: so those that a job leaves behind are known from those of
# others. Everything is written below $out.
start_ranks=$(cd "$(dirname "$0")/.." && pwd)/.make/ranks.sh
mkdir "$out/bin"
mine=$out/bin/$name
ln -s "$program" "$mine"
cd "$out" || exit 1

has_mpi() { command -v mpirun >/dev/null 2>&1 && ldd "$program" | grep -q 'libmpi'; }

# The program as K ranks; K 0: started by hand. A minute is more than most of these take: who hangs ends with status 124.
patience=60
ranks() { # K FLAGS
    k=$1
    shift
    began=$(date +%s)
    case $k in
    0) timeout -k 2 $patience "$mine" --out plots "$@" >log 2>error </dev/null ;;
    *) timeout -k 2 $patience sh "$start_ranks" "$k" "$mine" --out plots "$@" >log 2>error </dev/null ;;
    esac
    status=$?
    took=$(($(date +%s) - began))
    sed "/^$name: no GPU (.*): using CPU devices\$/d" error >without && mv without error
    return $status
}
train() { ranks_of=$1; shift; ranks "$ranks_of" --train $small "$@"; }
checksum() { sed -n 's/.*parameters \([0-9a-f]\{8\}\) on all.*/\1/p' log; }

# Nobody is left: neither running nor stopped.
nobody_left() {
    tries=60
    while pgrep -f "^$mine" >left && [ $tries -gt 0 ]; do
        tries=$((tries - 1))
        sleep 0.05
    done
    [ $tries -gt 0 ] || { echo "left: $(cat left)" >>error; return 1; }
}
# The job ended by itself (nobody had to end it), not with status 0, and said this; nobody is left.
failed_with() { # TEXT
    [ "$status" -ne 0 ] && [ $took -lt 30 ] && grep -q -e "error: .*$1" error && grep -q '^hint: ' error &&
        nobody_left
}
