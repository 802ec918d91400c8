#!/bin/sh
# cli_test.sh BUILD: the program BUILD/04_lenet_multi_gpu from the outside: its flags, what it writes, and
# what it says of bad input. Prints TAP. Needs nothing but a POSIX shell and the coreutils; the data sets,
# 64 images of ten simple patterns, and the parameter files are made here.
set -u
build=$(cd "${1:?usage: cli_test.sh BUILD}" && pwd) || exit 1
name=04_lenet_multi_gpu
program=$build/$name
[ -x "$program" ] || { echo "Bail out! $program: no such program"; exit 1; }

unset FASHION_MNIST_DIR DISPLAY WAYLAND_DISPLAY
LC_ALL=C
export LC_ALL
timeout=$(command -v timeout)

work=$(mktemp -d) || exit 1
running=
trap '[ -n "$running" ] && kill -9 $running 2>/dev/null; chmod -R u+w "$work"; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
out=$work/stdout err=$work/stderr all_err=$work/all_stderr problems=$work/problems
. "$(dirname "$0")/tap.sh"

# ---- a test: fresh, run, expect_.., and last verdict NAME -----------------------------------------------

folders=0 here=$work command=
fresh() { # an empty folder to run in
    folders=$((folders + 1)) here=$work/run$folders
    mkdir "$here"
}

# run WORDS..: the program in $here. Leaves $status, $out, $err. The line that a program built with CUDA
# says on a machine without a GPU is taken out of $err; $all_err has it.
limit=60 search_path=$PATH
run() {
    command="$name $*"
    (cd "$here" && PATH=$search_path exec "$timeout" -k 2 "$limit" "$program" "$@") >"$out" 2>"$all_err" </dev/null
    status=$?
    without_gpu_line
}
without_gpu_line() { sed "/^$name: no GPU (.*): using CPU devices\$/d" "$all_err" >"$err"; }

show() { sed "s/^/#     /; 12q" "$1" >>"$problems"; }

expect_status() {
    [ "$status" -eq "$1" ] && return
    complain "expected status $1, came $status; stderr:"
    show "$err"
}

