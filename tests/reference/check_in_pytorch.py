#!/usr/bin/env python3
"""Compares the chapters' programs in PyTorch with the C programs.

    build/torch/bin/python tests/reference/check_in_pytorch.py BUILD FOLDER

FOLDER/NN has what chapter NN's in_pytorch.py has printed. Chapters 4 and 5 start from the same parameters and get the same
minibatches; losses agree to 1e-5. Needs torch, safetensors.
"""
import csv
import glob
import importlib.util
import os
import re
import subprocess
import sys

import torch
from safetensors.torch import save_file

BUILD, FOLDER = sys.argv[1:]
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from resnet18 import fashion_mnist, fill                    # noqa: E402


def c_program(number, *flags):
    """What it prints."""
    program, = (p for p in glob.glob(f"{BUILD}/{number}_*") if os.access(p, os.X_OK) and "exercise" not in p and os.path.isfile(p))
    return subprocess.run([program, "--out", FOLDER, "--backend", "cpu", *flags], check=True, capture_output=True, text=True).stdout


def printed(number):
    with open(f"{FOLDER}/{number}") as file:
        return file.read()


def module(number):
    path, = glob.glob(f"chapters/{number}_*/in_pytorch.py")
    spec = importlib.util.spec_from_file_location("in_pytorch", path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def numbers(text, pattern):
    """What the groups of the pattern match, each as a text without commas."""
    found = [tuple(g.replace(",", "") for g in m.groups()) for m in re.finditer(pattern, text, re.MULTILINE)]
    assert found, f"nothing like {pattern} in:\n{text}"
    return found


def same(what, theirs, ours):
    assert theirs == ours, f"{what}: PyTorch {theirs}, C {ours}"


def chapter_00():
    ours, theirs = c_program("00"), printed("00")
    same("bytes of copies", numbers(theirs, r"to \S+: ([\d,]+) bytes"), numbers(ours, r"^  device 0 to .*?([\d,]+) +[\d.]+$"))
    same("losses", numbers(theirs, r"step \d: loss ([\d.]+)"), numbers(ours, r"step \d: loss ([\d.]+)"))


def chapter_01():
    ours = numbers(c_program("01"), r"^  (?:across|within) \w+ +[\d.]+ +[\d.]+ +([\d.]+) +[\d.]+ +\d+ +\d+ ")
    same("megabytes moved", [(f"{int(b) / 1e6:.2f}",) for b, in numbers(printed("01"), r"([\d,]+) bytes moved")], ours)


def chapter_02():
    ours = dict(numbers(c_program("02"), r"^  (star|sharded|ring|tree) +\d of N(?:/k)? +([\d,]+)"))
    theirs = dict(numbers(printed("02"), r"^allreduce_?(\w*) .* ([\d,]+) bytes"))
    same("the busiest device", {name or "star": sent for name, sent in theirs.items()}, ours)


def chapter_03():
    ours = dict(numbers(c_program("03"), r"^ +(\d+) +(?:4|7)  ([\d ]+)$"))
    theirs = {n: shards.replace(" ", "") for n, shards in numbers(printed("03"), r"^(\d+) rows over [47] devices: \[([^]]*)\]")}
    same("shards", {n: theirs[n] for n in ours}, {n: shards.replace(" ", "") for n, shards in ours.items()})


def close(what, theirs, ours):
    assert len(theirs) == len(ours) > 0, f"{what}: {len(theirs)} and {len(ours)} losses"
    for a, b in zip(theirs, ours):
        assert abs(a - b) <= 1e-5 * abs(b), f"{what}: PyTorch {a}, C {b}"


def chapter_04():
    p, start, losses = module("04"), f"{FOLDER}/start", f"{FOLDER}/losses.csv"
    torch.manual_seed(1)
    params = p.init_params()
    params = [3 * t + (0.01 if t.dim() == 1 else 0) for t in params]    # so that each layer matters
    save_file(dict(zip("W1 b1 W2 b2 W3 b3 W4 b4".split(), params)), start)
    c_program("04", "--devices", "3", "--steps", "5", "--no-shuffle", "--test-size", "10", "--load", start, "--log-loss", losses)
    replicas, theirs = [p.get_params(params, "cpu") for _ in range(3)], []
    for X, y in zip(*(t.split(256) for t in fashion_mnist("train", 5 * 256))):
        theirs.append(sum(loss.item() for loss in p.train_batch(X, y, replicas, ["cpu"] * 3, 0.2)) / len(X))
    with open(losses) as file:
        close("LeNet", theirs, [float(row["loss"]) for row in csv.DictReader(file)][-5:])


def chapter_05():
    p, start, curves = module("05"), f"{FOLDER}/start", f"{FOLDER}/curves.csv"
    net = p.resnet18(10)
    fill(net)   # with fresh parameters, rounding grows to 1e-4 in two steps, also in PyTorch itself
    save_file(net.state_dict(), start)
    c_program("05", "--devices", "2", "--epochs", "1", "--batch-size", "32", "--lr", "0.001", "--train-size", "96", "--test-size", "10",
              "--no-shuffle", "--load", start, "--csv", curves)
    nets, losses = p.place_on(net, ["cpu"] * 2), []
    for X, y in zip(*(t.split(32) for t in fashion_mnist("train", 96))):
        shards = torch.arange(32).tensor_split(2)
        losses += [loss.item() for loss in p.train_step_as(nets, shards, X, y, 0.001)]
    with open(curves) as file:
        close("ResNet-18", [sum(losses) / 96], [float(row["train_loss"]) for row in csv.DictReader(file)])


for name, check in sorted(globals().items()):
    if name.startswith("chapter_"):
        check()
        print(f"{name}: the same")
