"""The book's networks in PyTorch: LeNet, and ResNet-18, word for word ("Concise Implementation for Multiple GPUs"
and "Residual Networks"), with numbers to fill it that a C program can make too; and what those that write files
share."""
import gzip
import os

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def lenet(X, params):
    """The book's ("Training on Multiple GPUs", from scratch)."""
    h1 = F.relu(F.conv2d(input=X, weight=params[0], bias=params[1]))
    h1 = F.avg_pool2d(input=h1, kernel_size=(2, 2), stride=(2, 2))
    h2 = F.relu(F.conv2d(input=h1, weight=params[2], bias=params[3]))
    h2 = F.avg_pool2d(input=h2, kernel_size=(2, 2), stride=(2, 2))
    h2 = h2.reshape(h2.shape[0], -1)
    h3 = F.relu(torch.mm(h2, params[4]) + params[5])
    return torch.mm(h3, params[6]) + params[7]


class Residual(nn.Module):
    """d2l.Residual"""
    def __init__(self, input_channels, num_channels, use_1x1conv=False, strides=1):
        super().__init__()
        self.conv1 = nn.Conv2d(input_channels, num_channels, kernel_size=3, padding=1, stride=strides)
        self.conv2 = nn.Conv2d(num_channels, num_channels, kernel_size=3, padding=1)
        self.conv3 = nn.Conv2d(input_channels, num_channels, kernel_size=1, stride=strides) if use_1x1conv else None
        self.bn1 = nn.BatchNorm2d(num_channels)
        self.bn2 = nn.BatchNorm2d(num_channels)

    def forward(self, X):
        Y = F.relu(self.bn1(self.conv1(X)))
        Y = self.bn2(self.conv2(Y))
        if self.conv3:
            X = self.conv3(X)
        Y += X
        return F.relu(Y)


def resnet18(num_classes, in_channels=1):
    """A slightly modified ResNet-18 model."""
    def resnet_block(in_channels, out_channels, num_residuals, first_block=False):
        return nn.Sequential(*(Residual(in_channels, out_channels, use_1x1conv=True, strides=2)
                               if i == 0 and not first_block else Residual(out_channels, out_channels)
                               for i in range(num_residuals)))

    net = nn.Sequential(
        nn.Conv2d(in_channels, 64, kernel_size=3, stride=1, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU())
    net.add_module("resnet_block1", resnet_block(64, 64, 2, first_block=True))
    net.add_module("resnet_block2", resnet_block(64, 128, 2))
    net.add_module("resnet_block3", resnet_block(128, 256, 2))
    net.add_module("resnet_block4", resnet_block(256, 512, 2))
    net.add_module("global_avg_pool", nn.AdaptiveAvgPool2d((1, 1)))
    net.add_module("fc", nn.Sequential(nn.Flatten(), nn.Linear(512, num_classes)))
    return net


def formula(number, count):
    """count float64 numbers in [-1, 1) of (number, index): 32-bit integers, so that every language gets the same ones."""
    x = np.arange(count, dtype=np.uint32) + np.uint32(number) * np.uint32(0x9e3779b9)
    for shift, factor in (16, 0x7feb352d), (15, 0x846ca68b), (16, 1):
        x ^= x >> np.uint32(shift)
        x *= np.uint32(factor)
    return x.astype(np.float64) / 2**31 - 1


def fill(net):
    """Gives each tensor of the state_dict values by its number of dimensions and its name.

    They are such that most of what enters a relu is positive. With half of it negative, as in a fresh network, so much
    lies at the kink that float32 and float64 differ by 8e-4 in the gradients after 17 layers in PyTorch itself; now by
    5e-7."""
    with torch.no_grad():
        for number, (name, tensor) in enumerate(
                (n, t) for n, t in net.state_dict().items() if "num_batches" not in n):
            u = formula(number, tensor.numel()).reshape(tensor.shape)
            if tensor.dim() > 1:                    # He et al. 2015: variance 2 / fan_in
                u = u * (6 / tensor[0].numel()) ** 0.5
            else:
                middle, half = next(range_ for end, range_ in
                                    {"running_var": (1, 0.5), "running_mean": (0, 0.1), "weight": (0.3, 0.15),
                                     "": (0.5, 0.1)}.items() if name.endswith(end))
                u = middle + half * u
            tensor.copy_(torch.from_numpy(u.astype(np.float32)))


def batch(rows):
    """Images (rows,1,28,28) in 0..1 and labels 0, 1, 2, .."""
    X = ((formula(1000, rows * 784) + 1) / 2).astype(np.float32)
    return torch.from_numpy(X.reshape(rows, 1, 28, 28)), torch.arange(rows) % 10


def fashion_mnist(kind, count):
    """The first images of "train" or "t10k" (count,1,28,28) in 0..1, and their labels."""
    folder = os.environ.get("FASHION_MNIST_DIR", "/usr/share/datasets/fashion-mnist")
    images, labels = (np.frombuffer(gzip.open(os.path.join(folder, f"{kind}-{name}-ubyte.gz")).read(head + size * count),
                                    np.uint8, offset=head)
                      for name, head, size in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)))
    X = torch.from_numpy(images.astype(np.float32) / np.float32(255)).reshape(count, 1, 28, 28)
    return X, torch.from_numpy(labels.astype(np.int64))


def places(tensor, count, generator):
    """So many of its places, in order."""
    return torch.randperm(tensor.numel(), generator=generator)[:count].sort().values


def save(name, tensors):
    """Beside this script, in float32, in which whole numbers are exact up to 2^24."""
    from safetensors.torch import save_file     # (tests/bench/bench.py does without it)
    assert all(part.is_floating_point() or torch.equal(part.float().long(), part) for part in tensors.values())
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    save_file({name: part.float().contiguous() for name, part in tensors.items()}, path)
    os.chmod(path, 0o644)       # the package makes them private
    print(f"PyTorch {torch.__version__}: {path}: {len(tensors)} tensors, {os.path.getsize(path)} bytes")
