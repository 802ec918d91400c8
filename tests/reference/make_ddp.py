#!/usr/bin/env python3
"""Writes ddp.safetensors, which tests/test_ddp_reference.c compares chapter 6 with.

    build/torch/bin/python tests/reference/make_ddp.py

needs torch, numpy and safetensors. The tracked file was made with PyTorch 2.15.0 on a CPU: real processes, which
exchange gradients over gloo on this machine's loopback. (There is nothing of torch.nn.DataParallel: it does not split a
minibatch over anything but GPUs.)

NET is "lenet" or "resnet18", K the number of ranks. All numbers are stored as floats.

Training: STEPS steps of plain SGD in float64, from numbers and images that a formula gives (resnet18.py); rank r takes
the r-th part of each minibatch.
    NET.lr, NET.rows        learning rate; images in a minibatch
    NET.K.losses            (steps,K): the mean loss of each rank over its rows
    NET.K.change.NAME       of each parameter: what it is after the steps, less what it was. Whole if up to 64 numbers;
    NET.K.change.NAME.value what is there at 100 places:
    NET.index.NAME          these
    NET.K.norm.NAME         the square root of the sum of squares of the change
    NET.K.rank.R.NAME       the running statistics after the steps, on the first and the last rank

Buckets: which gradients are exchanged together. The number of a parameter is its place in net.parameters(); buckets are
stored as how many floats each has.
    NET.floats              how many each parameter has
    NET.arrivals            the parameters in the order in which backward made their gradients
    caps                    (pairs,2): the size of the first bucket and of the others, in bytes
    NET.reversed.I          buckets with pair I, filled from the last parameter to the first, and
    NET.arrived.I           filled in the order of the arrivals
    NET.ddp.caps            bucket_cap_mb, as given to DistributedDataParallel; 0: none was given
    NET.ddp.I               the buckets that it has from the second step on, with cap I
    NET.unused.I            the same with find_unused_parameters=True

What DistributedDataParallel does here (torch/nn/parallel/distributed.py, _BucketCapacityConfig and _ddp_init_helper;
torch/csrc/distributed/c10d/reducer.cpp, rebuild_buckets):
- In the first step there is one bucket of everything, whatever the cap.
- Before the second, buckets are filled anew, in the order in which the gradients came.
- The first one is smaller, 1 MiB, only if the user gives no cap: with bucket_cap_mb=25, the default too, there is none.
- With find_unused_parameters, buckets are never filled anew. They are filled from the *first* parameter on, and then
  started in reverse: so the small one is the last to be sent.

The sampler: DistributedSampler's lists for N images and K ranks.
    sampler.N.K.pad, .drop  (K,count), without shuffling, drop_last=False and True
    sampler.N.K.shuffled    the same with shuffling and drop_last=False, in PyTorch's random order
"""
import itertools
import os
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

from resnet18 import batch, fill, places, resnet18, save

STEPS, ROWS, PLACES = 5, 6, 100
MIB = 1 << 20
CAPS = [(MIB, 25 * MIB), (25 * MIB, 25 * MIB), (MIB, MIB), (MIB, 4 * MIB), (128 << 10, 128 << 10),
        (4 << 10, 64 << 10), (40, 20480), (41, 20481), (1, 1)]    # 40, 20480: reached exactly
DDP_CAPS = {"lenet": [None, 1, 25, 0.125], "resnet18": [None, 1, 25, 4]}


NETS = {"lenet": lambda: nn.Sequential(                             # the book's, of modules
            nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2),
            nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10)),
        "resnet18": lambda: resnet18(10)}
LR = {"lenet": 0.005, "resnet18": 0.001}


def start(name, dtype):
    """The numbers of resnet18.py, with larger biases: still more of what enters a relu is positive. Statistics of two
    images are steep, and in five steps an activation within a rounding error of the kink would be met several times."""
    net = NETS[name]()
    fill(net)
    with torch.no_grad():
        for n, param in net.named_parameters():
            if n.endswith("bias"):
                param += 0.25
    return net.to(dtype)


# ---- processes -------------------------------------------------------------------------------

def be_a_rank(rank, ranks, folder, work, args):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)    # sums are then always added in the same order
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=ranks)
    torch.save(work(rank, ranks, *args), os.path.join(folder, f"rank{rank}"))
    distributed.destroy_process_group()


def in_processes(ranks, work, *args):
    """What work(rank, ranks, *args) returns in each of so many processes."""
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(be_a_rank, (ranks, folder, work, args), nprocs=ranks)
        return [torch.load(os.path.join(folder, f"rank{rank}")) for rank in range(ranks)]


# ---- training --------------------------------------------------------------------------------

