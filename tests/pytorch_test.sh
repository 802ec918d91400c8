#!/bin/sh
# pytorch_test.sh BUILD: the programs in PyTorch beside the chapters compile, fit on a page, have tabs, and what pages say that
# they print is of these files. Where there is PyTorch (python3 -m venv build/torch && build/torch/bin/pip install torch numpy
# safetensors) they run, each checks itself, and what they print is compared with what the C programs print. RECORD=1 keeps it
# in plots/recorded. And parameters of ResNet-18 go to PyTorch and back. Prints TAP.
. "$(dirname "$0")/tap.sh"
cd "$root" || exit 1
torch=$root/build/torch/bin
MOST_LINES=182
# How many functions that the page's main.c names there are in Python, in each chapter.
TABS='00 8 01 6 02 4 03 4 04 3 05 5 06 9 07 7 08 9 09 5 10 6 11 3'
tabs_of() { # FOLDER
    sed -n 's|^// [a-z_0-9/]*\.[ch]:\([a-z_0-9]*\)$|\1|p' "$1/main.c" | sed 's/_book$//' | sort -u >"$work/named"
    sed -n 's/^def \([a-z_0-9]*\)(.*/\1/p; s/^class \([A-Za-z]*\).*/\1/p; s/^# C: //p' "$1"/*in_pytorch.py | tr -d ' ' | tr , '\n' | sort -u |
        comm -12 - "$work/named" | wc -l
}

for file in chapters/*/in_pytorch.py; do
    folder=$(dirname "$file") number=$(basename "$folder" | cut -c 1-2)
    python3 -c 'import sys; compile(open(sys.argv[1]).read(), sys.argv[1], "exec")' "$file" 2>>"$problems"
    [ "$(wc -l <"$file")" -le $MOST_LINES ] || complain "$file: $(wc -l <"$file") lines"
    ! grep -Hn '.\{131\}' "$file" >>"$problems"
    tabs=$(echo "$TABS" | grep -o "\b$number [0-9]*" | cut -d' ' -f 2)
    [ "$(tabs_of "$folder")" = "$tabs" ] || complain "$file: $(tabs_of "$folder") functions that main.c names, not $tabs"
    recorded=plots/recorded/${number}_in_pytorch.txt
    [ "${RECORD:-}" ] || grep -q "^# cksum $(cksum <"$file" | cut -d' ' -f 1)\$" "$recorded" ||
        complain "$recorded is of another $file: RECORD=1 sh tests/pytorch_test.sh build"
    verdict "$file compiles, has its tabs, and its output is recorded"
done
for folder in chapters/[0-9]*/; do [ -f "${folder}in_pytorch.py" ] || complain "$folder has none"; done
verdict "each chapter has one"

if ! [ -x "$torch/python" ] || ! "$torch/python" -c 'import torch, safetensors' 2>/dev/null; then
    skip "they run, and agree with the C programs" "no PyTorch in build/torch"
    echo "1..$tests"
    exit 0
fi

# ---- they run ------------------------------------------------------------------------------------------

export OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo
version=$("$torch/python" -c 'import torch; print(torch.__version__.split("+")[0])')
for file in chapters/*/in_pytorch.py; do
    folder=$(dirname "$file") number=$(basename "$folder" | cut -c 1-2) start='python'
    grep -q '^    python in_pytorch.py' "$file" ||
        start=$(sed -n 's/^    \(torchrun --nproc-per-node [0-9]*\) in_pytorch.py.*/\1/p' "$file")
    said=$work/$number
    (cd "$torch" && exec ./$start "$root/$file") >"$said" 2>"$work/errors" || complain "$(tail -n 5 "$work/errors")"
    if [ "${RECORD:-}" ]; then
        { echo "# cksum $(cksum <"$file" | cut -d' ' -f 1)"
            echo "# Started as \`$start in_pytorch.py\`, with PyTorch $version on a CPU, on $(date '+%-d %B %Y'), it printed:" && cat "$said"; } \
            >"plots/recorded/${number}_in_pytorch.txt"
    fi
    verdict "$start $file"
    [ "$start" = python ] || "$torch/torchrun" --nproc-per-node 3 "$file" >"$work/three" 2>"$work/errors" || complain "$(tail -n 5 "$work/errors")"
    [ "$start" = python ] || verdict "the same with three ranks"
done
"$torch/torchrun" --nproc-per-node 4 chapters/08_many_machines/star_in_pytorch.py >"$work/said" 2>"$work/errors" || complain "$(tail -n 5 "$work/errors")"
"$torch/python" chapters/09_what_each_device_keeps/recompute_in_pytorch.py >"$work/said" 2>"$work/errors" || complain "$(tail -n 5 "$work/errors")"
as_one_process() { # RANKS FILE
    "$torch/torchrun" --nproc-per-node "$1" "$2" >"$work/said" 2>"$work/errors" || complain "$(tail -n 5 "$work/errors")"
    [ "$(grep -o ': as one process' "$work/said" | wc -l)" = "$1" ] || complain "$2: $(cat "$work/said")"
}
# The programs that the pages of chapters 10 and 11 say to save.
saved() { sed -n "/\`$2\`/,\$s|^// \{0,1\}||p" "$1/main.c" | sed '1,/^```python$/d; /^```$/,$d' >"$work/$2"; } # CHAPTER NAME
saved chapters/10_a_transformer mlp.py
as_one_process 2 "$work/mlp.py"
saved chapters/11_a_mesh_of_devices mesh.py
as_one_process 4 "$work/mesh.py"
verdict "and what did not fit into those"

# ---- they agree with the C programs --------------------------------------------------------------------

"$torch/python" -W ignore tests/reference/check_in_pytorch.py "$build" "$work" >"$problems" 2>&1 && : >"$problems"
verdict "the same start and the same minibatches: the same losses; the same bytes and counts"
"$torch/python" -W ignore tests/reference/check_resnet18.py "$build" "$work" >"$work/log" 2>&1 || complain "$(tail -n 3 "$work/log")"
verdict "parameters of ResNet-18 go there and back"
echo "1..$tests"
