#!/bin/sh
# data_places_test.sh BUILD: the set-up finds the data set in the same places, under the same names, as the programs do.
# (All of them: test_data.c.) Prints TAP.
name=04_lenet_multi_gpu
. "$(dirname "$0")/chapter.sh"
small_data_set
mkdir tools
for tool in mktemp rm sed awk tr grep cat; do ln -s "$(command -v $tool)" tools; done
shell=$(command -v sh)

# PLACE IMAGES LABELS: the training files have these names there, those of the test have their own.
while read -r place images labels; do
    rm -rf given
    mkdir -p "given/$place/$(dirname "$images")" "given/$place/$(dirname "$labels")"
    cp data/t10k-* "given/$place"
    cp data/train-images-idx3-ubyte "given/$place/$images"
    cp data/train-labels-idx1-ubyte "given/$place/$labels"
    for missing in '' "$place/$labels"; do
        [ -z "$missing" ] || rm "given/$missing"
        "$program" --backend cpu --data given --devices 1 --steps 0 >log 2>&1 && program_has=yes || program_has=no
        PATH=$out/tools FASHION_MNIST_DIR=given CC=false CUDA=0 "$shell" "$root/.make/probe.sh" >probed 2>&1
        grep -q "^#! .* data: given\$" probed && probe_has=yes || probe_has=no
        wanted=${missing:+no}
        [ $program_has = "${wanted:-yes}" ] && [ $probe_has = "${wanted:-yes}" ] ||
            complain "${missing:+without $missing: }the program has it: $program_has; the set-up: $probe_has"
    done
    verdict "$place $images $labels"
done <<'PLACES'
. train-images.idx3-ubyte train-labels.idx1-ubyte.GZ
. train-images-idx3-ubyte.gz train-labels.idx1-ubyte/train-labels-idx1-ubyte
FashionMNIST/raw train-images-idx3-ubyte train-labels-idx1-ubyte.gz/train-labels.idx1-ubyte
PLACES
echo "1..$tests"
