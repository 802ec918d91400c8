#!/bin/sh
# pytorch_test.sh BUILD: parameters of ResNet-18 go to PyTorch and back. Skipped where there is no PyTorch
# (tests/bench/README.md says how to have it). Prints TAP.
build=$1
here=$(dirname "$0")
python=$here/../build/torch/bin/python
echo 1..1
if ! [ -x "$python" ] || ! "$python" -c 'import torch, safetensors' 2>/dev/null; then
    echo "ok 1 # SKIP no PyTorch in build/torch"
    exit
fi
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
"$python" -W ignore "$here/reference/check_resnet18.py" "$build" "$out" >"$out/log" 2>&1 && echo "ok 1 - there and back" && exit
echo "not ok 1 - there and back"
sed 's/^/# /' "$out/log"
