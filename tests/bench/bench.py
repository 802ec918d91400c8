#!/usr/bin/env python3
"""Times training: our C programs against PyTorch, on the same machine.

    make bench                                          (or, by hand:)
    build/torch/bin/python tests/bench/bench.py [--threads N] [--rounds N] [--only lenet] [--csv F]
                                                [--no-best]

All run in processes of their own and take turns: a round is some training steps of one, then as
many of the next, so that whatever else slows the machine hits all. All use the same number of
threads, the same images, the same start and float32; all wait after each step, as the book's
train() does. Before each turn there is a short pause: idle OpenMP threads spin for a while before
they sleep, and would take the cores from the other side.

"PyTorch" is the book's program as it stands. "PyTorch, best" is what somebody who wants it fast
would make of it: a few other ways to run the same training (see WAYS) take turns with it first, and
the fastest stays, unless that is the book's. On a CPU one of them is torch.compile, which needs a C++
compiler and Python's headers (g++, python3-dev). It takes minutes, once: what it made is kept in
build/inductor. None of that counts as training time. --no-best leaves it out.

lenet, resnet: a training step (forward, backward, sgd) with a minibatch of synthetic images. Ours
    also copies it to the device's own memory; on a CPU PyTorch has no need to.
epoch: LeNet's steps as the book's loop makes them, over all of Fashion-MNIST, with PyTorch's
    DataLoader (four workers, as in d2l) and torchvision's Dataset. In the order of the file, so
    that both see the same minibatches. Another PyTorch does without the DataLoader ("no loader").

"loss" must agree, or they do not do the same work: then the last line says so, and the exit status
is 1. "ours, 2 devices" has the same cores divided between two devices (allreduce "sharded"; ResNet-18
with synchronised batch norm, which computes what one device computes); what else the machine does
disturbs it more than the others. LEGEND says what the other columns are. After that: which kernels
our steps spend their time in, matrix products next to other libraries', and allreduce.

With --device cuda all is on one GPU, first in true float32, then with TF32 on both sides. "peak MiB"
is then the GPU's memory, with what CUDA itself takes of it, and PyTorch's other ways start side by
side ("start" is longer than alone).

Python 3.9 or later, and torch, torchvision and numpy for PyTorch's half; else ours alone is timed.
"""
import argparse
import collections
import contextlib
import csv
import datetime
import gzip
import itertools
import json
import os
import platform
import statistics
import struct
import subprocess
import sys
import time

LENET_LR, RESNET_LR = 0.05, 0.01
FASHION_MNIST_SIZE = 60000
START = "build/bench_resnet18.safetensors"      # written by our program, read by PyTorch


def flop_of(layers):
    """Of a step with one image. Of each layer: how many numbers come out, of how many products each. Backward
    takes as many again for the gradient of the weights and for that of the inputs, but no one needs the
    gradient of the image; a product is two operations: it is added to a sum. Pooling, relu and the loss are
    left out; they are below 1 %."""
    products = [out * each for out, each in layers]
    return 2 * (3 * sum(products) - products[0])


def resnet_layers():
    layers, side, before = [(64 * 28 * 28, 9)], 28, 64
    for channels in (64, 128, 256, 512):
        if channels > 64:
            side //= 2
            layers.append((channels * side * side, before))             # the 1x1 of the shortcut
        layers.append((channels * side * side, 9 * (before + 3 * channels)))
        before = channels
    return [*layers, (10, 512)]


LENET_FLOP = flop_of([(20 * 26 * 26, 9), (50 * 9 * 9, 500), (128, 800), (10, 128)])
RESNET_FLOP = flop_of(resnet_layers())


# ---- PyTorch's half: obeys the same lines as step.c --------------------------------------------

