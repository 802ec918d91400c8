#!/bin/sh
# training_test.sh BUILD: a short training on the real data set, on two devices, from the book's own start.
# It must get off the plateau (loss 2.30, accuracy 0.10) at which that start leaves it for a while.
build=$1
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
least_accuracy=0.60 most_loss=0.80 # measured: 0.71 and 0.66; other machines round differently

case $build in
*asan) # nothing new for a sanitizer, and minutes
    echo "1..1
ok 1 - three epochs # SKIP takes too long with sanitizers"
    exit 0
    ;;
esac
echo 1..2
"$build"/04_lenet_multi_gpu --devices 2 --batch-size 64 --train-size 20000 --epochs 3 --out "$out" >"$out/log" 2>&1
status=$?
csv=$out/04_lenet_multi_gpu.csv
tail -n 1 "$csv" | awk -F, -v acc=$least_accuracy -v loss=$most_loss '{ exit !($4 >= acc && $3 <= loss) }'
if [ $? -eq 0 ] && [ $status -eq 0 ]; then
    echo "ok 1 - three epochs reach an accuracy of $least_accuracy"
else
    echo "not ok 1 - three epochs reach an accuracy of $least_accuracy"
    sed 's/^/# /' "$csv" "$out/log"
fi
# The last line is the book's.
if grep -Eq '^test acc: 0\.[0-9]{2}, [0-9.]+ sec/epoch on \[(cpu|cuda):0(, (cpu|cuda):[0-9]+(#[0-9]+)?)*\]$' "$out/log"; then
    echo "ok 2 - it prints the book's line"
else
    echo "not ok 2 - it prints the book's line"
    sed 's/^/# /' "$out/log"
fi
