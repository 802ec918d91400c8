#!/usr/bin/env python3
"""Times training steps: our C program against PyTorch, on the same machine.

    make bench                                          (or, by hand:)
    build/torch/bin/python tests/bench/bench.py [--threads N] [--rounds 15] [--only lenet|resnet]

The two run in processes of their own and take turns: a round is some training steps of one, then as
many of the other, so that whatever else slows the machine hits both. Both use the same number of
threads, the same synthetic images, the same start and float32; both wait after each step, as the
book's train() does. Before each turn there is a short pause: idle OpenMP threads spin for a while
before they sleep, and would take the cores from the other side.

A step is forward, backward and sgd. Ours also copies the minibatch to the device's own memory; on
a CPU PyTorch has no need to. "ratio" is the median over the rounds of our time / PyTorch's time in
that round: below 1 we are faster. "loss" is that after the warm-up; it must agree, or the two do
not do the same work: then the exit status is 1. "2 devices" is our program with the same cores
divided between two devices.

Python 3.9 or later, and torch (for ResNet-18 numpy too) for PyTorch's half. Without torch, only
ours is timed.
"""
import argparse
import collections
import json
import os
import platform
import statistics
import struct
import subprocess
import sys
import time

LENET_LR, RESNET_LR = 0.05, 0.01
START = "build/bench_resnet18.safetensors"      # written by our program, read by PyTorch

# Multiplications per image, forward: conv1 20 x 26 x 26 outputs of 9 products, conv2 50 x 9 x 9 of
# 500, then 800 x 128 and 128 x 10. Backward takes as many again for the gradient of the weights and
# for that of the inputs, except that no one needs the gradient of the image. Each product is two
# operations: it is added to a sum. Pooling, relu and the loss are left out; they are below 1%.
CONV1 = 20 * 26 * 26 * 9
FORWARD = CONV1 + 50 * 9 * 9 * 500 + 800 * 128 + 128 * 10
LENET_FLOP = 2 * (3 * FORWARD - CONV1)          # 13.3 million. Ours leaves out what pooling drops.


def resnet_flop():
    """The same of ResNet-18: convolutions of 3x3, but for three of 1x1, and the last layer."""
    stem, forward = 64 * 28 * 28 * 9, 0
    side, before = 28, 64
    for channels in (64, 128, 256, 512):
        if channels > 64:
            side //= 2
            forward += channels * side * side * before                  # the 1x1 of the shortcut
        forward += channels * side * side * 9 * (before + 3 * channels)
        before = channels
    return 2 * (3 * (stem + forward + 512 * 10) - stem)


# ---- PyTorch's half: obeys the same lines as lenet_step.c ------------------------------------

def read_tensors(torch, path):
    """All tensors by name, without the safetensors package: a length, a JSON header, the numbers."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = bytearray(file.read())
    types = {"F32": torch.float32, "I64": torch.int64}
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(data[slice(*entry["data_offsets"])], dtype=types[entry["dtype"]])
            .reshape(entry["shape"]).clone() for name, entry in header.items()}


def lenet_step(torch, X, y, device):
    """The book's train_batch on one device."""
    F = torch.nn.functional
    start = read_tensors(torch, "tests/reference/lenet.safetensors")
    names = ("W1", "b1", "W2", "b2", "W3", "b3", "W4", "b4")
    params = [start[name].to(device).requires_grad_() for name in names]

    def step():
        X_here, y_here = X.to(device), y.to(device)
        h1 = F.relu(F.conv2d(input=X_here, weight=params[0], bias=params[1]))
        h1 = F.avg_pool2d(input=h1, kernel_size=(2, 2), stride=(2, 2))
        h2 = F.relu(F.conv2d(input=h1, weight=params[2], bias=params[3]))
        h2 = F.avg_pool2d(input=h2, kernel_size=(2, 2), stride=(2, 2))
        h2 = h2.reshape(h2.shape[0], -1)
        h3 = F.relu(torch.mm(h2, params[4]) + params[5])
        loss = F.cross_entropy(torch.mm(h3, params[6]) + params[7], y_here, reduction="none").sum()
        loss.backward()
        with torch.no_grad():                   # d2l.sgd
            for param in params:
                param -= LENET_LR * param.grad / len(X)
                param.grad.zero_()
        return loss.detach() / len(X)
    return step


def resnet_step(torch, X, y, device):
    """The book's train, "Concise Implementation for Multiple GPUs", on one device."""
    sys.path.insert(0, "tests/reference")
    from resnet18 import resnet18
    net = resnet18(10)
    net.load_state_dict(read_tensors(torch, START))
    net.to(device)
    trainer = torch.optim.SGD(net.parameters(), RESNET_LR)
    loss = torch.nn.CrossEntropyLoss()

    def step():
        trainer.zero_grad()
        value = loss(net(X.to(device)), y.to(device))
        value.backward()
        trainer.step()
        return value.detach()
    return step


def pytorch_worker(flags):
    import torch
    torch.set_num_threads(flags.threads)
    torch.backends.cudnn.allow_tf32 = False     # float32 throughout, as ours
    torch.backends.cuda.matmul.allow_tf32 = False
    i = torch.arange(flags.batch * 784, dtype=torch.int64)
    y = torch.arange(flags.batch) % 10          # a grey noise whose contrast tells the label
    noise = ((i * 2654435761 & 0xFFFFFFFF) >> 24).reshape(flags.batch, 1, 28, 28)
    X = (noise * (1 + y).reshape(-1, 1, 1, 1)).float() / 2550
    step = {"lenet": lenet_step, "resnet": resnet_step}[flags.worker](torch, X, y, flags.device)
    for line in sys.stdin:
        if line.startswith("quit"):
            break
        steps = int(line.split()[1])
        begin = time.perf_counter()
        for _ in range(steps):
            loss = step()
            if flags.device == "cuda":
                torch.cuda.synchronize()
        seconds = (time.perf_counter() - begin) / steps
        print(f"{seconds:.9f} {loss.item():.6f}", flush=True)