def read_tensors(torch, path):
    """All tensors by name, without the safetensors package: a length, a JSON header, the numbers."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = bytearray(file.read())
    types = {"F32": torch.float32, "I64": torch.int64}
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(data[slice(*entry["data_offsets"])], dtype=types[entry["dtype"]])
            .reshape(entry["shape"]).clone() for name, entry in header.items()}


# The ways to run a training step. The first one is the book's, word for word. What the others do:
# "channels last" keeps images with their channels side by side, which oneDNN's convolutions like
# better; "compiled" is torch.compile of forward, backward and update; "tuned" lets it time several
# products for each shape. In ResNet-18 they update with one kernel ("fused").
EAGER = "as in the book"
WAYS = (EAGER, "channels last", "compiled", "compiled, channels last", "compiled and tuned, channels last")
# For an epoch also: all images in memory, and minibatches cut from there, without a DataLoader.
IN_MEMORY = ", in memory"
# On a GPU the book's program waits for Python, which launches kernel after kernel. So all other ways there
# replay one CUDA graph, a step recorded once, and take images from pinned memory (where a DataLoader with
# pin_memory=True would put them). "tuned" is cuDNN there, which times its algorithms for each convolution.
# (torch.compile's own tuning was tried as well: for ResNet-18 it takes minutes, and of nearly all
# convolutions it took cuDNN's; LeNet was not faster with it.)
GRAPH = "one graph"
GPU_WAYS = (EAGER, GRAPH, *(f"{GRAPH}, {way}" for way in (
    "tuned", "tuned, channels last", "tuned, compiled", "tuned, compiled, channels last")))


def compiler_of(torch, way):
    """What makes of a function another one that does the same."""
    if "compiled" not in way:
        return lambda function: function
    import logging                              # else it wonders where the GPU is
    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)
    # Each shape gets a program of its own: with the last minibatch of an epoch there are two.
    return torch.compile(dynamic=False, mode="max-autotune" if "compiled and tuned" in way else None)


def layout_of(torch, way):
    return torch.channels_last if "channels last" in way else torch.contiguous_format


def lenet(torch, device, way):
    """The book's train_batch on one device, as a function; and the tensors that it changes."""
    F, compiled, layout = torch.nn.functional, compiler_of(torch, way), layout_of(torch, way)
    start = read_tensors(torch, "tests/reference/lenet.safetensors")
    names = ("W1", "b1", "W2", "b2", "W3", "b3", "W4", "b4")
    params = [start[name].to(device) for name in names]
    params = [p.to(memory_format=layout) if p.dim() == 4 else p for p in params]
    params = [p.requires_grad_() for p in params]

    @compiled
    def total_loss(X, y, params):
        h1 = F.relu(F.conv2d(input=X, weight=params[0], bias=params[1]))
        h1 = F.avg_pool2d(input=h1, kernel_size=(2, 2), stride=(2, 2))
        h2 = F.relu(F.conv2d(input=h1, weight=params[2], bias=params[3]))
        h2 = F.avg_pool2d(input=h2, kernel_size=(2, 2), stride=(2, 2))
        h2 = h2.reshape(h2.shape[0], -1)
        h3 = F.relu(torch.mm(h2, params[4]) + params[5])
        return F.cross_entropy(torch.mm(h3, params[6]) + params[7], y, reduction="none").sum()

    @compiled
    @torch.no_grad()
    def sgd(params, grads, batch):              # d2l.sgd
        for param, grad in zip(params, grads):
            param -= LENET_LR * grad / batch
            grad.zero_()

    def train(X, y):
        loss = total_loss(X.to(memory_format=layout), y, params)
        loss.backward()
        sgd(params, [param.grad for param in params], len(X))
        return loss.detach() / len(X)
    return train, params


def resnet(torch, device, way):
    """The book's train, "Concise Implementation for Multiple GPUs", on one device."""
    sys.path.insert(0, "tests/reference")
    from resnet18 import resnet18
    compiled, layout = compiler_of(torch, way), layout_of(torch, way)
    net = resnet18(10)
    net.load_state_dict(read_tensors(torch, START))
    net.to(device, memory_format=layout)
    trainer = torch.optim.SGD(net.parameters(), RESNET_LR, fused=True if way != EAGER else None)
    loss = torch.nn.CrossEntropyLoss()
    mean_loss = compiled(lambda X, y: loss(net(X), y))

    def train(X, y):
        trainer.zero_grad()
        value = mean_loss(X.to(memory_format=layout), y)
        value.backward()
        trainer.step()
        return value.detach()
    return train, list(net.state_dict().values())


