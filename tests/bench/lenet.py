#!/usr/bin/env python3
"""Times the book's LeNet training step: our C program against PyTorch, on the same machine.

    make bench                                          (or, by hand:)
    build/torch/bin/python tests/bench/lenet.py [--threads N] [--rounds 15] [--steps 10]

The two run in processes of their own and take turns: a round is --steps training steps of one,
then as many of the other, so that whatever else slows the machine hits both. Both use the same
number of threads, the same 256 synthetic images, the same start (tests/reference/lenet.safetensors)
and float32; both wait after each step, as the book's train() does. Before each turn there is a
short pause: idle OpenMP threads spin for a while before they sleep, and would take the cores from
the other side.

A step is forward, backward and sgd. Ours also copies the minibatch to the device's own memory; on
a CPU PyTorch has no need to. "ratio" is the median over the rounds of our time / PyTorch's time in
that round: below 1 we are faster. "loss" is that after the warm-up; it must agree, or the two do
not do the same work: then the exit status is 1.

Python 3.9 or later, and torch for PyTorch's half. Without torch, only ours is timed.
"""
import argparse
import json
import os
import platform
import statistics
import struct
import subprocess
import sys
import time

BATCH_SIZE, LR = 256, 0.05

# Multiplications per image, forward: conv1 20 x 26 x 26 outputs of 9 products, conv2 50 x 9 x 9 of
# 500, then 800 x 128 and 128 x 10. Backward takes as many again for the gradient of the weights and
# for that of the inputs, except that no one needs the gradient of the image. Each product is two
# operations: it is added to a sum. Pooling, relu and the loss are left out; they are below 1%.
CONV1 = 20 * 26 * 26 * 9
FORWARD = CONV1 + 50 * 9 * 9 * 500 + 800 * 128 + 128 * 10
FLOP_PER_IMAGE = 2 * (3 * FORWARD - CONV1)      # 13.3 million


# ---- PyTorch's half: obeys the same lines as lenet_step.c ------------------------------------

def read_start(torch, path="tests/reference/lenet.safetensors"):
    """The parameters, without the safetensors package: a length, a JSON header, the numbers."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = bytearray(file.read())
    tensors = []
    for name in ("W1", "b1", "W2", "b2", "W3", "b3", "W4", "b4"):
        begin, end = header[name]["data_offsets"]
        values = torch.frombuffer(data[begin:end], dtype=torch.float32)
        tensors.append(values.reshape(header[name]["shape"]).clone())
    return tensors


def pytorch_step(torch, X, y, params, device):
    """The book's train_batch on one device, and its wait."""
    F = torch.nn.functional
    X, y = X.to(device), y.to(device)
    h1 = F.relu(F.conv2d(input=X, weight=params[0], bias=params[1]))
    h1 = F.avg_pool2d(input=h1, kernel_size=(2, 2), stride=(2, 2))
    h2 = F.relu(F.conv2d(input=h1, weight=params[2], bias=params[3]))
    h2 = F.avg_pool2d(input=h2, kernel_size=(2, 2), stride=(2, 2))
    h2 = h2.reshape(h2.shape[0], -1)
    h3 = F.relu(torch.mm(h2, params[4]) + params[5])
    loss = F.cross_entropy(torch.mm(h3, params[6]) + params[7], y, reduction="none").sum()
    loss.backward()
    with torch.no_grad():                       # d2l.sgd
        for param in params:
            param -= LR * param.grad / BATCH_SIZE
            param.grad.zero_()
    if device == "cuda":
        torch.cuda.synchronize()
    return loss