def train(rank, ranks, name, dtype):
    """Losses (STEPS) of a rank, and its state_dict."""
    net = start(name, dtype)
    ddp = DistributedDataParallel(net)
    X, y = batch(STEPS * ROWS)
    shard = slice(rank * ROWS // ranks, (rank + 1) * ROWS // ranks)
    optimizer, losses = torch.optim.SGD(net.parameters(), LR[name]), []
    for X_batch, y_batch in zip(X.to(dtype).split(ROWS), y.split(ROWS)):
        optimizer.zero_grad()
        loss = F.cross_entropy(ddp(X_batch[shard]), y_batch[shard])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, net.state_dict()


def training_parts(name, ranks, index):
    results = in_processes(ranks, train, name, torch.float64)
    parts = {"losses": torch.tensor([losses for losses, _ in results]).T}
    for n, p in start(name, torch.float64).named_parameters():
        change = (results[0][1][n].double() - p.detach()).flatten()
        parts[f"norm.{n}"] = change.norm().reshape(1)
        parts[f"change.{n}.value" if n in index else f"change.{n}"] = change[index[n]] if n in index else change
    for rank in (0, ranks - 1):
        parts.update({f"rank.{rank}.{n}": t for n, t in results[rank][1].items() if "running" in n})
    return {f"{name}.{ranks}.{part}": value for part, value in parts.items()}


def all_training_parts(name):
    random = torch.Generator().manual_seed(0)
    index = {n: places(p, PLACES, random) for n, p in NETS[name]().named_parameters() if p.numel() > 64}
    parts = {f"{name}.lr": torch.tensor([LR[name]]), f"{name}.rows": torch.tensor([ROWS])}
    parts.update({f"{name}.index.{n}": places for n, places in index.items()})
    for ranks in (2, 3):
        parts.update(training_parts(name, ranks, index))
    return parts


# ---- buckets ---------------------------------------------------------------------------------

def arrivals(name):
    net, order = start(name, torch.float32), []
    for number, param in enumerate(net.parameters()):
        param.register_post_accumulate_grad_hook(lambda _, number=number: order.append(number))
    X, y = batch(ROWS)
    F.cross_entropy(net(X), y).backward()
    return order


def assigned(params, order, caps):
    """The floats of each bucket, by PyTorch's rule."""
    buckets, _ = distributed._compute_bucket_assignment_by_size([params[number] for number in order], caps, [], order)
    assert [number for bucket in buckets for number in bucket] == order
    return [sum(params[number].numel() for number in bucket) for bucket in buckets]


def list_of(said):
    return [int(number) for number in said.replace(",", " ").split()]


def buckets_of_ddp(rank, ranks, name, order):
    """The floats of each bucket that DDP ends with: for each cap, and without and with a search for
    unused parameters."""
    results = []
    for unused, cap in itertools.product((False, True), DDP_CAPS[name]):
        net = start(name, torch.float32)
        ddp = DistributedDataParallel(net, bucket_cap_mb=cap, find_unused_parameters=unused)
        X, y = batch(2)
        for _ in range(3):      # what a step did is in the log of the next
            F.cross_entropy(ddp(X), y).backward()
        log = ddp._get_ddp_logging_data()
        assert log["has_rebuilt_buckets"] != unused
        assert unused or len(list_of(log["bucket_sizes"])) == 1 and list_of(log["rebuilt_per_bucket_param_indices"]) == order
        said = log["bucket_sizes" if unused else "rebuilt_bucket_sizes"]
        results.append([size // 4 for size in list_of(said)])
    return results


def bucket_parts(name):
    params, order = list(NETS[name]().parameters()), arrivals(name)
    backwards = list(reversed(range(len(params))))
    parts = {"floats": [p.numel() for p in params], "arrivals": order,
             "ddp.caps": [cap or 0 for cap in DDP_CAPS[name]]}
    for i, caps in enumerate(CAPS):
        parts[f"reversed.{i}"] = assigned(params, backwards, list(caps))
        parts[f"arrived.{i}"] = assigned(params, order, list(caps))
    each = in_processes(2, buckets_of_ddp, name, order)
    assert each[0] == each[1]
    for i, (kind, cap) in enumerate(itertools.product(("ddp", "unused"), DDP_CAPS[name])):
        parts[f"{kind}.{i % len(DDP_CAPS[name])}"] = each[0][i]
        print(f"{name}, {kind}, bucket_cap_mb={cap}: buckets of {each[0][i]} floats")
    return {f"{name}.{part}": torch.tensor(value) for part, value in parts.items()}


# ---- the sampler -----------------------------------------------------------------------------

def lists_of(n, k, **options):
    return torch.tensor([list(DistributedSampler(range(n), k, rank, **options)) for rank in range(k)])


def sampler_parts():
    ways = {"pad": {"shuffle": False}, "drop": {"shuffle": False, "drop_last": True}, "shuffled": {"shuffle": True}}
    return {f"sampler.{n}.{k}.{way}": lists_of(n, k, **ways[way])
            for n, k, way in itertools.product((2, 10, 11, 12), (2, 3, 4), ways)}


def main():
    torch.set_num_threads(1)
    parts = {"caps": torch.tensor(CAPS), **sampler_parts()}
    for name in NETS:
        parts.update(bucket_parts(name))
        parts.update(all_training_parts(name))
    save("ddp.safetensors", parts)


if __name__ == "__main__":
    main()
