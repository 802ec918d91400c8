#!/usr/bin/env python3
"""Writes zero.safetensors, which tests/test_zero_reference.c compares chapter 9 with.

    build/torch/bin/python tests/reference/make_zero.py

needs torch, numpy and safetensors. The tracked file was made with PyTorch 2.15.0 on a CPU: fully_shard (FSDP2) in real
processes, over gloo. fully_shard takes gloo and CPU tensors as they are, so neither FullyShardedDataParallel nor a
reference by hand is needed. Its shards are rows of each parameter, and ours are parts of a unit, which is a slice of
all parameters. That makes no difference to the numbers.

NET is "lenet" or "resnet18", K the number of ranks. All numbers are stored as floats.

A step of Adam for each of ROWS, in float64, from numbers and images that a formula gives (resnet18.py). Rank r takes
the r-th part of each minibatch. The last one is short, and 2 ranks, or 3, have unequal parts of it or of the others.
    rows                    images in each minibatch
    NET.adam                learning rate and eps
    NET.K.losses            (steps,K): of each rank, the sum over its rows, divided by all rows of the minibatch
    NET.K.change.NAME       of each parameter: what it is after the steps, less what it was. Whole if up to 64 numbers;
    NET.K.change.NAME.value what is there at 100 places:
    NET.index.NAME          these
    NET.K.norm.NAME         the square root of the sum of squares of the change

Adam's eps is not 1e-8. A gradient that is nothing but rounding would then move its parameter as far as any other, since
Adam divides by its size: after five steps of ResNet-18, whose biases before a batch norm have the gradient 0, PyTorch's
float32 was 6e-4 of the largest number of a tensor from its float64. With this eps it is 2e-7, as it is for LeNet
(make_zero.py --rounding). With six images instead of nine, some activation was so close to a ReLU's kink that the
instruction set decided which side it was on.
"""
import sys

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

from make_ddp import NETS, PLACES, in_processes, start
from resnet18 import Residual, batch, places, save

ROWS = [9, 9, 9, 9, 8]
ADAM = {"lenet": (0.0005, 0.001), "resnet18": (0.0001, 0.001)}   # learning rate, eps


def share(rows, ranks, rank):
    """Of each minibatch; the first ranks have one row more (common/base/range.h)."""
    return torch.arange(rows).tensor_split(ranks)[rank]


def units(module):
    """Each residual block, and each layer with parameters outside of them."""
    if isinstance(module, (nn.Conv2d, nn.Linear, Residual)):
        return [module]
    return [unit for child in module.children() for unit in units(child)]


def shard(net, ranks):
    mesh = init_device_mesh("cpu", (ranks,))
    for module in (*units(net), net):       # what no unit has belongs to the net
        fully_shard(module, mesh=mesh, reshard_after_forward=True)
    return net


def train(rank, ranks, name, dtype):
    """Losses of a rank, the whole parameters after the steps, and how many numbers of each the rank has kept."""
    net = shard(start(name, dtype), ranks)
    lr, eps = ADAM[name]
    optimizer, losses = torch.optim.Adam(net.parameters(), lr, eps=eps), []
    X, y = batch(sum(ROWS))
    for X_batch, y_batch in zip(X.to(dtype).split(ROWS), y.split(ROWS)):
        own = share(len(y_batch), ranks, rank)
        optimizer.zero_grad()
        loss = F.cross_entropy(net(X_batch[own]), y_batch[own], reduction="sum") / len(y_batch)
        (loss * ranks).backward()       # fully_shard takes the mean over ranks
        optimizer.step()
        losses.append(loss.item())
    kept = {n: p.to_local().numel() for n, p in net.named_parameters()}
    whole = {n: p.full_tensor().detach() for n, p in net.named_parameters()}
    distributed.barrier()       # gloo may abort a rank that still talks to one that has left
    return losses, whole, kept


def training_parts(name, ranks, index):
    results = in_processes(ranks, train, name, torch.float64)
    parts = {"losses": torch.tensor([losses for losses, _, _ in results]).T}
    for n, p in start(name, torch.float64).named_parameters():
        assert sum(kept[n] for _, _, kept in results) == p.numel()      # it is sharded
        change = (results[0][1][n] - p.detach()).flatten()
        parts[f"norm.{n}"] = change.norm().reshape(1)
        parts[f"change.{n}.value" if n in index else f"change.{n}"] = change[index[n]] if n in index else change
    return {f"{name}.{ranks}.{part}": value for part, value in parts.items()}


def all_training_parts(name):
    random = torch.Generator().manual_seed(0)
    index = {n: places(p, PLACES, random) for n, p in NETS[name]().named_parameters() if p.numel() > 64}
    parts = {f"{name}.adam": torch.tensor(ADAM[name])}
    parts.update({f"{name}.index.{n}": places for n, places in index.items()})
    for ranks in (2, 3):
        parts.update(training_parts(name, ranks, index))
    return parts


def print_rounding(name):
    """How far float32 is from float64 in PyTorch itself: what no comparison with ours can be below."""
    single, double = (in_processes(2, train, name, dtype)[0][1] for dtype in (torch.float32, torch.float64))
    apart = max(((single[n] - p).abs().max() / p.abs().max()).item() for n, p in double.items())
    print(f"{name}: after the steps float32 is {apart:.1e} of the largest number of a tensor from float64")


def main():
    torch.set_num_threads(1)
    if "--rounding" in sys.argv:
        return [print_rounding(name) for name in NETS]
    parts = {"rows": torch.tensor(ROWS)}
    for name in NETS:
        parts.update(all_training_parts(name))
    save("zero.safetensors", parts)


if __name__ == "__main__":
    main()