# STATUS [WORDS]: ended with two lines, "NAME: error: .." (with these words) and "hint: ..".
expect_error() {
    expect_status "$1"
    if [ "$(wc -l <"$err")" -ne 2 ] || ! sed -n 1p "$err" | grep -q "^$name: error: ." || ! sed -n 2p "$err" | grep -q '^hint: .'; then
        complain "expected two lines on stderr, '$name: error: ..' and 'hint: ..'; came:"
        show "$err"
    elif [ $# -gt 1 ] && ! sed -n 1p "$err" | grep -q -e "$2"; then
        complain "expected an error that has '$2', came:"
        show "$err"
    fi
}

# The same before anything was done: nothing on stdout, no file.
expect_refusal() {
    expect_error "$@"
    expect_empty stdout "$out"
    (cd "$here" && find . -newer "$work/started" -type f) >"$work/files"
    expect_empty "list of new files" "$work/files"
}

expect_empty() { # WHAT FILE
    [ -s "$2" ] || return
    complain "expected nothing ($1), came:"
    show "$2"
}

# A good run: status 0, and nothing on stderr.
expect_good() {
    expect_status 0
    expect_empty stderr "$err"
}

expect_line() { # FILE REGEX
    grep -q -e "$2" "$1" 2>/dev/null && return
    complain "expected in $(basename "$1") a line with '$2', came:"
    show "$1"
}

expect_same() { # FILE FILE: the same bytes
    cmp -s "$1" "$2" || complain "expected the same bytes in $(basename "$1") and $(basename "$2"): $(cmp "$1" "$2" 2>&1)"
}
expect_different() {
    { [ -s "$1" ] && [ -s "$2" ]; } || complain "expected two files: $1 $2"
    if cmp -s "$1" "$2"; then complain "expected different bytes in $(basename "$1") and $(basename "$2")"; fi
}

hex() { od -An -v -tx1 | tr -d ' \n'; }
expect_png() {
    if [ ! -s "$1" ]; then
        complain "expected a PNG, there is no $1"
    elif [ "$(head -c 8 "$1" | hex)" != 89504e470d0a1a0a ] || [ "$(tail -c 8 "$1" | hex)" != 49454e44ae426082 ]; then
        complain "expected a whole PNG: $1"
    fi
}

# FILE [REGEX: of the devices and epochs of all rows]: the curves.
expect_curves() {
    if ! awk -F, 'NR == 1 { if ($0 != "devices,epoch,train_loss,test_acc,seconds") exit bad = 1; next }
            NF != 5 { bad = 1 }
            { for (i = 1; i <= 5; i++) if ($i !~ /^[0-9]+([.][0-9]+)?$/) bad = 1 }
            $4 > 1 { bad = 1 }
            END { exit bad || NR < 2 }' "$1" 2>/dev/null || [ "$(tail -c 1 "$1" | hex)" != 0a ]; then
        complain "expected whole rows devices,epoch,train_loss,test_acc,seconds in $(basename "$1"), came:"
        show "$1"
    elif [ $# -gt 1 ]; then
        points=$(sed 1d "$1" | cut -d , -f 1,2 | tr '\n' ' ')
        [ "$points" = "$2 " ] || complain "expected the points (devices,epoch) $2, came $points"
    fi
}

# FILE N: header, and a row for each of N minibatches.
expect_losses() {
    awk -F, -v n="$2" 'NR == 1 { if ($0 != "step,loss") exit bad = 1; next }
            $1 != NR - 1 || $2 !~ /^[0-9]+([.][0-9]+)?(e[-+][0-9]+)?$/ || NF != 2 { bad = 1 }
            END { exit bad || NR != n + 1 }' "$1" 2>/dev/null && return
    complain "expected step,loss and $2 rows in $(basename "$1"), came:"
    show "$1"
}

# FILE FILE: the same steps, losses within 1e-4; and they move, so that this says something.
expect_close() {
    paste -d , "$1" "$2" | awk -F, 'NR > 1 {
            if ($1 != $3 || NF != 4) bad = 1
            d = $2 - $4; if (d < 0) d = -d; if (!(d <= 1e-4)) bad = 1
            if (NR == 2 || $2 < low) low = $2
            if (NR == 2 || $2 > high) high = $2 }
            END { exit bad || NR < 3 || !(high - low > 0.01) }' && return
    complain "expected losses within 1e-4 (which change by 0.01 at least); step,loss,step,loss:"
    paste -d , "$1" "$2" >"$work/pairs"
    show "$work/pairs"
}

expect_no_leftovers() {
    find "$here" -name '*.tmp.*' >"$work/left"
    expect_empty "temporary files" "$work/left"
}

# ---- data sets and parameters, byte by byte --------------------------------------------------------------

byte() { printf "\\$(printf %03o "$1")"; }
big_endian() { byte $(($1 >> 24 & 255)); byte $(($1 >> 16 & 255)); byte $(($1 >> 8 & 255)); byte $(($1 & 255)); }
little_endian() { for shift in 0 8 16 24 32 40 48 56; do byte $(($1 >> shift & 255)); done; }
bytes() { head -c "$1" /dev/zero | tr '\0' "\\$2"; } # COUNT OCTAL
images_header() { big_endian $((0x803)); big_endian "$1"; big_endian "${2:-28}"; big_endian 28; }
labels_header() { big_endian $((0x801)); big_endian "$1"; }

train_images=train-images-idx3-ubyte train_labels=train-labels-idx1-ubyte
test_images=t10k-images-idx3-ubyte test_labels=t10k-labels-idx1-ubyte

make_data() {
    for class in 0 1 2 3 4 5 6 7 8 9; do # a bright bar on gray; place and gray belong to the class
        { bytes $((class * 64)) 020; bytes 112 "$((class % 4))77"; bytes $((672 - class * 64)) 010; } >"$work/class$class"
    done
    for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31; do
        for class in $((i * 7 % 10)) $((i * i % 10)); do
            cat "$work/class$class" >>"$work/images"
            byte $class >>"$work/labels"
        done
    done
    data=$work/data
    mkdir "$data"
    { images_header 64; cat "$work/images"; } | tee "$data/$train_images" >"$data/$test_images"
    { labels_header 64; cat "$work/labels"; } | tee "$data/$train_labels" >"$data/$test_labels"
}
make_data

# safetensors HEADER BYTES: a file with that many bytes of zeros.
safetensors() {
    little_endian ${#1}
    printf %s "$1"
    head -c "$2" /dev/zero
}
good_header='{"W1":{"dtype":"F32","shape":[20,1,3,3],"data_offsets":[0,720]},"b1":{"dtype":"F32","shape":[20],"data_offsets":[720,800]},"W2":{"dtype":"F32","shape":[50,20,5,5],"data_offsets":[800,100800]},"b2":{"dtype":"F32","shape":[50],"data_offsets":[100800,101000]},"W3":{"dtype":"F32","shape":[800,128],"data_offsets":[101000,510600]},"b3":{"dtype":"F32","shape":[128],"data_offsets":[510600,511112]},"W4":{"dtype":"F32","shape":[128,10],"data_offsets":[511112,516232]},"b4":{"dtype":"F32","shape":[10],"data_offsets":[516232,516272]}}'
data_bytes=516272

: >"$work/started"
fresh
run --devices 1 --steps 0 --data "$data"
cp "$all_err" "$work/first_stderr"
gpu=no
if (cd "$here" && "$timeout" 60 "$program" --backend cuda --devices 1 --steps 0 --data "$data") >/dev/null 2>"$work/cuda_stderr"; then gpu=yes; fi
gnuplot=no
if command -v gnuplot >/dev/null 2>&1; then gnuplot=yes; fi

# What most runs share. With a GPU they compute on CPU devices too, which start faster; the invariants are
# then tested on both.
backend=cpu
train() { run --backend "$backend" --data "$data" --batch-size 16 --lr 1 "$@"; }

# ---- flags -----------------------------------------------------------------------------------------------

fresh
run --help
expect_good
for flag in devices backend threads threads-per-device machine batch-size lr epochs seed train-size steps no-shuffle data load save log-loss csv out trace timeline live; do
    expect_line "$out" "^ *--$flag .*\[..*\]\$"
done
for default in 'batch-size.*\[256\]' 'lr.*\[0.2\]' 'epochs.*\[10\]' 'out.*\[plots\]' 'backend.*\[auto\]'; do expect_line "$out" "--$default"; done
[ -z "$(ls -A "$here")" ] || complain "expected no file"
verdict "--help lists every flag with its default"

wrong_flags() { # WORDS..: refused with status 2
    fresh
    run "$@"
    expect_refusal 2
    [ -z "$(ls -A "$here")" ] || complain "expected no file, came $(ls -A "$here")"
    verdict "wrong flags:${*:+ }$(printf "'%s' " "$@")"
}
wrong_flags --nonsense
wrong_flags -x
wrong_flags --devices
wrong_flags --out
wrong_flags word
wrong_flags --devices 2 3
wrong_flags --no-shuffle=1
for value in 0 -1 abc 10000 1e3 '' 65 99999999999999999999 2x; do wrong_flags --devices "$value"; done
for value in nan inf -1 abc '' 1e39 0.2x; do wrong_flags --lr "$value"; done
for value in 0 -3 1.5; do wrong_flags --epochs "$value"; done
for flag in batch-size threads train-size; do
    wrong_flags --$flag 0
    wrong_flags --$flag -1
done
wrong_flags --steps -1
for value in -1 abc 18446744073709551616; do wrong_flags --seed "$value"; done
for value in gpu CUDA ''; do wrong_flags --backend "$value"; done
for flag in data load save log-loss csv out trace timeline; do wrong_flags --$flag ''; done
wrong_flags --timeline picture.svg

fresh
run -xy
expect_refusal 2 'flag: -x'
verdict "a wrong flag is named, also among short ones"
for words in '--learning-rate=0.1 lr' '--batchsize batch-size' '--Batch_Size=64 batch-size'; do
    run ${words% *}
    expect_refusal 2 "flag: ${words% *}\$"
    expect_line "$err" "^hint: did you mean --${words#* }?"
    verdict "a flag is suggested: $words"
done

# ---- backends --------------------------------------------------------------------------------------------

command="$name --devices 1 --steps 0"
if [ $gpu = yes ] || ! grep -q . "$work/first_stderr"; then
    cp "$work/first_stderr" "$err"
    expect_empty stderr "$err"
    verdict "a run on the devices that there are says nothing on stderr"
else
    [ "$(wc -l <"$work/first_stderr")" -eq 1 ] || complain "expected one line"
    expect_line "$work/first_stderr" "^$name: no GPU (..*): using CPU devices\$"
    verdict "built with CUDA, without a GPU: falls back to CPU devices and says so in one line"
fi

fresh
run --backend cpu --devices 1 --steps 0 --data "$data"
expect_status 0
expect_empty "all of stderr" "$all_err"
expect_line "$out" 'cpu:0'
verdict "--backend cpu does not speak of GPUs"

fresh
run --backend cpu --devices 1 --steps 0 --tf32 --data "$data"
expect_status 0
expect_line "$all_err" '^04_lenet_multi_gpu: --tf32 changes nothing here'
verdict "--tf32 without a GPU says that it changes nothing"

if [ $gpu = yes ]; then
    skip "--backend cuda without a GPU is refused" "there is a GPU"
else
    fresh
    run --backend cuda --data "$data"
    expect_refusal 1 'no GPU'
    verdict "--backend cuda without a GPU is refused"
fi

# ---- the data set ----------------------------------------------------------------------------------------

zipped=$work/zipped
mkdir "$zipped"
for file in $train_images $train_labels $test_images $test_labels; do gzip -c "$data/$file" >"$zipped/$file.gz"; done

fresh
FASHION_MNIST_DIR=$data
export FASHION_MNIST_DIR
run --backend cpu --devices 1 --steps 3 --batch-size 16 --log-loss plain.csv
expect_good
expect_losses "$here/plain.csv" 3
verdict "unpacked IDX files, found through FASHION_MNIST_DIR"

FASHION_MNIST_DIR=$work/nowhere
run --backend cpu --devices 1 --steps 3 --batch-size 16 --log-loss zipped.csv --data "$zipped"
expect_good
expect_same "$here/plain.csv" "$here/zipped.csv"
verdict "gzipped IDX files; --data wins over FASHION_MNIST_DIR"

fresh
run --backend cpu
expect_refusal 1 "$work/nowhere"
verdict "bad data: FASHION_MNIST_DIR is missing"
unset FASHION_MNIST_DIR

# bad_data NAME WORDS: the data set in $here/bad is refused, soon, with these words in the message. It is
# made there by what comes before.
damage() {
    fresh
    cp -r "$data" "$here/bad"
    cd "$here/bad" || exit 1
}
bad_data() {
    cd "$work" || exit 1
    touch -d '1 hour ago' "$here/bad"/* 2>/dev/null
    limit=10
    run --backend cpu --data bad --csv curves.csv --log-loss losses.csv
    limit=60
    expect_refusal 1 "$2"
    [ -e "$here/plots" ] && complain "expected no folder plots/"
    verdict "bad data: $1"
}

fresh; bad_data "the folder is missing" bad
fresh; : >"$here/bad"; touch -d '1 hour ago' "$here/bad"; bad_data "the folder is a file" bad
for file in $train_images $train_labels $test_images $test_labels; do
    damage; rm $file; bad_data "$file is missing" $file
done
damage; gzip $train_images; head -c 300 $train_images.gz >x; mv x $train_images.gz; bad_data "gz cut off" $train_images
damage; gzip $test_labels; head -c -4 $test_labels.gz >x; mv x $test_labels.gz; bad_data "gz cut off in its last bytes" $test_labels
damage; gzip $train_images; { head -c -8 $train_images.gz; printf 12345678; } >x; mv x $train_images.gz; bad_data "gz with a wrong checksum" $train_images
damage; gzip $train_labels; head -c 5 $train_labels.gz >x; mv x $train_labels.gz; bad_data "gz cut off in its header" $train_labels
damage; : >$train_images; bad_data "an empty file" $train_images
damage; head -c 10 "$data/$train_images" >$train_images; bad_data "the file ends in its header" $train_images
damage; { printf 'hello'; cat "$data/$train_images"; } >$train_images; bad_data "wrong magic" "$train_images.*magic"
damage; cp $train_labels $train_images; bad_data "a label file in the place of images" "$train_images.*magic"
damage; cp $train_images $train_labels; bad_data "an image file in the place of labels" "$train_labels.*magic"
damage; { labels_header 63; head -c 63 "$work/labels"; } >$train_labels; bad_data "counts of images and labels differ" '64.*63'
damage; { labels_header 64; head -c 63 "$work/labels"; byte 10; } >$train_labels; bad_data "a label of 10" "$train_labels.*10"
damage; { labels_header 64; byte 255; head -c 63 "$work/labels"; } >$test_labels; bad_data "a label of 255 (test set)" "$test_labels.*255"
damage; { images_header 65; cat "$work/images"; } >$train_images; { labels_header 65; cat "$work/labels"; byte 1; } >$train_labels
bad_data "images that the header claims are not there" "$train_images.*65"
damage; { images_header 65; cat "$work/images"; byte 0; } >$test_images; { labels_header 65; cat "$work/labels"; } >$test_labels
bad_data "a label that the header claims is not there (test set)" "$test_labels.*65"
for count in 2147483647 4294967295; do
    damage; { images_header $count; cat "$work/images"; } >$train_images; { labels_header $count; cat "$work/labels"; } >$train_labels
    bad_data "the header claims $count items" "$count"
done
damage; { images_header 64 29; cat "$work/images"; } >$train_images; bad_data "images of 29 x 28" 29
damage; { images_header 64 1000000; cat "$work/images"; } >$train_images; bad_data "images of 1000000 x 28" 1000000
damage; images_header 0 >$train_images; labels_header 0 >$train_labels; bad_data "no images" "$train_images"
damage; printf x >>$train_images; bad_data "the file goes on after what the header claims" "$train_images"
damage; rm $train_images; mkdir $train_images.gz; bad_data "a folder in the place of a file" "$train_images"

fresh
train --train-size 65
expect_refusal 1 65
verdict "--train-size larger than the data set is refused"

fresh
cp -r "$data" "$here/five"
{ images_header 5; head -c $((5 * 784)) "$work/images"; } >"$here/five/$test_images"
{ labels_header 5; head -c 5 "$work/labels"; } >"$here/five/$test_labels"
run --backend cpu --devices 1 --steps 1 --data five
expect_good
expect_png "$here/plots/${name}_predictions.png"
verdict "a test set smaller than the picture of predictions"

# ---- --load and --save -----------------------------------------------------------------------------------

fresh
safetensors "$good_header" $data_bytes >"$here/zeros"
zeros=$here/zeros
train --devices 1 --steps 0 --load zeros --save again
expect_good
[ "$(tail -c $data_bytes "$here/again" 2>/dev/null | tr -d '\0' | wc -c)" -eq 0 ] || complain "expected zeros in what was saved"
verdict "--load takes a file that another program wrote"

bad_load() { # NAME WORDS: $here/bad is refused
    [ -e "$here/bad" ] && touch -d '1 hour ago' "$here/bad"
    limit=10
    train --load bad --csv curves.csv --save saved
    limit=60
    expect_refusal 1 "bad.*$2"
    verdict "--load: $1"
}
bad_header() { # NAME WORDS SED-EXPRESSION
    fresh
    safetensors "$(printf %s "$good_header" | sed "$3")" $data_bytes >"$here/bad"
    cmp -s "$here/bad" "$zeros" && complain "the test itself is wrong"
    bad_load "$1" "$2"
}
fresh; bad_load "no such file" 'No such file'
fresh; mkdir "$here/bad"; bad_load "a folder" ''
bad_header "a name of another model" '' 's/"W3"/"fc.weight"/'
bad_header "a tensor too many" 'W5' 's/}}$/},"W5":{"dtype":"F32","shape":[0],"data_offsets":[516272,516272]}}/'
bad_header "a tensor is missing" '' 's/,"b4":{[^}]*}//'
bad_header "the same name twice" '' 's/"b2"/"b1"/'
bad_header "shape: transposed" 'W3' 's/\[800,128\]/[128,800]/'
bad_header "shape: flat" 'W1' 's/\[20,1,3,3\]/[180]/'
bad_header "shape: its product overflows" 'W2' 's/\[50,20,5,5\]/[2147483647,2147483647,2147483647,2147483647]/'
bad_header "shape: negative" 'W3' 's/\[800,128\]/[-800,-128]/'
bad_header "shape: not whole" 'W3' 's/\[800,128\]/[800.5,128]/'
bad_header "dtype F16" 'b1.*F16' 's/"b1":{"dtype":"F32"/"b1":{"dtype":"F16"/'
bad_header "dtype I32" 'W1.*I32' 's/"W1":{"dtype":"F32"/"W1":{"dtype":"I32"/'
bad_header "no dtype" 'W1' 's/"W1":{"dtype":"F32",/"W1":{/'
bad_header "offsets overlap" 'overlap' 's/\[720,800\]/[700,780]/'
bad_header "offsets beyond the file" 'b4' 's/\[516232,516272\]/[516236,516276]/'
bad_header "offsets beyond any file" 'b4' 's/\[516232,516272\]/[9223372036854775767,9223372036854775807]/'
bad_header "offsets negative" 'b1' 's/\[720,800\]/[-80,0]/'
bad_header "offsets backwards" 'b1' 's/\[720,800\]/[800,720]/'
bad_header "offsets of another size than the shape" 'b1' 's/\[720,800\]/[720,796]/'
bad_header "no JSON" '' 's/^{/{{/'
bad_header "a list, not an object" '' 's/^{.*$/[1,2,3]/'
fresh; { little_endian 2147483648; printf %s "$good_header"; } >"$here/bad"; bad_load "a header of 2 GB" 2147483648
fresh; { little_endian 9223372036854775807; printf %s "$good_header"; } >"$here/bad"; bad_load "a header of 2^63 - 1 bytes" ''
fresh; bytes 600 377 >"$here/bad"; bad_load "a header of 2^64 - 1 bytes" ''
fresh; { little_endian 99999; printf %s "$good_header"; } >"$here/bad"; bad_load "a header longer than the file" 99999
fresh; safetensors "$good_header" $((data_bytes - 1)) >"$here/bad"; bad_load "a byte is missing at the end" ''
fresh; safetensors "$good_header" $((data_bytes + 1)) >"$here/bad"; bad_load "a byte too many at the end" ''
fresh; printf 'This is not a safetensors file, but it is long enough to look at.' >"$here/bad"; bad_load "garbage" ''
fresh; printf '' >"$here/bad"; bad_load "an empty file" ''
fresh; printf '1234567' >"$here/bad"; bad_load "seven bytes" ''

fresh
train --devices 1 --steps 3 --save trained --log-loss losses.csv
expect_good
train --devices 1 --steps 0 --load trained --save again --seed 77
expect_good
expect_same "$here/trained" "$here/again"
verdict "--load after --save gives the same file"

train --devices 2 --steps 0 --load trained --save again2
expect_good
expect_same "$here/trained" "$here/again2"
train --devices 1 --steps 0 --save trained
expect_good
expect_different "$here/trained" "$here/again"
verdict "--save replaces a file; --load works on two devices"

# ---- the same numbers ------------------------------------------------------------------------------------

for backend in cpu cuda; do
    if [ $backend = cuda ] && [ $gpu = no ]; then
        for test in "same seed twice" "another seed" "3 devices" "a shard without rows" "last minibatch of 1 row" \
            "--no-shuffle" "--lr 1e30"; do skip "$test (cuda)" "no GPU"; done
        continue
    fi
    fresh
    train --devices 2 --steps 6 --seed 5 --log-loss a.csv --save a --csv curves.csv
    expect_good
    expect_losses "$here/a.csv" 6
    expect_curves "$here/curves.csv" '2,1 2,1.5'
    train --devices 2 --steps 6 --seed 5 --log-loss b.csv --save b
    expect_good
    expect_same "$here/a.csv" "$here/b.csv"
    expect_same "$here/a" "$here/b"
    verdict "same seed and same k twice: the same bytes; --steps 6 goes on into the second epoch ($backend)"

    train --devices 2 --steps 6 --seed 6 --log-loss c.csv
    expect_good
    expect_different "$here/a.csv" "$here/c.csv"
    verdict "another seed, other losses ($backend)"

    train --devices 1 --steps 6 --seed 5 --log-loss one.csv
    expect_good
    train --devices 3 --steps 6 --seed 5 --log-loss three.csv
    expect_good
    expect_close "$here/one.csv" "$here/a.csv"
    expect_close "$here/one.csv" "$here/three.csv"
    verdict "1, 2 and 3 devices: the same losses ($backend)"

    train --devices 5 --batch-size 2 --steps 8 --lr 0.3 --log-loss five.csv
    expect_good
    train --devices 1 --batch-size 2 --steps 8 --lr 0.3 --log-loss one.csv
    expect_close "$here/one.csv" "$here/five.csv"
    verdict "a minibatch of 2 on 5 devices: as on 1 ($backend)"

    train --devices 5 --train-size 33 --epochs 2 --log-loss five.csv --csv five_curves.csv
    expect_good
    expect_losses "$here/five.csv" 6
    expect_curves "$here/five_curves.csv" '5,1 5,2'
    train --devices 1 --train-size 33 --epochs 2 --log-loss one.csv
    expect_close "$here/one.csv" "$here/five.csv"
    verdict "a last minibatch of 1 row on 5 devices: as on 1 ($backend)"

    train --devices 1 --steps 4 --load a --no-shuffle --seed 1 --log-loss n1.csv
    expect_good
    train --devices 1 --steps 4 --load a --no-shuffle --seed 2 --log-loss n2.csv
    expect_same "$here/n1.csv" "$here/n2.csv"
    train --devices 1 --steps 4 --load a --seed 1 --log-loss s1.csv
    expect_different "$here/n1.csv" "$here/s1.csv"
    verdict "--no-shuffle: the order does not depend on the seed ($backend)"

    fresh
    train --devices 1 --batch-size 64 --lr 1e30 --csv curves.csv --log-loss losses.csv --save saved
    expect_error 1 'step 2 .*lr 1e+30'
    expect_curves "$here/curves.csv" '1,1'
    expect_losses "$here/losses.csv" 1
    [ $gnuplot = no ] || expect_png "$here/plots/$name.png"
    [ -e "$here/saved" ] && complain "expected no saved parameters"
    expect_no_leftovers
    verdict "--lr 1e30: stops, names step and lr, keeps what was done ($backend)"
done
backend=cpu

fresh
train --devices 2 --steps 4 --threads 1 --save t1
expect_good
train --devices 2 --steps 4 --threads 2 --save t2
train --devices 2 --steps 4 --threads 7 --save t7
expect_good
expect_same "$here/t1" "$here/t2"
expect_same "$here/t1" "$here/t7"
verdict "--threads does not change a bit"

# ---- what is written -------------------------------------------------------------------------------------

fresh
run --data "$data" --backend cpu --epochs 2 --batch-size 32 --seed 1 --log-loss losses.csv
expect_good
expect_curves "$here/plots/$name.csv" '1,1 1,2 2,1 2,2'
[ $gnuplot = no ] || expect_png "$here/plots/$name.png"
[ $gnuplot = no ] || expect_png "$here/plots/${name}_modelled.png"
expect_png "$here/plots/${name}_filters.png"
expect_png "$here/plots/${name}_predictions.png"
expect_line "$out" '^test acc: 0\.[0-9][0-9], [0-9.]* sec/epoch on \[cpu:0\]; modelled on dgx-a100: [0-9.]*$'
expect_line "$out" '^test acc: 0\.[0-9][0-9], [0-9.]* sec/epoch on \[cpu:0, cpu:1\]; modelled on dgx-a100: [0-9.]*$'
expect_line "$out" '1,032,544.*bytes' # 2 (k-1) times 516272
[ "$(find "$here/plots" -type f | wc -l)" -eq $([ $gnuplot = yes ] && echo 6 || echo 4) ] || complain "expected nothing else in plots/: $(ls "$here/plots")"
verdict "without --devices: both runs, curves, pictures, the book's lines"

here=/
run --data "$data" --backend cpu --devices 1 --steps 1 --out "$work/far/away/plots of k devices'"
expect_good
here=$work/far
expect_curves "$here/away/plots of k devices'/$name.csv"
[ $gnuplot = no ] || expect_png "$here/away/plots of k devices'/$name.png"
expect_no_leftovers
verdict "from another folder it finds its script; --out makes folders, whatever their name"

fresh
train --devices 1 --steps 1 --out dumb
expect_good
[ $gnuplot = no ] || expect_png "$here/dumb/$name.png"
verdict "--out dumb: a folder with the name of a gnuplot terminal"

printf 'old\n' >"$work/old"
unwritable() { # NAME FLAG FILE: refused before the training
    fresh
    cp "$work/old" "$here/old"
    : >"$here/file"
    touch -d '1 hour ago' "$here/old" "$here/file"
    train --devices 1 --steps 1 "$2" "$3"
    expect_refusal 1
    expect_same "$here/old" "$work/old"
    expect_no_leftovers
    verdict "$1"
}
for flag in csv save log-loss trace timeline; do
    unwritable "--$flag into a folder that is not there" --$flag nowhere/file
    unwritable "--$flag onto a folder" --$flag .
done
unwritable "--out is a file" --out file
unwritable "--out in a file" --out file/deeper

# Names that gnuplot would take for a command, for its own input or for a home folder.
for strange in '<touch ran' '|touch ran' - '~' "it's"; do
    fresh
    train --devices 1 --epochs 1 "--csv=$strange" --out "$strange.d"
    expect_good
    expect_line "$here/$strange" '^1,1,'
    [ $gnuplot = no ] || expect_png "$here/$strange.d/$name.png"
    [ ! -e "$here/ran" ] || complain "gnuplot ran a command that a file name held"
    verdict "a file with the name $strange"
done

# (folder/ is there, al is a link to it; hard, soft and old are one file; nowhere points to what is not there)
for pair in "--csv a --log-loss a" "--save a --csv a" "--trace a --timeline a" "--csv a.svg --timeline a.png" "--save plots/${name}_filters.png" \
    "--csv a --log-loss ./a" "--csv a --save al/../a" "--save folder/a --log-loss al/a" "--csv soft --save old" \
    "--save hard --log-loss old" "--csv missing --save nowhere" "--csv plots//../plots/$name.png" \
    "--log-loss plots/$name.csv"; do
    fresh
    mkdir "$here/folder"
    cp "$work/old" "$here/old"
    touch -d '1 hour ago' "$here/old"
    ln "$here/old" "$here/hard"
    ln -s old "$here/soft"
    ln -s folder "$here/al"
    ln -s al/../missing "$here/nowhere"
    train --devices 1 --steps 1 $pair
    expect_refusal 2 'two outputs'
    expect_same "$here/old" "$work/old"
    verdict "two outputs in one file: $pair"
done

# What is read is not replaced; but for --save, at the end, by what came of it.
for pair in "--load w --csv w" "--load w --log-loss ./w" "--load w --csv link" "--load plots/${name}_filters.png" \
    "--save data/$train_images" "--load w --trace w" "--csv data/../data/$test_labels"; do
    fresh
    cp -r "$data" "$here/data"
    mkdir "$here/plots"
    safetensors "$good_header" $data_bytes | tee "$here/plots/${name}_filters.png" >"$here/w"
    ln -s w "$here/link"
    find "$here" -type f -exec touch -d '1 hour ago' {} +
    run --backend cpu --data data --batch-size 16 --devices 1 --steps 1 $pair
    expect_refusal 2 'an output would replace this file, which is read'
    expect_same "$here/data/$train_images" "$data/$train_images"
    verdict "an output in the place of an input: $pair"
done
fresh
safetensors "$good_header" $data_bytes | tee "$here/w" >"$here/same"
train --devices 1 --steps 1 --load w --save saved
expect_good
train --devices 1 --steps 1 --load same --save same
expect_good
expect_same "$here/saved" "$here/same"
expect_different "$here/w" "$here/same"
verdict "--load and --save of one file"

fresh
mkdir -p "$here/plots/${name}_predictions.png"
train --devices 1 --steps 1
expect_refusal 1
verdict "a picture that could not be written is refused before the training"

fresh
train --devices 1 --steps 2 # of four minibatches
expect_good
expect_line "$out" '^  epoch 0\.5: '
expect_line "$here/plots/$name.csv" '^1,0\.5,'
verdict "half an epoch is said to be half an epoch"

fresh
if [ -w /dev/full ]; then
    (cd "$here" && "$program" --data "$data" --backend cpu --devices 1 --batch-size 16 --steps 1) >/dev/full 2>"$err"
    status=$?
    : >"$out"
    expect_error 1 'standard output'
    for flags in --help '--machine list' '--machine print:dgx-a100'; do
        command="$name $flags >/dev/full"
        (cd "$here" && "$program" $flags) >/dev/full 2>"$err"
        status=$?
        expect_error 1 'standard output'
    done
    verdict "out of disk: standard output"
else
    skip "out of disk: standard output" "no /dev/full"
fi

# An output may be a pipe with a name: its reader gets all of it, and then the end. A reader that leaves is not waited for.
for flag in csv save log-loss trace; do
    fresh
    mkfifo "$here/pipe"
    "$timeout" $limit cat "$here/pipe" >"$here/read" &
    train --devices 1 --epochs 2 --$flag pipe
    expect_good
    wait $! || complain "the reader of the pipe did not come to its end"
    case $flag in
    csv) expect_curves "$here/read" '1,1 1,2' ;;
    save) [ "$(wc -c <"$here/read")" -gt $data_bytes ] || complain "expected all parameters in the pipe" ;;
    log-loss) expect_losses "$here/read" 8 ;;
    trace) expect_line "$here/read" '^.*}$' ;;
    esac
    verdict "--$flag goes to a pipe"
done
fresh
mkfifo "$here/pipe"
head -n 1 "$here/pipe" >"$here/read" &
train --devices 1 --epochs 9 --csv pipe
case $status in 124 | 137) complain "the program waits for a reader that has left" ;; esac
verdict "--csv goes to a pipe whose reader leaves"

fresh
mkdir "$here/locked"
chmod 555 "$here/locked"
if [ -w "$here/locked" ]; then
    skip "a folder that may not be written" "this user may write everywhere"
else
    train --devices 1 --steps 1 --out locked
    expect_refusal 1
    verdict "a folder that may not be written"
fi

# Little memory: each run ends by itself, well or with an error and a hint. (Sanitizers want more than there
# is. Shells that have no ulimit -v skip this.)
# shellcheck disable=SC3045
if ! (ulimit -v 4000000 && "$program" --help) >/dev/null 2>&1; then
    skip "little memory" "this program wants too much to begin with"
else
    failed=0 done=0
    for kilobytes in 30000 40000 50000 60000 70000 80000 100000 120000 150000 200000 300000 500000; do
        for flags in "--devices 1 --threads 16" "--devices 2"; do
            fresh
            (ulimit -v $kilobytes && limit=30 train $flags --steps 2 --save saved && echo "$status" >"$work/limited") 2>/dev/null
            status=$(cat "$work/limited" 2>/dev/null || echo 999)
            command="$name $flags, under ulimit -v $kilobytes"
            case $status in
            0) done=$((done + 1)) ;;
            1) # libraries may say something, one for each thread that did not start; and gnuplot, that there is too little
                failed=$((failed + 1))
                grep -v -e '^$' -e '^libgomp: ' "$err" | tail -n 2 >"$work/last" && cp "$work/last" "$err"
                expect_error 1
                ;;
            *) complain "expected status 0 or 1 under ulimit -v $kilobytes, came $status"; show "$err" ;;
            esac
            expect_no_leftovers
        done
    done
    [ $failed -gt 0 ] && [ $done -gt 0 ] || complain "expected some to succeed and some to fail: $done, $failed"
    verdict "little memory: an error and a hint, or a good run"
fi

for flag in csv save log-loss; do
    fresh
    if [ ! -w /dev/full ]; then
        skip "out of disk: --$flag /dev/full" "no /dev/full"
        continue
    fi
    mkdir "$here/plots"
    cp "$work/old" "$here/plots/${name}_filters.png"
    train --devices 1 --epochs 2 --$flag /dev/full
    expect_error 1 '/dev/full.*No space'
    expect_same "$here/plots/${name}_filters.png" "$work/old"
    sleep 1 # a gnuplot that was left behind would write now
    expect_no_leftovers
    verdict "out of disk: --$flag /dev/full"
done

fresh
cp "$work/old" "$here/saved"
(ulimit -f 200 && train --devices 1 --steps 1 --save saved && echo "$status" >"$work/limited") 2>/dev/null
status=$(cat "$work/limited" 2>/dev/null || echo 999)
command="$name --save saved, under ulimit -f 200"
expect_error 1 'saved.*File too large'
expect_same "$here/saved" "$work/old"
expect_no_leftovers
verdict "out of disk: a limit on the size of files"

fresh
mkdir "$here/plots"
cp "$work/old" "$here/plots/$name.csv"
train --devices 1 --lr 1e30
expect_error 1 'step 2'
expect_same "$here/plots/$name.csv" "$work/old"
expect_no_leftovers
verdict "an old CSV survives a run that fails in its first epoch"

fresh
limit=20
run --data "$data" --backend cpu --devices 1 --batch-size 16 --epochs 2 --csv /dev/stdout
limit=60
expect_good
sed -n '/^devices,/h; /^devices,/!H; ${g; p}' "$out" | grep -E '^(devices,|[0-9]+,)' >"$here/last.csv"
expect_curves "$here/last.csv" '1,1 1,2'
verdict "--csv /dev/stdout, a file"

fresh
mkdir "$here/bin" # a gnuplot that reads the pipe would wait for itself to end
printf '#!/bin/sh\nexec "%s" 5 "%s" "$@"\n' "$timeout" "$(command -v gnuplot || echo false)" >"$here/bin/gnuplot"
chmod +x "$here/bin/gnuplot"
(cd "$here" && PATH=$here/bin:$PATH "$timeout" -k 2 20 "$program" --data "$data" --backend cpu --devices 1 \
    --batch-size 16 --epochs 2 --csv /dev/stdout 2>"$work/pipe_stderr" </dev/null; echo "status $?") | "$timeout" 30 cat >"$out"
cp "$work/pipe_stderr" "$err"
status=$(sed -n 's/^status //p' "$out") command="$name --csv /dev/stdout | cat"
status=${status:-999}
expect_status 0
[ $gnuplot = no ] || expect_empty stderr "$err"
sed -n '/^devices,/h; /^devices,/!H; ${g; p}' "$out" | grep -E '^(devices,|[0-9]+,)' >"$here/last.csv"
expect_curves "$here/last.csv" '1,1 1,2'
expect_no_leftovers
verdict "--csv /dev/stdout, a pipe"

# ---- gnuplot, terminal -----------------------------------------------------------------------------------

mkdir "$work/no_gnuplot"
search_path=$work/no_gnuplot
fresh
train --devices 1 --epochs 2 --live
expect_status 0
[ "$(wc -l <"$err")" -eq 1 ] || { complain "expected one line of warning, came:"; show "$err"; }
expect_line "$err" "^$name: .*gnuplot"
expect_curves "$here/plots/$name.csv" '1,1 1,2'
expect_png "$here/plots/${name}_filters.png"
expect_png "$here/plots/${name}_predictions.png"
expect_no_leftovers
verdict "without gnuplot: one warning, CSV and pictures are there"

# A gnuplot that is there but fails at the script.
mkdir "$work/bad_gnuplot"
printf '#!/bin/sh\ncase $1 in --version | -e) exit 0 ;; esac\nexit 1\n' >"$work/bad_gnuplot/gnuplot"
chmod +x "$work/bad_gnuplot/gnuplot"
search_path=$work/bad_gnuplot:$PATH
fresh
train --devices 1 --epochs 3
expect_status 0
[ "$(wc -l <"$err")" -eq 1 ] || { complain "expected one line of warning, came:"; show "$err"; }
expect_curves "$here/plots/$name.csv" '1,1 1,2 1,3'
expect_no_leftovers
verdict "gnuplot fails: one warning, training goes on"

# A gnuplot that writes a part of the picture and does not notice, as the real one on a full disk.
mkdir "$work/half_gnuplot"
printf '#!/bin/sh\ncase $1 in --version | -e) exit 0 ;; esac\nfor png; do :; done\nhead -c 5000 "%s" >"$png"\n' \
    "$work/run_of_pictures.png" >"$work/half_gnuplot/gnuplot"
chmod +x "$work/half_gnuplot/gnuplot"
fresh
search_path=$PATH
train --devices 1 --steps 1
cp "$here/plots/${name}_filters.png" "$work/run_of_pictures.png"
expect_png "$work/run_of_pictures.png"
cp "$work/old" "$here/plots/$name.png"
search_path=$work/half_gnuplot:$PATH
train --devices 1 --epochs 3
expect_status 0
[ "$(wc -l <"$err")" -eq 1 ] || { complain "expected one line of warning, came:"; show "$err"; }
expect_line "$err" "^$name: gnuplot could not write all of plots/$name.png; the figures are in plots/$name.csv"
expect_same "$here/plots/$name.png" "$work/old"
expect_curves "$here/plots/$name.csv" '1,1 1,2 1,3'
expect_no_leftovers
verdict "half a picture does not replace a whole one"

search_path=$PATH
if [ $gnuplot = no ]; then
    skip "out of disk: the picture of the curves" "no gnuplot"
else
    cp "$here/plots/${name}_filters.png" "$work/old_filters.png"
    (ulimit -f 25 && train --devices 1 --steps 1) 2>/dev/null # 25 times 512 or 1024 bytes
    : >"$out"
    cp "$all_err" "$err"
    command="$name, under ulimit -f 25"
    expect_line "$err" "^$name: gnuplot could not .* plots/$name.png; the figures are in"
    expect_line "$err" "^$name: error: .*plots/${name}_filters.png: cannot write: File too large"
    expect_same "$here/plots/$name.png" "$work/old"
    expect_same "$here/plots/${name}_filters.png" "$work/old_filters.png"
    expect_no_leftovers
    verdict "out of disk: pictures, those that gnuplot draws and ours"
fi
search_path=$work/bad_gnuplot:$PATH

# Its window, a gnuplot of its own, dies; as one does that cannot open the display.
DISPLAY=:4711
export DISPLAY
fresh
train --devices 1 --epochs 8 --live
expect_status 0
expect_curves "$here/plots/$name.csv" '1,1 1,2 1,3 1,4 1,5 1,6 1,7 1,8'
verdict "--live: the window dies, training goes on"
unset DISPLAY
search_path=$PATH

if [ $gnuplot = no ]; then
    skip "--live without a display draws with letters" "no gnuplot"
    skip "--live: the lines of a run and the drawings come in order" "no gnuplot"
else
    fresh
    train --devices 1 --epochs 2 --live
    expect_status 0
    expect_line "$out" '^ *[01][.0-9]* +-*[-+]*-----*'
    verdict "--live without a display draws with letters"
    first=$(grep -n '^  epoch  1:' "$out" | cut -d : -f 1)
    drawing=$(grep -n -e '+-----' "$out" | head -n 1 | cut -d : -f 1)
    [ "${first:-0}" -gt 0 ] && [ "${first:-0}" -lt "${drawing:-0}" ] ||
        complain "expected 'epoch  1' (line $first) before the first drawing (line $drawing)"
    verdict "--live: the lines of a run and the drawings come in order"
fi

fresh
if ! script -qec true /dev/null </dev/null >/dev/null 2>&1; then
    skip "a progress bar on a terminal" "no script (util-linux)"
else
    printf 'exec "%s" --data "%s" --backend cpu --devices 1 --batch-size 16 --epochs 2\n' "$program" "$data" >"$here/go"
    command="$name on a terminal"
    (cd "$here" && exec "$timeout" -k 2 30 script -qec 'sh go' /dev/null) >"$out" 2>&1 </dev/null
    status=$?
    expect_status 0
    expect_line "$out" 'epoch 1/2, loss .*%.* left'
    expect_line "$out" '^test acc: '
    verdict "a progress bar on a terminal"

    printf 'exec "%s" --data "%s" --backend cpu --devices 1 --batch-size 16 --lr 1e30\n' "$program" "$data" >"$here/go"
    (cd "$here" && exec "$timeout" -k 2 30 script -qec 'sh go' /dev/null) >"$out" 2>&1 </dev/null
    tr '\r' '\n' <"$out" | sed "s/^$(printf '\033')\[K//" >"$work/lines"
    expect_line "$work/lines" "^$name: error: the loss became"
    verdict "an error during the training begins a line of its own"
fi

# ---- Ctrl-C ----------------------------------------------------------------------------------------------

# A shell's background jobs begin with SIGINT ignored; env gives them back what a terminal gives.
defaults='env --default-signal=INT'
$defaults true 2>/dev/null || defaults='env'
for signal in INT TERM; do
    fresh
    command="$name, and SIG$signal"
    (cd "$here" && exec $defaults "$program" --data "$data" --backend cpu --devices 2 --batch-size 16 --epochs 1000000 \
        --save saved --log-loss losses.csv) >"$out" 2>"$err" </dev/null &
    running=$!
    waited=0
    while ! grep -q '^2,2,' "$here/plots/$name.csv" 2>/dev/null && [ $waited -lt 150 ]; do
        sleep 0.2
        waited=$((waited + 1))
    done
    kill -$signal $running
    (sleep 20; kill -9 $running) >/dev/null 2>&1 & # if it does not end
    watch=$!
    wait $running
    status=$?
    running=
    kill $watch 2>/dev/null
    expect_status 130
    expect_empty stderr "$err"
    expect_curves "$here/plots/$name.csv"
    [ $gnuplot = no ] || expect_png "$here/plots/$name.png"
    expect_losses "$here/losses.csv" "$(grep -c '^[0-9]' "$here/losses.csv" 2>/dev/null)"
    expect_no_leftovers
    train --load saved --devices 1 --steps 0
    expect_good
    verdict "SIG$signal: ends with status 130; CSV, PNG, losses and parameters are whole"
done

echo "1..$tests"
