#!/usr/bin/env python3
"""Times training: our C programs against PyTorch, on the same machine.

    make bench                                          (or, by hand:)
    build/torch/bin/python tests/bench/bench.py [--threads N] [--rounds N] [--only lenet] [--csv F] [--no-best]

All run in processes of their own and take turns: a round is some training steps of one, then as many of the next,
so that whatever else slows the machine hits all. All use the same number of threads, the same images, the same
start and float32; all wait after each step, as the book's train() does. Before each turn there is a short pause:
idle OpenMP threads spin for a while before they sleep, and would take the cores from the other side.

"PyTorch" is the book's program as it stands. "PyTorch, best" is what somebody who wants it fast would make of it: a
few other ways to run the same training (see WAYS) take turns with it first, and the fastest stays, unless that is
the book's. On a CPU one of them is torch.compile, which needs a C++ compiler and Python's headers (g++,
python3-dev) and takes minutes, once: what it made is kept in build/inductor. None of that counts as training time.

lenet, resnet, vit: a training step (forward, backward, update) with a minibatch of synthetic images. Ours also copies it to
    the device's own memory; on a CPU PyTorch has no need to.
epoch: LeNet's steps as the book's loop makes them, over all of Fashion-MNIST in the order of the file, with
    torchvision's Dataset and a DataLoader (four workers, as in d2l), or all images in memory ("no loader").

Losses must agree, or they do not do the same work: then the last line says so, and the exit status is 1. "ours, 2
devices" has the same cores divided between two devices (allreduce "sharded"; ResNet-18 with synchronised batch
norm, which computes what one device computes). LEGEND says what the columns are. With --device cuda all is on one
GPU, first in float32, then with TF32 on both sides; memory is the GPU's, with what CUDA itself takes of it, and
PyTorch's other ways start side by side ("start" is longer than alone).

Python 3.9 or later, and torch, torchvision and numpy for PyTorch's half; else ours alone is timed.
"""
import argparse
import collections
import contextlib
import csv
import datetime
import glob
import itertools
import json
import os
import platform
import statistics
import struct
import subprocess
import sys
import time

LENET_LR, RESNET_LR, VIT_LR = 0.05, 0.01, 0.001
PAUSE = 0.2                                     # seconds before each turn
START = "build/bench_resnet18.safetensors"      # written by our program, read by PyTorch
VIT_START = "build/bench_vit.floats"            # so is this


def flop_of(products):
    """Of a step with one image, from the multiplications of each layer. Backward takes as many again for the gradient
    of the weights and for that of the inputs, but no one needs the gradient of the image; each product is added to a
    sum, too. Pooling, relu and the loss are left out; they are below 1 %."""
    return 2 * (3 * sum(products) - products[0])


