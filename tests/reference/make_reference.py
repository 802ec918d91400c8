#!/usr/bin/env python3
"""Writes the figures that tests/test_reference.c compares our C code with, beside this script.

    build/torch/bin/python tests/reference/make_reference.py

needs torch, numpy, safetensors and the Fashion-MNIST files (FASHION_MNIST_DIR, or the folder of Debian's package
dataset-fashion-mnist). The tracked files were made with PyTorch 2.15.0 on a CPU; the tests need no Python.

ops.safetensors: small, odd-shaped cases of each operation. The keys are "conv2d.3.X" (operation, number of the case,
part): the inputs by name, "Y" the output, "dY" the gradient that arrives at the output, "dX", "dW", ... what must come
out of backward. Where "dY" is missing it equals "Y" (the gradient of the sum of Y^2 / 2), which saves room. "options"
holds the hyper-parameters as floats:
    conv2d        stride down, stride across, padding down, padding across
    avg_pool2d    kernel down, kernel across, stride down, stride across
    sgd           learning rate, batch size
The inputs are float32; the results are computed from them in float64 and rounded to float32 only when they are stored.
So a reference is wrong by half a unit in its last place at most; what a test sees beyond that is our own rounding.

lenet.safetensors: a start for the book's LeNet, chosen so that 100 steps tell right from wrong. The book's own (normal,
standard deviation 0.01) leaves the loss at log(10) for hundreds of minibatches, where a wrong gradient would hardly
show; so the weights have variance 2 / fan_in (He et al. 2015). But pixels are never negative, and the large mean that
runs through all layers makes the loss so steep that rounding errors grow: at a learning rate of 0.1, float32 and
float64 were 8% apart after 100 steps. So each filter has mean zero, the biases are 0.1 (else plain background would sit
on the kink of relu, where a rounding error decides which way the gradient goes), and the learning rate is small. This
script prints how far float32 and float64 are apart now.

lenet_losses.safetensors: what happens to that start.
    lr                 the learning rate
    losses, losses64   mean loss of each of the first 100 minibatches of 256 images in file order,
                       trained with the book's loop in float32 and in float64
    step.loss          sum of the losses of the first 32 images at the start, from float64
    step.dW1 ...       its gradients: whole for the small parameters, for W2 and W3 at 200 places
                       ("step.dW2.index", "step.dW2.value"); for all "step.dW1.sum" and ".norm"
"""
import numpy as np
import torch
from torch.nn import functional as F

from resnet18 import fashion_mnist, lenet, places, save

BATCH_SIZE, BATCHES, LR = 256, 100, 0.015
STEP_IMAGES, STEP_PLACES = 32, 200
LENET_SHAPES = {"W1": (20, 1, 3, 3), "b1": (20,), "W2": (50, 20, 5, 5), "b2": (50,),
                "W3": (800, 128), "b3": (128,), "W4": (128, 10), "b4": (10,)}


# ---- one operation ---------------------------------------------------------------------------

class Cases:
    """Collects the tensors of ops.safetensors."""

    def __init__(self, seed):
        self.random = torch.Generator().manual_seed(seed)
        self.tensors, self.numbers = {}, {}

    def normal(self, *shape):
        return torch.randn(shape, generator=self.random)

    def store(self, name, **parts):
        """The next case of this name."""
        number = self.numbers[name] = self.numbers.get(name, -1) + 1
        self.tensors.update({f"{name}.{number}.{part}": value.float().contiguous() for part, value in parts.items()})

    def add(self, name, operation, inputs, options=None, constants=None, unstored=()):
        """Runs operation(inputs..) in float64, backward from a random dY, and stores everything. `constants` are
        inputs without a gradient (labels); what `unstored` names is left out."""
        leaves = {k: v.double().requires_grad_() for k, v in inputs.items()}
        Y = operation(*leaves.values(), *(constants or {}).values())
        stored = Y.detach().float()
        dY = stored if "dY" in unstored else self.normal(*Y.shape)
        Y.backward(dY.double())
        parts = {**inputs, **(constants or {}), "Y": stored, "dY": dY, **{"d" + k: v.grad for k, v in leaves.items()}}
        if options is not None:
            parts["options"] = torch.tensor(options)
        self.store(name, **{part: value for part, value in parts.items() if part not in unstored})


