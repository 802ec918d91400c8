#!/usr/bin/env python3
"""Compares the chapters' programs in PyTorch with the C programs.

    build/torch/bin/python tests/reference/check_in_pytorch.py BUILD FOLDER

FOLDER/NN has what chapter NN's in_pytorch.py has printed. Those that train start from the same parameters as the C programs
and get the same minibatches; losses agree to 1e-5, chapter 8's updates of 16 steps to 1e-3. (The training of chapters 9 and 10
is compared with PyTorch's fully_shard and nn.TransformerEncoderLayer by fixtures.) Needs torch, safetensors.
"""
import csv
import glob
import importlib.util
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import torch
from safetensors.torch import load_file, save_file
from torch import distributed as dist
from torch.nn.utils import parameters_to_vector

BUILD, FOLDER = sys.argv[1:3]
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from resnet18 import fashion_mnist, fill                    # noqa: E402


def c_program(number, *flags, ranks=0):
    """What it prints."""
    start = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks)] if ranks else []
    program, = (p for p in glob.glob(f"{BUILD}/{number}_*") if os.access(p, os.X_OK) and "exercise" not in p and os.path.isfile(p))
    return subprocess.run([*start, program, "--out", FOLDER, "--backend", "cpu", *flags], check=True, capture_output=True, text=True).stdout


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


def chapter_06():
    ours, theirs = c_program("06", "--devices", "2"), printed("06")
    of_kib = {"4 KiB": "4", "64 KiB": "64", "256 KiB": "256", "1 MiB": "1024", "4 MiB": "4096"}
    counts = dict(numbers(ours, r"^  (\d+ [KM]iB) +(\d+) +[\d.]+ +\d+ +[\d.]+ +[\d.]+$"))
    same("buckets", dict(numbers(theirs, r"^buckets of +(\d+) KiB: (\d+)")), {of_kib[n]: counts[n] for n in of_kib})
    same("bytes of a ring of two", numbers(theirs, r"each rank sends ([\d,]+)"), numbers(ours, r"^ +2  .* ([\d,]+) +[\d,]+$"))
    same("samplers", [(m, re.sub(r"\D+", " ", images).strip(), n) for m, images, n in
                      numbers(theirs, r"^10 images, (\w+) +(.*\]) of 10,000, 3 ranks count ([\d,]+)")],
         [(m, " ".join(images.split()), n) for m, images, n in numbers(ours, r"^  (padded|dropped|exact) +([\d ]*\d)  +([\d,]+)$")])
    same("divided twice", numbers(theirs, r"update is ([\d.]+) times"), numbers(ours, r"update is ([\d.]+) times as long on 2"))


def chapter_07():
    """Synchronous steps of four workers, against chapter 4's on four devices, of which chapter 7 has the bits."""
    p, start, losses = module("07"), f"{FOLDER}/start", f"{FOLDER}/losses.csv"
    torch.manual_seed(1)
    net = p.lenet()
    as_in_4 = [t.detach().t().contiguous() if t.dim() == 2 else t.detach() for t in net.parameters()]
    save_file(dict(zip("W1 b1 W2 b2 W3 b3 W4 b4".split(), as_in_4)), start)
    c_program("04", "--devices", "4", "--steps", "5", "--no-shuffle", "--test-size", "10", "--load", start, "--log-loss", losses)
    minibatches, theirs = list(zip(*(t.split(256) for t in fashion_mnist("train", 5 * 256)))), [[] for _ in range(5)]
    nets = [p.lenet() for _ in range(4)]

    def compute(w, params, step):
        X, y = (t.tensor_split(4)[w] for t in minibatches[step])
        grads = p.gradients(nets[w], torch.device("cpu"), params, X, y)  # of the parameters that have been pulled
        theirs[step].append(p.F.cross_entropy(nets[w](X), y, reduction="sum").item())
        return grads
    servers, _, _ = p.train(parameters_to_vector(net.parameters()).detach(), 4, 2, compute, 0.2 / 256, 5, 0)
    with open(losses) as file:
        close("synchronous steps", [sum(of_step) / 256 for of_step in theirs], [float(row["loss"]) for row in csv.DictReader(file)][-5:])
    same("bytes in a step, of a worker", numbers(printed("07"), r"a worker ([\d,]+)"), [(str(2 * 4 * net_size(net)),)])
    same("bytes that servers count", sum(s.bytes for s in servers), 5 * 4 * 2 * 4 * net_size(net))


def net_size(net):
    return sum(t.numel() for t in net.parameters())


def train_08(rank, start, end):
    """A rank of the epoch that follows."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="29631")
    p = module("08")
    p.find_the_others()
    net = p.lenet()
    net.load_state_dict(load_file(start) if rank == 0 else net.state_dict())
    data = p.TensorDataset(*fashion_mnist("train", 1024))
    loader = p.DataLoader(data, 32, sampler=p.DistributedSampler(data, shuffle=False), drop_last=True)
    loader.sampler.epoch = 7
    args = SimpleNamespace(epochs=1, lr=0.05, parts=3, checkpoint=end)
    p.train_on_ranks(p.DDP(net), loader, fashion_mnist("train", 10), torch.device("cpu"), args)
    assert loader.sampler.epoch == 0, "set_epoch() is left out"
    dist.destroy_process_group()


def chapter_08():
    """The C program trains an epoch of two ranks. Then both train another from its checkpoint."""
    start, theirs = f"{FOLDER}/epoch1", f"{FOLDER}/theirs"
    flags = ("--train", "--batch-size", "32", "--train-size", "1024", "--test-size", "10", "--no-shuffle")
    c_program("08", *flags, "--epochs", "1", "--checkpoint", start, ranks=2)
    torch.multiprocessing.spawn(train_08, (start, theirs), nprocs=2)
    begin = load_file(start)
    c_program("08", *flags, "--epochs", "2", "--resume", start, ranks=2)
    ours, theirs = load_file(start), torch.load(theirs)
    for name, t in ours.items():
        update, difference = (t - begin[name]).norm(), (t - theirs[name]).norm()
        assert difference <= 1e-3 * update and update > 0, f"{name}: the updates of 16 steps differ by {difference / update}"


def chapter_09():
    c_program("09", "--devices", "2", "--memory-of", "resnet-18")
    with open(f"{FOLDER}/09_what_each_device_keeps_memory.csv") as file:
        kept = {row["stage"]: [int(row[what]) for what in ("parameters", "gradients", "moments")] for row in csv.DictReader(file)}
    theirs = numbers(printed("09"), r"^(DDP|ZeRO-\d)[^\d]* +([\d.]+) +([\d.]+) +([\d.]+) +[\d.]+$")
    assert len(theirs) == 4
    for stage, *mb in theirs:
        for part, bytes_of_c in zip(mb, kept[stage]):
            share = float(part) / float(theirs[0][1])
            assert abs(share - bytes_of_c / kept["DDP"][0]) < 0.005, f"{stage}: PyTorch keeps {mb} MB, C {kept[stage]} bytes"


def chapter_10():
    c_program("10", "--devices", "4", "--batch-size", "64", "--costs")
    with open(f"{FOLDER}/10_a_transformer_costs.csv") as file:
        sent = {row["split"]: float(row["bytes"]) / 1e6 for row in csv.DictReader(file)}
    same("megabytes that a rank sends", numbers(printed("10"), r"^splitting .* ([\d.]+)$"),
         [(f"{sent[what]:.2f}",) for what in ("layers split", "images split")])


if __name__ == "__main__":
    for name, check in sorted(globals().items()):
        if name.startswith("chapter_"):
            check()
            print(f"{name}: the same")