def pytorch_worker(threads, device):
    import torch
    torch.set_num_threads(threads)
    torch.backends.cudnn.allow_tf32 = False     # float32 throughout, as ours
    torch.backends.cuda.matmul.allow_tf32 = False
    i = torch.arange(BATCH_SIZE * 784, dtype=torch.int64)
    y = torch.arange(BATCH_SIZE) % 10           # a grey noise whose contrast tells the label
    noise = ((i * 2654435761 & 0xFFFFFFFF) >> 24).reshape(BATCH_SIZE, 1, 28, 28)
    X = (noise * (1 + y).reshape(-1, 1, 1, 1)).float() / 2550
    params = [p.to(device).requires_grad_() for p in read_start(torch)]
    for line in sys.stdin:
        if line.startswith("quit"):
            break
        steps = int(line.split()[1])
        begin = time.perf_counter()
        for _ in range(steps):
            loss = pytorch_step(torch, X, y, params, device)
        seconds = (time.perf_counter() - begin) / steps
        print(f"{seconds:.9f} {loss.item() / BATCH_SIZE:.6f}", flush=True)


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
            sys.exit(f"lenet.py: {self.name} ended without an answer (see its message above)")
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


def measure(sides, rounds, steps, warm_up, pause):
    for side in sides:
        side.run(warm_up)
    losses = [side.loss for side in sides]
    if not abs(losses[0] - losses[-1]) <= 1e-4 * losses[-1]:
        sys.exit(f"lenet.py: after {warm_up} steps the losses are {losses[0]} and {losses[-1]}: "
                 "the two do not compute the same thing")
    for i in range(rounds):
        for side in sides if i % 2 == 0 else sides[::-1]:   # nobody always goes first
            time.sleep(pause)
            side.seconds.append(side.run(steps))
    for side, loss in zip(sides, losses):
        side.quit()
        side.loss = loss


def spread(values, form):
    median, low, high = statistics.median(values), min(values), max(values)
    return f"{median:{form}} [{low:{form}} .. {high:{form}}]"


def print_table(sides, warm_up):
    print(f"{'':10}{'ms per step':>27}{'GFLOP/s':>9}{'peak MiB':>10}"
          f"   loss after {warm_up} steps")
    for side in sides:
        gflops = BATCH_SIZE * FLOP_PER_IMAGE / statistics.median(side.seconds) / 1e9
        memory = "n/a" if side.memory is None else f"{side.memory:.0f}"
        print(f"{side.name:10}{spread([1e3 * s for s in side.seconds], '.2f'):>27}{gflops:9.1f}"
              f"{memory:>10}   {side.loss:.5f}")
    if len(sides) == 2:
        ratios = [a / b for a, b in zip(sides[0].seconds, sides[1].seconds)]
        print(f"{'ratio':10}{spread(ratios, '.2f'):>27}   ours / PyTorch, round by round")


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


def parse_flags():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=cores(), help="for each side (all cores)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=10, help="training steps per turn (10)")
    parser.add_argument("--warm-up", type=int, default=10, help="steps before the first round (10)")
    parser.add_argument("--pause", type=float, default=0.2, help="seconds before each turn (0.2)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--program", default="build/bench_lenet_step", help="our half")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    flags = parse_flags()
    if flags.worker:
        return pytorch_worker(flags.threads, flags.device)
    if not os.access(flags.program, os.X_OK):
        sys.exit(f"lenet.py: no program {flags.program}\n"
                 "hint: make it first, and run this from the project's folder")
    how = [str(flags.threads), flags.device]
    sides = [Side("ours", [flags.program, *how])]
    version = torch_version()
    if version:
        sides.append(Side("PyTorch", [sys.executable, os.path.abspath(__file__), "--worker",
                                      "--threads", how[0], "--device", how[1]]))
    else:
        print("No torch here, so ours alone. To get it: "
              "python3 -m venv build/torch && build/torch/bin/pip install torch")
    measure(sides, flags.rounds, flags.steps, flags.warm_up, flags.pause)

    print(f"LeNet training step, batch {BATCH_SIZE}, float32, {flags.device}, {flags.threads} "
          f"threads, {flags.rounds} rounds of {flags.steps} steps: median [min .. max]")
    print(f"{cpu_model()}; PyTorch {version or 'not installed'}")
    print_table(sides, flags.warm_up)


if __name__ == "__main__":
    main()