def synthetic_minibatches(torch, batch, pinned=False):
    """The same one again and again: grey noise whose contrast tells the label."""
    i = torch.arange(batch * 784, dtype=torch.int64)
    y = torch.arange(batch) % 10
    noise = ((i * 2654435761 & 0xFFFFFFFF) >> 24).reshape(batch, 1, 28, 28)
    X = (noise * (1 + y).reshape(-1, 1, 1, 1)).float() / 2550
    if pinned:
        X, y = X.pin_memory(), y.pin_memory()
    while True:
        yield X, y


def fashion_mnist(torch, batch):
    """d2l.load_data_fashion_mnist, for ever."""
    import warnings                             # four may be more than there are cores: so it is in the book
    warnings.filterwarnings("ignore", "This DataLoader will create")
    from torchvision import datasets, transforms
    data = datasets.FashionMNIST(root="build", train=True, transform=transforms.ToTensor())
    loader = torch.utils.data.DataLoader(data, batch, shuffle=False, num_workers=4)
    while True:
        yield from loader


def fashion_mnist_in_memory(torch, batch):
    """The same minibatches without workers: all images as one tensor. (Shuffling would cost a copy.)"""
    from torchvision import datasets
    data = datasets.FashionMNIST(root="build", train=True)
    X = data.data.unsqueeze(1)
    while True:
        for first in range(0, len(X), batch):
            yield X[first:first + batch].float() / 255, data.targets[first:first + batch]


def minibatches_of(torch, flags):
    if flags.worker != "epoch":
        return synthetic_minibatches(torch, flags.batch, pinned=GRAPH in flags.way)
    return (fashion_mnist_in_memory if IN_MEMORY in flags.way else fashion_mnist)(torch, flags.batch)


DATA = os.environ.get("FASHION_MNIST_DIR", "/usr/share/datasets/fashion-mnist")


def has_fashion_mnist():
    images = f"{DATA}/train-images-idx3-ubyte"
    return os.path.exists(images) or os.path.exists(f"{images}.gz")


def unpack_fashion_mnist():
    """torchvision reads unpacked files from a folder of its own."""
    target = "build/FashionMNIST/raw"
    os.makedirs(target, exist_ok=True)
    for kind in ("train", "t10k"):
        for name in (f"{kind}-images-idx3-ubyte", f"{kind}-labels-idx1-ubyte"):
            packed = f"{DATA}/{name}.gz"
            if os.path.exists(f"{target}/{name}"):
                continue
            with (gzip.open(packed) if os.path.exists(packed) else open(packed[:-3], "rb")) as file:
                data = file.read()
            with open(f"{target}/{name}", "wb") as file:
                file.write(data)


@contextlib.contextmanager
def put_back(torch, state):
    """What the steps inside of this change is put back."""
    before = [t.detach().clone() for t in state]
    yield
    with torch.no_grad():
        for t, old in zip(state, before):
            t.copy_(old)


def compile_now(torch, train, state, flags):
    """Compiles for all shapes that there will be. Twice, for gradients are new in the first step."""
    rest = FASHION_MNIST_SIZE % flags.batch
    sizes = [flags.batch] + ([rest] if flags.worker == "epoch" and rest else [])
    with put_back(torch, state):
        for size, _ in itertools.product(sizes, range(2)):
            train(*(t.to(flags.device) for t in next(synthetic_minibatches(torch, size))))