def add_conv2d(cases):
    #    N  C   H   W  M  kernel  stride  padding bias
    for N, C, H, W, M, kernel, stride, padding, bias in [
            (1, 1, 1, 1, 1, (1, 1), (1, 1), (0, 0), True),      # the smallest there is
            (2, 3, 5, 4, 4, (1, 1), (1, 1), (0, 0), True),
            (1, 1, 7, 6, 2, (3, 3), (1, 1), (0, 0), True),
            (3, 2, 9, 7, 3, (3, 3), (1, 1), (1, 1), True),
            (2, 3, 8, 8, 2, (3, 3), (2, 2), (1, 1), True),      # last row, column not read
            (2, 2, 11, 10, 3, (5, 5), (3, 3), (2, 2), True),    # so here, downwards only
            (2, 3, 9, 10, 2, (1, 3), (1, 2), (0, 1), True),     # rectangles
            (2, 2, 10, 7, 3, (5, 2), (2, 1), (1, 0), True),
            (2, 4, 6, 6, 5, (3, 3), (1, 1), (0, 0), False),
            (1, 2, 7, 9, 3, (1, 1), (2, 3), (0, 0), False),     # stride > kernel: pixels not read
            (2, 2, 3, 3, 2, (3, 3), (1, 1), (2, 2), True),      # more padding than image
            (1, 3, 5, 5, 2, (5, 5), (1, 1), (0, 0), True),      # one output pixel
            (2, 1, 6, 5, 2, (3, 3), (3, 2), (0, 2), True),
            (3, 2, 4, 4, 1, (2, 2), (3, 3), (0, 0), True),
            (2, 2, 6, 9, 3, (3, 5), (2, 3), (2, 1), False)]:
        inputs = {"X": cases.normal(N, C, H, W), "W": cases.normal(M, C, *kernel),
                  **({"b": cases.normal(M)} if bias else {})}
        cases.add("conv2d", lambda X, W, b=None: F.conv2d(X, W, b, stride, padding), inputs,
                  options=[*stride, *padding])


def add_lenet_conv(cases, start):
    """The two convolutions of LeNet, with the weights of lenet.safetensors."""
    for name, X_shape in [("W1", (1, 1, 28, 28)), ("W2", (2, 20, 13, 13))]:
        inputs = {"X": cases.normal(*X_shape), "W": start[name], "b": cases.normal(start[name].shape[0])}
        cases.add("lenet_conv", F.conv2d, inputs, unstored=("W", "dY"))


def add_others(cases):
    #   shape           kernel  stride
    for shape, kernel, stride in [
            ((2, 3, 6, 4), (2, 2), (2, 2)),
            ((2, 3, 9, 9), (2, 2), (2, 2)),     # LeNet's second pooling: one row and column is left
            ((1, 1, 5, 7), (2, 2), (2, 2)),
            ((2, 2, 8, 7), (3, 3), (2, 2)),     # windows overlap
            ((1, 2, 7, 8), (2, 3), (1, 2)),
            ((2, 1, 9, 8), (2, 2), (3, 3)),     # gaps between windows
            ((3, 2, 4, 5), (4, 5), (4, 5)),     # one window: global average
            ((1, 3, 3, 3), (1, 1), (1, 1))]:
        cases.add("avg_pool2d", lambda X: F.avg_pool2d(X, kernel, stride), {"X": cases.normal(*shape)},
                  options=[*kernel, *stride])

    for shape in [(1,), (3, 5), (2, 3, 5, 7)]:
        X = cases.normal(*shape)
        X.view(-1)[::3] = 0.0                   # the kink itself,
        X.view(-1)[1::7] = -0.0                 # with both of its signs
        cases.add("relu", F.relu, {"X": X})

    for n, k, m in [(1, 1, 1), (3, 5, 7), (13, 1, 9), (1, 31, 1), (17, 33, 29), (5, 128, 10)]:
        cases.add("mm", torch.mm, {"A": cases.normal(n, k), "B": cases.normal(k, m)})

    for n, m in [(1, 1), (1, 7), (9, 1), (17, 13)]:
        cases.add("add_bias", torch.add, {"X": cases.normal(n, m), "b": cases.normal(m)})

    for n, size_in, size_out, bias in [(1, 1, 1, True), (5, 7, 3, True), (17, 9, 21, False)]:
        cases.add("linear", F.linear, {"X": cases.normal(n, size_in), "W": cases.normal(size_out, size_in),
                                       **({"b": cases.normal(size_out)} if bias else {})})

    # Logits of 80: exp() of them is near the end of float32 (88), that of differences beyond it.
    for n, classes, size in [(1, 10, 1), (7, 10, 1), (9, 2, 1), (6, 10, 80), (8, 2, 80), (5, 1, 1)]:
        X = cases.normal(n, classes)
        X = X if size == 1 else torch.sign(X) * size + X
        y = torch.randint(classes, (n,), generator=cases.random)
        cases.add("cross_entropy", lambda X, y: F.cross_entropy(X, y, reduction="none"), {"X": X}, constants={"y": y})

    for shape in [(1,), (257,), (3, 5, 7, 11)]:
        # Around 1, so that the sum is not a small difference of large numbers.
        cases.add("sum", lambda X: X.sum().reshape(1), {"X": 1 + cases.normal(*shape)})

    # d2l's update has no gradient: only param, grad and the new param ("Y") are stored.
    for shape, *options in [((1,), 0.2, 1), ((20, 1, 3, 3), 0.2, 256), ((7, 5), 1.5, 3)]:
        param, grad, options = cases.normal(*shape), cases.normal(*shape), torch.tensor(options)
        lr, batch_size = options.double()
        cases.store("sgd", param=param, grad=grad, options=options,
                    Y=param.double() - lr * grad.double() / batch_size)