LENET_FLOP = flop_of([20 * 26 * 26 * 9, 50 * 9 * 9 * 500, 128 * 800, 10 * 128])
RESNET_FLOP = flop_of([64 * 28 * 28 * 9, 4 * 64 * 28 * 28 * 9 * 64,     # then: two blocks, the first with a 1x1 beside it
                       *(c * side * side * (c // 2 + 9 * (c // 2 + 3 * c)) for c, side in ((128, 14), (256, 7), (512, 4))),
                       10 * 512])
# A token of width 64 goes through 4 blocks, which multiply it by 12 * 64^2 weights, and with each of 16 tokens twice.
VIT_FLOP = flop_of([16 * 49 * 64, *[16 * (12 * 64 * 64 + 2 * 16 * 64)] * 4, 10 * 64])


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


# The ways to run a training step. The first one is the book's, word for word. What the others do: "channels last"
# keeps images with their channels side by side, which oneDNN's convolutions like better; "compiled" is torch.compile
# of forward, backward and update; "tuned" lets it time several products for each shape. In ResNet-18 they update with
# one kernel ("fused").
EAGER = "as in the book"
WAYS = (EAGER, "channels last", "compiled", "compiled, channels last", "compiled and tuned, channels last")
# For an epoch also: all images in memory, and minibatches cut from there, without a DataLoader.
IN_MEMORY = ", in memory"
# On a GPU the book's program waits for Python, which launches kernel after kernel. So all other ways there replay one
# CUDA graph, a step recorded once, and take images from pinned memory (where a DataLoader with pin_memory=True would
# put them). "tuned" is cuDNN there, which times its algorithms for each convolution. (torch.compile's own tuning takes
# minutes for ResNet-18, and of nearly all convolutions it took cuDNN's; LeNet was not faster with it.)
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


def lenet(torch, device, way, compiled, layout):
    """The book's train_batch on one device, as a function; and the tensors that it changes."""
    from resnet18 import lenet as model
    start = read_tensors(torch, "tests/reference/lenet.safetensors")
    params = [start[name].to(device) for name in ("W1", "b1", "W2", "b2", "W3", "b3", "W4", "b4")]
    params = [(p.to(memory_format=layout) if p.dim() == 4 else p).requires_grad_() for p in params]

    @compiled
    def total_loss(X, y, params):
        return torch.nn.functional.cross_entropy(model(X, params), y, reduction="none").sum()

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


def resnet(torch, device, way, compiled, layout):
    """The book's train, "Concise Implementation for Multiple GPUs", on one device."""
    from resnet18 import resnet18
    net = resnet18(10)
    net.load_state_dict(read_tensors(torch, START))
    net.to(device, memory_format=layout)
    trainer = torch.optim.SGD(net.parameters(), RESNET_LR, fused=True if way != EAGER else None)
    mean_loss = compiled(lambda X, y: torch.nn.functional.cross_entropy(net(X), y))

    def train(X, y):
        trainer.zero_grad()
        value = mean_loss(X.to(memory_format=layout), y)
        value.backward()
        trainer.step()
        return value.detach()
    return train, list(net.state_dict().values())


def vit(torch, device, way, compiled, layout):
    """Chapter 10's, on one device. (Its images have one channel: "channels last" changes nothing.)"""
    sys.path.insert(0, "chapters/10_a_transformer")
    import in_pytorch
    start, first = in_pytorch.vit_start(64), 0
    with open(VIT_START, "rb") as file:
        numbers = torch.frombuffer(bytearray(file.read()), dtype=torch.float32)
    for name, tensor in start.items():
        start[name] = numbers[first:first + tensor.numel()].reshape(tensor.shape)
        first += tensor.numel()
    v = in_pytorch.vit_new(start, 1, 0, device)
    adam = torch.optim.Adam(v.params.values(), VIT_LR, fused=True if way != EAGER else None, capturable=GRAPH in way)
    for p in v.params.values():                 # a step without gradients makes Adam's state, to be put back
        p.grad = torch.zeros_like(p)
    adam.step()
    for s in adam.state.values():
        s["step"].zero_()
    mean_loss = compiled(lambda X, y: torch.nn.functional.cross_entropy(in_pytorch.vit_forward(v, X), y))

    def train(X, y):
        adam.zero_grad()
        value = mean_loss(X, y)
        value.backward()
        adam.step()
        return value.detach()
    return train, [*v.params.values(), *(t for s in adam.state.values() for t in s.values())]


def synthetic_minibatches(torch, batch, pinned=False):
    """The same one again and again: grey noise whose contrast tells the label."""
    i = torch.arange(batch * 784, dtype=torch.int64)
    y = torch.arange(batch) % 10
    noise = ((i * 2654435761 & 0xFFFFFFFF) >> 24).reshape(batch, 1, 28, 28)
    X = (noise * (1 + y).reshape(-1, 1, 1, 1)).float() / 2550
    return itertools.repeat((X.pin_memory(), y.pin_memory()) if pinned else (X, y))


def fashion_mnist(torch, batch, in_memory):
    """d2l.load_data_fashion_mnist, for ever; or the same minibatches cut from one tensor of all images, without
    workers. (Shuffling would cost a copy.)"""
    import warnings                             # four may be more than there are cores: so it is in the book
    warnings.filterwarnings("ignore", "This DataLoader will create")
    from torchvision import datasets, transforms
    data = datasets.FashionMNIST(root="build", train=True, transform=transforms.ToTensor())
    loader = torch.utils.data.DataLoader(data, batch, shuffle=False, num_workers=4)
    X = data.data.unsqueeze(1)
    while True:
        if not in_memory:
            yield from loader
        for first in range(0, len(X) if in_memory else 0, batch):
            yield X[first:first + batch].float() / 255, data.targets[first:first + batch]


DATA = os.environ.get("FASHION_MNIST_DIR", "/usr/share/datasets/fashion-mnist")
UNPACK = """mkdir -p build/FashionMNIST/raw          # the folder where torchvision looks
for file in "$0"/*-ubyte*; do name=${file##*/}; zcat -f "$file" >"build/FashionMNIST/raw/${name%.gz}"; done"""


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
    sizes = {flags.batch_size, 60000 % flags.batch_size or flags.batch_size} if flags.worker == "epoch" else {flags.batch_size}
    with put_back(torch, state):
        for size, _ in itertools.product(sizes, range(2)):
            train(*(t.to(flags.device) for t in next(synthetic_minibatches(torch, size))))


def as_graph(torch, train, state, X, y):
    """The same step as a CUDA graph, as PyTorch's documentation has it: some steps on another stream, then one that is
    captured. It takes minibatches from the host."""
    X_here, y_here, stream, graph = X.to("cuda"), y.to("cuda"), torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
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
    sys.path.insert(0, "tests/reference")       # the book's networks
    torch.set_num_threads(flags.threads)
    torch.backends.cudnn.benchmark = "tuned" in flags.way
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = flags.tf32
    minibatches = (fashion_mnist(torch, flags.batch_size, IN_MEMORY in flags.way) if flags.worker == "epoch" else
                   synthetic_minibatches(torch, flags.batch_size, pinned=GRAPH in flags.way))
    train, state = {"resnet": resnet, "vit": vit}.get(flags.worker, lenet)(
        torch, flags.device, flags.way, compiler_of(torch, flags.way),
        torch.channels_last if "channels last" in flags.way else torch.contiguous_format)
    if "compiled" in flags.way:
        compile_now(torch, train, state, flags)
    if GRAPH in flags.way:
        train = as_graph(torch, train, state, *next(minibatches))
    for line in sys.stdin:
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
            raise EOFError(f"{self.name} {self.way} ended without an answer (see its message above)")
        self.loss = float(answer[1])
        return float(answer[0])

    def peak_memory(self):
        """The most memory it ever held, in MiB; "" where that is not told."""
        if self.on_gpu:                         # what it has there now: neither side gives any back
            return "".join(used for pid, used in nvidia_smi("--query-compute-apps=pid,used_memory")
                           if int(pid) == self.process.pid and used.isdigit())
        kib = value_in(f"/proc/{self.process.pid}/status", "VmHWM").split()
        return f"{int(kib[0]) / 1024:.0f}" if kib else ""

    def quit(self):
        self.memory = self.peak_memory()
        self.process.stdin.close()
        self.process.wait()


def check_losses(sides, model, flags):
    """Those whose loss agrees with the first one's; the others are complained of."""
    tolerance = 1e-2 if flags.tf32 else model.tolerance     # of TF32: ten bits of each factor are left
    agree = [side for side in sides if abs(side.early_loss - sides[0].early_loss) <= tolerance * sides[0].early_loss]
    flags.complaints += [f"after {model.warm_up} steps of {model.name} the losses are {sides[0].early_loss} and "
                         f"{side.early_loss}: {side.name} {side.way} does not compute the same thing"
                         for side in sides if side not in agree]
    return agree


def take_turns(sides, rounds, steps):
    """The median over the rounds of the first one's time / each one's, with the spread."""
    for side in sides:
        side.seconds = []
    for i in range(rounds):
        for side in sides if i % 2 == 0 else sides[::-1]:   # nobody always goes first
            time.sleep(PAUSE)
            side.seconds.append(side.run(steps))
    for side in sides:
        side.ratios = [a / b for a, b in zip(sides[0].seconds, side.seconds)]


FIELDS = ("date", "device", "driver", "toolkit", "isa", "compiler", "pytorch", "threads", "model", "batch",
          "tf32", "side", "way", "ms", "min_ms", "max_ms", "gflops", "share_of_sgemm", "ours_over_this",
          "peak_mib", "start_s", "first_step_s")


def open_csv(path):
    """A file with these fields, or a new one. Rows are appended, so that it may hold several machines."""
    file = open(path, "a+", newline="", buffering=1)
    rows = csv.DictWriter(file, FIELDS)
    if not file.tell():
        rows.writeheader()
    file.seek(0)
    if next(csv.reader(file)) != list(FIELDS):
        sys.exit(f"bench.py: {path} has other columns\nhint: name a new file")
    return rows


def show(sides, model, peak, flags, where):
    """Prints the table, and writes it to the CSV."""
    print(f"\n{model.title}, batch {model.batch}, {'TF32' if flags.tf32 else 'float32'}, {flags.device}, "
          f"{len(sides[0].seconds)} rounds of {model.steps}: median [min .. max]\n{'':18}{'ms per step':>30}"
          f"{'ours / this':>22}{'GFLOP/s':>10}{'of sgemm':>10}{'peak MiB':>10}{'start, s':>10}{'first, s':>10}"
          f"   loss after {model.warm_up} steps")
    for side in sides:
        ms, ratio = statistics.median(side.seconds) * 1e3, statistics.median(side.ratios)
        gflops = model.batch * model.flop / ms / 1e6
        row = {"model": model.name, "batch": model.batch, "tf32": int(flags.tf32), "side": side.name, "way": side.way,
               "ms": f"{ms:.3f}", "min_ms": f"{min(side.seconds) * 1e3:.3f}", "max_ms": f"{max(side.seconds) * 1e3:.3f}",
               "gflops": f"{gflops:.1f}", "share_of_sgemm": f"{gflops / peak:.3f}", "ours_over_this": f"{ratio:.3f}",
               "peak_mib": side.memory, "start_s": f"{side.start:.2f}", "first_step_s": f"{side.first:.2f}"}
        print(f"{side.name:18}" + f"{ms:.2f} [{min(side.seconds) * 1e3:.2f} .. {max(side.seconds) * 1e3:.2f}]".rjust(30) +
              f"{ratio:.2f} [{min(side.ratios):.2f} .. {max(side.ratios):.2f}]".rjust(22) + f"{row['gflops']:>10}"
              f"{gflops / peak:10.2f}{row['peak_mib'] or 'n/a':>10}{row['start_s']:>10}{row['first_step_s']:>10}"
              f"   {side.early_loss:.5f}   {side.way}")
        if flags.rows:
            flags.rows.writerow({**where, **row})


# ---- what there is here ------------------------------------------------------------------------

def value_in(path, name):
    """What stands behind the name and a colon; "": nothing does."""
    with contextlib.suppress(OSError), open(path) as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith(name)), "")
    return ""