# ---- the driver ------------------------------------------------------------------------------

class Side:
    """One of the two programs, and what it measured."""

    def __init__(self, name, command):
        self.name, self.seconds, self.loss = name, [], float("nan")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def run(self, steps):
        """Seconds per step."""
        try:
            self.process.stdin.write(f"run {steps}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass                                # it has ended: its answer is empty
        answer = self.process.stdout.readline().split()
        if len(answer) != 2:
            sys.exit(f"bench.py: {self.name} ended without an answer (see its message above)")
        self.loss = float(answer[1])
        return float(answer[0])

    def peak_memory(self):
        """The most memory it ever held, in MiB; None where there is no /proc."""
        try:
            with open(f"/proc/{self.process.pid}/status") as file:
                return next(int(s.split()[1]) / 1024 for s in file if s.startswith("VmHWM"))
        except (OSError, StopIteration):
            return None

    def quit(self):
        self.memory = self.peak_memory()
        self.process.stdin.write("quit\n")
        self.process.stdin.close()
        self.process.wait()


def measure(sides, model, flags):
    for side in sides:
        side.run(model.warm_up)
    for side in sides[1:]:
        if not abs(side.loss - sides[0].loss) <= model.tolerance * sides[0].loss:
            sys.exit(f"bench.py: after {model.warm_up} steps the losses are {sides[0].loss} and "
                     f"{side.loss}: {side.name} does not compute the same thing")
    losses = [side.loss for side in sides]
    for i in range(flags.rounds or model.rounds):
        for side in sides if i % 2 == 0 else sides[::-1]:   # nobody always goes first
            time.sleep(flags.pause)
            side.seconds.append(side.run(model.steps))
    for side, loss in zip(sides, losses):
        side.quit()
        side.loss = loss


def spread(values, form):
    median, low, high = statistics.median(values), min(values), max(values)
    return f"{median:{form}} [{low:{form}} .. {high:{form}}]"


def print_table(sides, model):
    print(f"{'':10}{'ms per step':>27}{'GFLOP/s':>9}{'peak MiB':>10}"
          f"   loss after {model.warm_up} steps")
    for side in sides:
        gflops = model.batch * model.flop / statistics.median(side.seconds) / 1e9
        memory = "n/a" if side.memory is None else f"{side.memory:.0f}"
        print(f"{side.name:10}{spread([1e3 * s for s in side.seconds], '.2f'):>27}{gflops:9.1f}"
              f"{memory:>10}   {side.loss:.5f}")
    for side in sides[1:]:
        ratios = [a / b for a, b in zip(sides[0].seconds, side.seconds)]
        print(f"{'ratio':10}{spread(ratios, '.2f'):>27}   ours / {side.name}, round by round")


def cpu_model():
    try:
        with open("/proc/cpuinfo") as file:
            return next(s.split(":")[1].strip() for s in file if s.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def torch_version():
    """Asked in a process of its own, so that the driver stays small; None: not installed."""
    result = subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__)"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return result.stdout.strip() if result.returncode == 0 else None


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


Model = collections.namedtuple("Model", "name title batch flop steps warm_up rounds tolerance")
MODELS = [
    Model("lenet", "LeNet", 256, LENET_FLOP, 10, 10, 15, 1e-4),
    # Batch norm makes rounding grow from step to step: after two the losses agree less.
    Model("resnet", "ResNet-18", 64, resnet_flop(), 1, 2, 9, 1e-3),
]


def parse_flags():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=cores(), help="for each side (all cores)")
    parser.add_argument("--rounds", type=int, help="(15 for LeNet, 9 for ResNet-18)")
    parser.add_argument("--pause", type=float, default=0.2, help="seconds before each turn (0.2)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--only", choices=[model.name for model in MODELS])
    parser.add_argument("--build", default="build", help="folder of our half")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def sides_of(model, flags, version):
    how = [str(model.batch), str(flags.threads), flags.device]
    ours = [f"{flags.build}/bench_step", model.name, *how]
    sides = [Side("ours", ours)]
    if version:
        sides.append(Side("PyTorch", [
            sys.executable, os.path.abspath(__file__), "--worker", model.name, "--batch", how[0],
            "--threads", how[1], "--device", how[2]]))
    sides.append(Side("2 devices", [*ours, "2"]))
    return sides


def main():
    flags = parse_flags()
    if flags.worker:
        return pytorch_worker(flags)
    if not os.access(f"{flags.build}/bench_step", os.X_OK):
        sys.exit(f"bench.py: no program {flags.build}/bench_step\n"
                 "hint: make it first, and run this from the project's folder")
    version = torch_version()
    if not version:
        print("No torch here, so ours alone. To get it: python3 -m venv build/torch && "
              "build/torch/bin/pip install torch numpy")
    print(f"{cpu_model()}; {flags.threads} threads; PyTorch {version or 'not installed'}")
    subprocess.run([f"{flags.build}/05_resnet18_concise", "--steps", "0", "--devices", "1",
                    "--test-size", "1", "--train-size", "1", "--save", START, "--out", "build"],
                   check=True, stdout=subprocess.DEVNULL)
    for model in MODELS:
        if flags.only in (None, model.name):
            sides = sides_of(model, flags, version)
            measure(sides, model, flags)
            print(f"\n{model.title} training step, batch {model.batch}, float32, {flags.device}, "
                  f"{len(sides[0].seconds)} rounds of {model.steps}: median [min .. max]")
            print_table(sides, model)


if __name__ == "__main__":
    main()