# ---- LeNet -----------------------------------------------------------------------------------

def lenet_start():
    """Weights that move at once, but not wildly; the head comment says more."""
    random = torch.Generator().manual_seed(1)
    start = {}
    for name, shape in LENET_SHAPES.items():
        values = torch.randn(shape, generator=random)
        if name in ("W1", "W2"):                # (outputs, inputs, kernel, kernel)
            values -= values.mean((1, 2, 3), keepdim=True)
            values *= (2 / values[0].numel()) ** 0.5
        elif name == "W3":                      # (inputs, outputs)
            values = (values - values.mean(0)) * (2 / shape[0]) ** 0.5
        elif name == "W4":                      # small, so that the first loss is near log(10)
            values *= 0.05
        else:
            values = torch.zeros(shape) if name == "b4" else torch.full(shape, 0.1)
        start[name] = values.contiguous()
    return start


def train(start, X, y, dtype):
    """The book's loop on one device. Returns the mean loss of each minibatch."""
    params = [p.to(dtype, copy=True).requires_grad_() for p in start.values()]
    losses = []
    for X_batch, y_batch in zip(X.to(dtype).split(BATCH_SIZE), y.split(BATCH_SIZE)):
        loss = F.cross_entropy(lenet(X_batch, params), y_batch, reduction="none").sum()
        loss.backward()
        with torch.no_grad():
            for param in params:
                param -= LR * param.grad / BATCH_SIZE
                param.grad.zero_()
        losses.append(loss.item() / BATCH_SIZE)
    return np.array(losses)


def first_step(start, X, y):
    """Loss and gradients of the first images at the start, in float64."""
    params = [p.double().requires_grad_() for p in start.values()]
    loss = F.cross_entropy(lenet(X.double(), params), y, reduction="none").sum()
    loss.backward()
    random = torch.Generator().manual_seed(2)
    parts = {"step.loss": loss.detach().reshape(1)}
    for name, param in zip(start, params):
        grad = param.grad
        parts[f"step.d{name}.sum"] = grad.sum().reshape(1)
        parts[f"step.d{name}.norm"] = grad.norm().reshape(1)
        if name in ("W2", "W3"):
            index = parts[f"step.d{name}.index"] = places(grad, STEP_PLACES, random)
            parts[f"step.d{name}.value"] = grad.flatten()[index]
        else:
            parts[f"step.d{name}"] = grad
    return parts


def lenet_losses(start):
    X, y = fashion_mnist("train", BATCH_SIZE * BATCHES)
    losses, losses64 = train(start, X, y, torch.float32), train(start, X, y, torch.float64)
    print(f"losses: {losses[0]:.4f} at first, {losses[-1]:.4f} at last (lr {LR}); float32 against "
          f"float64 differs by {np.max(np.abs(losses / losses64 - 1)):.1e} at most")
    return {"lr": torch.tensor([LR]), "losses": torch.tensor(losses).float(),
            "losses64": torch.tensor(losses64).float(),
            **first_step(start, X[:STEP_IMAGES], y[:STEP_IMAGES])}


# ---- files -----------------------------------------------------------------------------------

def main():
    torch.set_num_threads(1)    # the float32 sums are then always added in the same order
    print("PyTorch", torch.__version__)

    start = lenet_start()
    cases = Cases(seed=0)
    add_conv2d(cases)
    add_lenet_conv(cases, start)
    add_others(cases)
    save("ops.safetensors", cases.tensors)
    save("lenet.safetensors", start)
    save("lenet_losses.safetensors", lenet_losses(start))


if __name__ == "__main__":
    main()