def output_of(*command, **how):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, **how).stdout.strip()


def nvidia_smi(query):
    lines = output_of("nvidia-smi", query, "--format=csv,noheader,nounits", check=True).splitlines()
    return [[cell.strip() for cell in line.split(",")] for line in lines]


def version_of(expression, module):
    """Asked in a process of its own, so that the driver stays small; "": not installed."""
    return output_of(sys.executable, "-c", f"import {module}; print({expression})", stderr=subprocess.DEVNULL)


def what_is_here(flags):
    """The first fields of each row."""
    isa, compiler = output_of(flags.step, "--train", "about", check=True).splitlines()
    where = {"date": datetime.date.today().isoformat(), "compiler": compiler, "threads": flags.threads,
             "pytorch": version_of("torch.__version__", "torch, torchvision, numpy")}
    if flags.device == "cuda":
        name, driver = nvidia_smi("--query-gpu=name,driver_version")[0]
        return {**where, "device": name, "driver": driver, "isa": "", "toolkit": version_of("torch.version.cuda", "torch")}
    name = value_in("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()
    return {**where, "device": name, "driver": "", "isa": isa, "toolkit": ""}


# ---- who is compared ---------------------------------------------------------------------------

# A turn has so many steps; while the best of PyTorch's ways is looked for, `trial`, over TRIALS rounds.
Model = collections.namedtuple("Model", "name title batch flop steps warm_up rounds trial tolerance")
MODELS = {"cpu": [
    Model("lenet", "LeNet training step", 256, LENET_FLOP, 10, 10, 15, 10, 1e-4),
    Model("epoch", "LeNet, an epoch with its data", 256, LENET_FLOP, 235, 10, 3, 20, 1e-4),
    # Batch norm makes rounding grow from step to step: after two the losses agree less.
    Model("resnet", "ResNet-18 training step", 64, RESNET_FLOP, 1, 2, 15, 1, 1e-3),
    Model("vit", "Vision transformer training step", 256, VIT_FLOP, 2, 4, 15, 2, 1e-3),
], "cuda": [
    Model("lenet", "LeNet training step", 256, LENET_FLOP, 200, 20, 9, 100, 1e-4),
    Model("resnet", "ResNet-18 training step", 256, RESNET_FLOP, 10, 2, 9, 5, 1e-3),
    Model("vit", "Vision transformer training step", 256, VIT_FLOP, 50, 4, 9, 20, 1e-3),
]}
TRIALS = 7
SGEMM = Model("sgemm", "", 1, *[None] * 6)


def parse_flags():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of each side (all cores)")
    parser.add_argument("--rounds", type=int, help="(15, and 3 epochs)")
    parser.add_argument("--device", "--backend", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--only", choices=["lenet", "epoch", "resnet", "vit"])
    parser.add_argument("--no-best", action="store_true", help="PyTorch as in the book only: nothing is compiled")
    parser.add_argument("--csv", help="append the figures to this file")
    parser.add_argument("--build", default="build", help="folder of our half")
    for hidden, more in {"worker": {}, "way": {}, "batch-size": {"type": int}, "tf32": {"action": "store_true"}}.items():
        parser.add_argument(f"--{hidden}", help=argparse.SUPPRESS, **more)
    flags = parser.parse_args()
    flags.step, flags.complaints = f"{flags.build}/tests/bench/step", []     # of losses that do not agree
    flags.rows = open_csv(flags.csv) if flags.csv else None
    return flags


def start(name, model, flags, *more, way=""):
    """One of our programs, or, in some way, PyTorch's."""
    half = [sys.executable, os.path.abspath(__file__), "--way", way, "--worker"] if way else [flags.step, "--train"]
    return Side(name, [*half, model.name, "--batch-size", str(model.batch), "--threads", str(flags.threads),
                       "--backend", flags.device, *(["--tf32"] if flags.tf32 else []), *more], way)


def best_of_pytorch(eager, model, flags):
    """All ways take turns with the book's; the one that took the smallest share of its time stays, if it
    took less than the book's. Of an epoch there are two such: with the DataLoader, and without."""
    ways = [*(GPU_WAYS if flags.device == "cuda" else WAYS)[1:],
            *(way + IN_MEMORY for way in WAYS if model.name == "epoch")]
    sides = (start("PyTorch, no loader" if IN_MEMORY in way else "PyTorch, best", model, flags, way=way) for way in ways)
    others = []
    # On a CPU each has it to itself while it starts. Of a GPU's machine they use one core or few.
    for side in list(sides) if flags.device == "cuda" else sides:
        try:
            others.append(side.warm_up(model))
        except EOFError as ended:               # a PyTorch that cannot do it, or not here
            print(f"left out: {ended}")
    others = check_losses([eager, *others], model, flags)[1:]
    take_turns([eager, *others], TRIALS, model.trial)
    share = {side: 1 / statistics.median(side.ratios) for side in others}
    print(f"\n{model.title}: other ways in PyTorch, their time / the book's",
          *(f"{share[side]:8.2f}   {side.way}" for side in others), sep="\n")
    kinds = [[side for side in others if (IN_MEMORY in side.way) == in_memory] for in_memory in (False, True)]
    best = [side for side in (min(kind, key=share.get) for kind in kinds if kind) if share[side] < 1]
    for side in others:
        if side not in best:
            side.quit()
    return best


def sides_of(model, flags, with_torch):
    """Each as it starts: one at a time, so that all have the machine to themselves."""
    yield start("ours", model, flags).warm_up(model)
    if with_torch:
        eager = start("PyTorch", model, flags, way=EAGER).warm_up(model)
        yield eager
        if not flags.no_best:
            yield from best_of_pytorch(eager, model, flags)
    if flags.device == "cuda" and model.name == "lenet":
        yield start("ours, no graph", model, flags, "--no-graph").warm_up(model)
    elif flags.device == "cpu" and model.name != "epoch" and flags.threads > 1:
        yield start("ours, 2 devices", model, flags, "--devices", "2").warm_up(model)


def measure_models(models, flags, where):
    sgemm = start("sgemm", SGEMM, flags)
    seconds = min(sgemm.run(1) for _ in range(10))
    sgemm.quit()
    peak = sgemm.loss / seconds / 1e9           # here its second figure is how many operations these are
    print(f"a product of large matrices (sgemm): {peak:.0f} GFLOP/s")
    for model in models:
        sides = list(sides_of(model, flags, where["pytorch"]))
        check_losses(sides, model, flags)
        take_turns(sides, flags.rounds or model.rounds, model.steps)
        for side in sides:
            side.quit()
        show(sides, model, peak, flags, where)


LEGEND = """
ours / this: the median over the rounds of our time / this one's in that round; below 1, ours takes less time.
of sgemm: GFLOP/s next to those of a product of large matrices; it may be above 1, because Winograd's method
needs fewer multiplications than are counted. peak MiB: memory, without DataLoader's workers. start: seconds
before the first step, compiling included. first: seconds of the first step, which gets most of the memory."""


def measure(flags):
    where = what_is_here(flags)
    print(f"{where['device']}; {flags.threads} threads; ours {where['isa']}, {where['compiler']}; driver "
          f"{where['driver'] or '-'}; PyTorch {where['pytorch'] or 'not installed'}, CUDA {where['toolkit'] or '-'}")
    models = [model for model in MODELS[flags.device] if flags.only in (None, model.name)]
    if not glob.glob(f"{DATA}/train-images-idx3-ubyte*"):
        print(f"no epoch: the data set is not in {DATA} (make setup gets it)")
        models = [model for model in models if model.name != "epoch"]
    if not where["pytorch"]:
        print("No torch, torchvision and numpy here, so ours alone; tests/bench/README.md says how to get them")
    elif models:
        subprocess.run(["sh", "-c", UNPACK, DATA], check=True)
        subprocess.run([f"{flags.build}/05_resnet18_concise", "--steps", "0", "--devices", "1", "--test-size", "1",
                        "--train-size", "1", "--save", START, "--out", "build"], check=True, stdout=subprocess.DEVNULL)
        with open(VIT_START, "wb") as file:
            subprocess.run([flags.step, "--train", "vit-start"], check=True, stdout=file)
    if models:
        for flags.tf32 in (False, True) if flags.device == "cuda" else (False,):
            measure_models(models, flags, where)
        print(LEGEND)


def main():
    sys.stdout.reconfigure(line_buffering=True)     # else our programs' lines come before ours
    flags = parse_flags()
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.abspath("build/inductor"))
    if flags.worker:
        return pytorch_worker(flags)
    if not os.access(flags.step, os.X_OK):
        return f"bench.py: no program {flags.step}\nhint: make it first, and run this from the project's folder"
    try:
        measure(flags)
    except EOFError as ended:
        return f"bench.py: {ended}"
    return "\n".join(f"bench.py: {complaint}" for complaint in flags.complaints) or None


if __name__ == "__main__":
    sys.exit(main())