def as_graph(torch, train, state, X, y):
    """The same step as a CUDA graph, as PyTorch's documentation has it: some steps on another
    stream, then one that is captured. It takes minibatches from the host."""
    X_here, y_here = X.to("cuda"), y.to("cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with put_back(torch, state):
        with torch.cuda.stream(stream):
            for _ in range(3):
                train(X_here, y_here)
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(graph):
            loss = train(X_here, y_here)

    def replay(X, y):
        X_here.copy_(X, non_blocking=True)
        y_here.copy_(y, non_blocking=True)
        graph.replay()
        return loss
    return replay


def pytorch_worker(flags):
    import torch
    torch.set_num_threads(flags.threads)
    torch.backends.cudnn.benchmark = "tuned" in flags.way
    torch.backends.cudnn.allow_tf32 = flags.tf32
    torch.backends.cuda.matmul.allow_tf32 = flags.tf32
    minibatches = minibatches_of(torch, flags)
    train, state = (resnet if flags.worker == "resnet" else lenet)(torch, flags.device, flags.way)
    if "compiled" in flags.way:
        compile_now(torch, train, state, flags)
    if GRAPH in flags.way:
        train = as_graph(torch, train, state, *next(minibatches))
    for line in sys.stdin:
        if line.startswith("quit"):
            break
        steps = int(line.split()[1])
        begin = time.perf_counter()
        for _ in range(steps):
            X, y = next(minibatches)
            if GRAPH not in flags.way:
                X, y = X.to(flags.device), y.to(flags.device)
            loss = train(X, y)
            if flags.device == "cuda":
                torch.cuda.synchronize()
        seconds = (time.perf_counter() - begin) / steps
        print(f"{seconds:.9f} {loss.item():.6f}", flush=True)


# ---- the driver ------------------------------------------------------------------------------

class Ended(Exception):
    """A program ended without an answer."""


def median_of(values, form):
    return f"{statistics.median(values):{form}} [{min(values):{form}} .. {max(values):{form}}]"


class Side:
    """One of the programs, and what it measured."""

    def __init__(self, name, command, way=""):
        self.name, self.way, self.seconds, self.loss = name, way, [], float("nan")
        self.on_gpu, self.begin = "cuda" in command, time.perf_counter()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def warm_up(self, model):
        self.first = self.run(1)
        self.start = time.perf_counter() - self.begin - self.first
        self.run(model.warm_up - 1)
        self.early_loss = self.loss
        return self

    def run(self, steps):
        """Seconds per step."""
        with contextlib.suppress(BrokenPipeError):      # it has ended: its answer is empty
            self.process.stdin.write(f"run {steps}\n")
            self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if len(answer) != 2:
            raise Ended(f"{self.name} {self.way} ended without an answer (see its message above)")
        self.loss = float(answer[1])
        return float(answer[0])

    def peak_memory(self):
        """The most memory it ever held, in MiB; None where that is not told."""
        if self.on_gpu:                         # what it has there now: neither side gives any back
            lines = nvidia_smi("--query-compute-apps=pid,used_memory").splitlines()
            return next((float(used) for pid, used in (line.split(",") for line in lines)
                         if int(pid) == self.process.pid and used.strip().isdigit()), None)
        return value_in(f"/proc/{self.process.pid}/status", "VmHWM", lambda text: int(text.split()[0]) / 1024)

    def quit(self):
        self.memory = self.peak_memory()
        self.process.stdin.write("quit\n")
        self.process.stdin.close()
        self.process.wait()


def check_losses(sides, model, flags):
    """Those whose loss agrees with the first one's; the others are complained of."""
    tolerance = 1e-2 if flags.tf32 else model.tolerance     # of TF32: ten bits of each factor are left
    agree = [side for side in sides
             if abs(side.early_loss - sides[0].early_loss) <= tolerance * sides[0].early_loss]
    flags.complaints += [f"after {model.warm_up} steps of {model.name} the losses are {sides[0].early_loss} "
                         f"and {side.early_loss}: {side.name} {side.way} does not compute the same thing"
                         for side in sides if side not in agree]
    return agree


def take_turns(sides, rounds, steps, flags):
    """The median over the rounds of the first one's time / each one's, with the spread."""
    for side in sides:
        side.seconds = []
    for i in range(rounds):
        for side in sides if i % 2 == 0 else sides[::-1]:   # nobody always goes first
            time.sleep(flags.pause)
            side.seconds.append(side.run(steps))
    for side in sides:
        side.ratios = [a / b for a, b in zip(sides[0].seconds, side.seconds)]


FIELDS = ("date", "device", "driver", "toolkit", "isa", "compiler", "pytorch", "threads", "model", "batch",
          "tf32", "side", "way", "ms", "min_ms", "max_ms", "gflops", "share_of_sgemm", "ours_over_this",
          "peak_mib", "start_s", "first_step_s")


def open_csv(path):
    """A file with these fields, or a new one. Rows are appended, so that it may hold several machines."""
    if not os.path.exists(path):
        append_csv([dict(zip(FIELDS, FIELDS))], path)
    with open(path, newline="") as file:
        if next(csv.reader(file), None) != list(FIELDS):
            sys.exit(f"bench.py: {path} has other columns\nhint: name a new file")


def append_csv(rows, path):
    with open(path, "a", newline="") as file:
        csv.DictWriter(file, FIELDS).writerows(rows)


def show(sides, model, peak, tf32, where):
    """Prints the table; returns it as rows of the CSV."""
    rows = []
    print(f"{'':18}{'ms per step':>27}{'GFLOP/s':>10}{'of sgemm':>11}{'peak MiB':>11}{'start, s':>11}"
          f"{'first, s':>11}   loss after {model.warm_up} steps")
    for side in sides:
        ms = [1e3 * s for s in side.seconds]
        gflops = model.batch * model.flop / statistics.median(side.seconds) / 1e9
        memory = "" if side.memory is None else f"{side.memory:.0f}"
        print(f"{side.name:18}{median_of(ms, '.2f'):>27}{gflops:10.1f}{gflops / peak:11.2f}{memory or 'n/a':>11}"
              f"{side.start:11.2f}{side.first:11.2f}   {side.early_loss:.5f}   {side.way}")
        figures = {"ms": statistics.median(ms), "min_ms": min(ms), "max_ms": max(ms),
                   "share_of_sgemm": gflops / peak, "ours_over_this": statistics.median(side.ratios)}
        rows.append({**where, "model": model.name, "batch": model.batch, "tf32": int(tf32), "side": side.name,
                     "way": side.way, "gflops": f"{gflops:.1f}", "peak_mib": memory, "start_s": f"{side.start:.2f}",
                     "first_step_s": f"{side.first:.2f}", **{key: f"{figures[key]:.3f}" for key in figures}})
    for side in sides[1:]:
        print(f"{'ratio':18}{median_of(side.ratios, '.2f'):>27}   {sides[0].name} / {side.name}, round by round: "
              f"{1 / statistics.median(side.ratios):.2f} times as fast")
    return rows


# ---- what there is here ------------------------------------------------------------------------

def value_in(path, name, of=str.strip):
    """What stands behind the name and a colon; None: nothing does."""
    try:
        with open(path) as file:
            return next(of(line.split(":")[1]) for line in file if line.startswith(name))
    except (OSError, StopIteration):
        return None


def output_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def nvidia_smi(query):
    return output_of("nvidia-smi", query, "--format=csv,noheader,nounits")


def version_of(expression, module):
    """Asked in a process of its own, so that the driver stays small; None: not installed."""
    result = subprocess.run([sys.executable, "-c", f"import {module}; print({expression})"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return result.stdout.strip() if result.returncode == 0 else None


def what_is_here(flags):
    """The first fields of each row."""
    isa, compiler = output_of(flags.step, "about").splitlines()
    where = {"date": datetime.date.today().isoformat(), "device": value_in("/proc/cpuinfo", "model name") or
             platform.processor() or platform.machine(), "driver": "", "toolkit": "", "isa": isa, "compiler": compiler,
             "pytorch": version_of("torch.__version__", "torch, torchvision, numpy") or "", "threads": flags.threads}
    if flags.device == "cuda":
        name, driver = nvidia_smi("--query-gpu=name,driver_version").splitlines()[0].split(",")
        where.update(device=name.strip(), driver=driver.strip(), isa="",
                     toolkit=version_of("torch.version.cuda", "torch") or "")
    return where


# ---- who is compared ---------------------------------------------------------------------------

# A turn has so many steps; while the best of PyTorch's ways is looked for, `trial`, over TRIALS rounds.
Model = collections.namedtuple("Model", "name title batch flop steps warm_up rounds trial tolerance")
MODELS = {"cpu": [
    Model("lenet", "LeNet training step", 256, LENET_FLOP, 10, 10, 15, 10, 1e-4),
    Model("epoch", "LeNet, an epoch with its data", 256, LENET_FLOP, 235, 10, 3, 20, 1e-4),
    # Batch norm makes rounding grow from step to step: after two the losses agree less.
    Model("resnet", "ResNet-18 training step", 64, RESNET_FLOP, 1, 2, 15, 1, 1e-3),
], "cuda": [
    Model("lenet", "LeNet training step", 256, LENET_FLOP, 200, 20, 9, 100, 1e-4),
    Model("resnet", "ResNet-18 training step", 256, RESNET_FLOP, 10, 2, 9, 5, 1e-3),
]}
TRIALS = 7


def parse_flags():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="for each side (all cores)")
    parser.add_argument("--rounds", type=int, help="(15, and 3 epochs)")
    parser.add_argument("--pause", type=float, default=0.2, help="seconds before each turn (0.2)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--only", choices=[*(model.name for model in MODELS["cpu"]), "kernels"])
    parser.add_argument("--no-best", action="store_true", help="PyTorch as in the book only: nothing is compiled")
    parser.add_argument("--csv", help="append the figures to this file")
    parser.add_argument("--build", default="build", help="folder of our half")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--way", default=EAGER, help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--tf32", action="store_true", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    flags.step, flags.complaints = f"{flags.build}/tests/bench/step", []     # of losses that do not agree
    return flags


def how(flags):
    """What both halves are told."""
    return ["--threads", str(flags.threads), "--device", flags.device, *(["--tf32"] if flags.tf32 else [])]


def ours_side(name, model, flags, *more):
    return Side(name, [flags.step, model.name, "--batch", str(model.batch), *how(flags), *more]).warm_up(model)


def pytorch_side(name, model, flags, way=EAGER):
    return Side(name, [sys.executable, os.path.abspath(__file__), "--worker", model.name, "--way", way,
                       "--batch", str(model.batch), *how(flags)], way)


def best_of_pytorch(eager, model, flags):
    """All ways take turns with the book's; the one that took the smallest share of its time stays, if it
    took less than the book's. Of an epoch there are two such: with the DataLoader, and without."""
    ways = list(GPU_WAYS if flags.device == "cuda" else WAYS)[1:]
    if model.name == "epoch":
        ways += [way + IN_MEMORY for way in WAYS]
    sides = (pytorch_side("PyTorch, no loader" if IN_MEMORY in way else "PyTorch, best", model, flags, way)
             for way in ways)
    others = []
    # On a CPU each has it to itself while it starts. Of a GPU's machine they use one core or few.
    for side in list(sides) if flags.device == "cuda" else sides:
        try:
            others.append(side.warm_up(model))
        except Ended as ended:                  # a PyTorch that cannot do it, or not here
            print(f"left out: {ended}")
    others = check_losses([eager, *others], model, flags)[1:]
    take_turns([eager, *others], TRIALS, model.trial, flags)
    share = {side: 1 / statistics.median(side.ratios) for side in others}
    print(f"\n{model.title}: other ways in PyTorch, their time / the book's")
    for side in others:
        print(f"{share[side]:8.2f}   {side.way}")
    kinds = [[side for side in others if (IN_MEMORY in side.way) == in_memory] for in_memory in (False, True)]
    best = [side for side in (min(kind, key=share.get) for kind in kinds if kind) if share[side] < 1]
    if not best:
        print("          none is faster than the book's, which is the best then")
    for side in others:
        if side not in best:
            side.quit()
    return best


def sides_of(model, flags, with_torch):
    """Each as it starts: one at a time, so that all have the machine to themselves."""
    yield ours_side("ours", model, flags)
    if with_torch:
        eager = pytorch_side("PyTorch", model, flags).warm_up(model)
        yield eager
        if not flags.no_best:
            yield from best_of_pytorch(eager, model, flags)
    if flags.device == "cuda" and model.name == "lenet":
        yield ours_side("ours, no graph", model, flags, "--no-graph")
    elif flags.device == "cpu" and model.name != "epoch" and flags.threads > 1:
        yield ours_side("ours, 2 devices", model, flags, "--devices", "2")


LEGEND = """
ratio: the median over the rounds of our time / the other's in that round; below 1, ours takes less time.
of sgemm: GFLOP/s next to those of a product of large matrices; it may be above 1, because Winograd's method
needs fewer multiplications than are counted. peak MiB: memory, without DataLoader's workers. start: seconds
before the first step, compiling included. first: seconds of the first step, which gets most of the memory."""


def sgemm_peak(flags):
    """GFLOP/s of a product of large matrices: the best of some."""
    side = Side("sgemm", [flags.step, "sgemm", *how(flags)])
    seconds = min(side.run(1) for _ in range(10))
    side.quit()
    return side.loss / seconds / 1e9            # here its second figure is how many operations these are


def measure_models(models, flags, where):
    peak = sgemm_peak(flags)
    print(f"a product of large matrices (sgemm): {peak:.0f} GFLOP/s")
    for model in models:
        sides = list(sides_of(model, flags, where["pytorch"]))
        check_losses(sides, model, flags)
        take_turns(sides, flags.rounds or model.rounds, model.steps, flags)
        for side in sides:
            side.quit()
        print(f"\n{model.title}, batch {model.batch}, {'TF32' if flags.tf32 else 'float32'}, "
              f"{flags.device}, {len(sides[0].seconds)} rounds of {model.steps}: median [min .. max]")
        rows = show(sides, model, peak, flags.tf32, where)
        if flags.csv:
            append_csv(rows, flags.csv)


def print_kernels(flags):
    """Where our time goes."""
    threads, bench = str(flags.threads), f"{flags.build}/tests/bench"
    for command in (["step", "lenet", "--batch", "256", "--threads", threads, "--shares", "25"],
                    ["step", "resnet", "--batch", "64", "--threads", threads, "--shares", "9"],
                    *(["gemm", n] for n in sorted({"1", threads})), ["allreduce", threads]):
        print()
        subprocess.run([f"{bench}/{command[0]}", *command[1:]], check=True)


def measure(flags):
    where = what_is_here(flags)
    print(f"{where['device']}; {flags.threads} threads; ours {where['isa']}, {where['compiler']}; driver "
          f"{where['driver'] or '-'}; PyTorch {where['pytorch'] or 'not installed'}, CUDA {where['toolkit'] or '-'}")
    models = [model for model in MODELS[flags.device] if flags.only in (None, model.name)]
    if not has_fashion_mnist() and any(model.name == "epoch" for model in models):
        print(f"no epoch: the data set is not in {DATA} (make setup gets it)")
        models = [model for model in models if model.name != "epoch"]
    if not where["pytorch"]:
        print("No torch, torchvision and numpy here, so ours alone. To get them (5.4 GB on the disk): python3 -m venv "
              "build/torch && build/torch/bin/pip install torch torchvision numpy")
    elif models:
        unpack_fashion_mnist()
        subprocess.run([f"{flags.build}/05_resnet18_concise", "--steps", "0", "--devices", "1", "--test-size", "1",
                        "--train-size", "1", "--save", START, "--out", "build"], check=True, stdout=subprocess.DEVNULL)
    for flags.tf32 in (False, True) if flags.device == "cuda" else (False,):
        if models:
            measure_models(models, flags, where)
    if models:
        print(LEGEND)
    if flags.device == "cpu" and flags.only in (None, "kernels"):
        print_kernels(flags)


def main():
    sys.stdout.reconfigure(line_buffering=True)     # else our programs' lines come before ours
    flags = parse_flags()
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.abspath("build/inductor"))
    if flags.worker:
        pytorch_worker(flags)
        return None
    if not os.access(flags.step, os.X_OK):
        sys.exit(f"bench.py: no program {flags.step}\nhint: make it first, and run this from the project's folder")
    if flags.csv:
        open_csv(flags.csv)
    try:
        measure(flags)
    except Ended as ended:
        sys.exit(f"bench.py: {ended}")
    return "\n".join(f"bench.py: {complaint}" for complaint in flags.complaints) or None


if __name__ == "__main__":
    sys.exit(main())
