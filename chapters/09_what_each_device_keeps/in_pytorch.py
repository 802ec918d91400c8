"""Chapter 9 in PyTorch: the stages of ZeRO, by hand and with PyTorch's own classes.

    torchrun --nproc-per-node 2 in_pytorch.py

trains on random numbers. Ranks use GPUs and NCCL if there are enough GPUs, else the CPU and gloo.
"""
import argparse
import copy
import os
import sys
from types import SimpleNamespace

try:
    import torch
    from torch import distributed as dist, nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn import functional as F
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.nn.utils import parameters_to_vector, vector_to_parameters
except ImportError as e:
    sys.exit(f"in_pytorch.py: error: {e}\nhint: pip install torch")


def unit_new(module):
    k, rank = dist.get_world_size(), dist.get_rank()
    full = parameters_to_vector(module.parameters()).detach()
    full = F.pad(full, (0, -len(full) % k))          # to k parts of equal size
    vector_to_parameters(full, module.parameters())  # from now on, these are views of `full`
    return SimpleNamespace(module=module, full=full, own=nn.Parameter(full.chunk(k)[rank]))

def forward_unit(unit, X):
    unit.input = X.detach().requires_grad_()
    unit.output = unit.module(unit.input)
    return unit.output

def backward_unit(unit, grad):  # returns the gradients of all parameters, and of the input
    params = list(unit.module.parameters())
    *grads, grad = torch.autograd.grad(unit.output, [*params, unit.input], grad)
    return parameters_to_vector(grads), grad


def reduce_gradients(unit, grads):
    """With NCCL, the sum runs on another stream. Like our `finish_reducing()`, `wait()` makes the
    current stream wait for it. The loss of each rank is a mean, so the sum is divided by k."""
    unit.full_grad = F.pad(grads, (0, len(unit.full) - len(grads)))
    unit.own.grad = torch.empty_like(unit.own)
    unit.reduced = dist.reduce_scatter_tensor(unit.own.grad, unit.full_grad, async_op=True)

def finish_reducing(unit):
    unit.reduced.wait()
    unit.own.grad /= dist.get_world_size()


# C: unshard, gather_updated
def gather_unit(unit):
    """If `fully_shard()` has sharded a module, the module has the methods `unshard()` and
    `reshard()`."""
    return dist.all_gather_into_tensor(unit.full, unit.own.detach(), async_op=True)


def zero1_step(units, X, y, optimizer):
    """The network is the only unit. `optimizer` updates only `unit.own`, a view of `unit.full`.
    (`ZeroRedundancyOptimizer` works on top of DDP instead: after the allreduce, each rank updates
    its parameters and broadcasts them.)"""
    unit, = units
    loss = F.cross_entropy(forward_unit(unit, X), y)
    grads, _ = backward_unit(unit, torch.autograd.grad(loss, unit.output)[0])
    reduce_gradients(unit, grads)
    finish_reducing(unit)
    optimizer.step()
    gather_unit(unit).wait()


def finish_and_free(unit):
    finish_reducing(unit)
    unit.full_grad = None


def zero2_step(units, X, y, optimizer):
    """In `forward_unit()`, `detach()` cuts the graph, so a backward pass ends where its unit
    begins."""
    for unit in units:
        X = forward_unit(unit, X)
    grad, = torch.autograd.grad(F.cross_entropy(X, y), X)
    after = None
    for unit in reversed(units):
        grads, grad = backward_unit(unit, grad)
        if after:
            finish_and_free(after)  # reduced during the backward pass of this unit
        reduce_gradients(unit, grads)
        after = unit
    finish_and_free(units[0])
    optimizer.step()
    for unit in units:
        gather_unit(unit).wait()


# C: zero3_step
def shard(net):
    """You do not write the loops in PyTorch. `fully_shard()` adds hooks to each unit. They call
    `unshard()` before its forward and backward passes, and `reshard()` after them. The training
    loop stays the same. Create the optimizer afterwards, so that its moments have the size of the
    shards."""
    mesh = init_device_mesh(next(net.parameters()).device.type, (dist.get_world_size(),))
    for unit in net:
        fully_shard(unit, mesh=mesh)
    return fully_shard(net, mesh=mesh)  # parameters outside of these units, if there are any


def train(name, net, batches):
    """Returns the network, the optimizer, and the tensors of gradients that this rank keeps."""
    adam = dict(lr=0.001, eps=1e-4)  # a tiny eps would enlarge rounding where gradients are tiny
    if name in ("ZeRO-1", "ZeRO-2"):
        units = [unit_new(module) for module in ([net] if name == "ZeRO-1" else net)]
        optimizer = torch.optim.Adam([unit.own for unit in units], **adam)
        for X, y in batches:
            (zero1_step if name == "ZeRO-1" else zero2_step)(units, X, y, optimizer)
        kept = [unit.own.grad if unit.full_grad is None else unit.full_grad for unit in units]
        return net, optimizer, kept
    if name != "one rank":
        net = shard(net) if name == "ZeRO-3 (fully_shard)" else DDP(net)
    if name == "ZeroRedundancyOptimizer":
        optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.Adam, **adam)
    else:
        optimizer = torch.optim.Adam(net.parameters(), **adam)
    for X, y in batches:
        optimizer.zero_grad()
        F.cross_entropy(net(X), y).backward()
        optimizer.step()
    return net, getattr(optimizer, "optim", optimizer), [p.grad for p in net.parameters()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=512, help="of the network's hidden layers")
    parser.add_argument("--batch-size", type=int, default=16, help="images of each rank in a step")
    args = parser.parse_args()
    if "RANK" not in os.environ:
        sys.exit("in_pytorch.py: error: no ranks\n"
                 "hint: torchrun --nproc-per-node 2 in_pytorch.py")
    gpus = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpus else "gloo")
    rank, k = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    sizes = [784, args.width, args.width, 10]
    net = nn.Sequential(*(nn.Sequential(nn.Tanh(), nn.Linear(m, n)) for m, n in zip(sizes, sizes[1:])))
    X, y = torch.randn(5, k * args.batch_size, 784), torch.randint(10, (5, k * args.batch_size))
    X, y = X.to(device), y.to(device)
    shards = [[t.chunk(k)[rank] for t in minibatch] for minibatch in zip(X, y)]
    P = 4 * sum(p.numel() for p in net.parameters())
    def mb(tensors):
        mine = (t.to_local() if hasattr(t, "to_local") else t for t in tensors)
        return f"{sum(t.nbytes for t in mine) / 1e6:11.2f}"
    if rank == 0:
        print(f"{k} ranks, MB             parameters  gradients    moments       sent (formula)")
    for name, transfers in [("one rank", 0), ("DDP", 2), ("ZeroRedundancyOptimizer", 3), ("ZeRO-1", 2),
                         ("ZeRO-2", 2), ("ZeRO-3 (fully_shard)", 3)]:
        batches = zip(X, y) if name == "one rank" else shards
        trained, optimizer, grads = train(name, copy.deepcopy(net).to(device), batches)
        moments = [t for s in optimizer.state.values() for t in (s["exp_avg"], s["exp_avg_sq"])]
        params = list(trained.parameters())
        whole = [p.full_tensor() if hasattr(p, "full_tensor") else p.detach() for p in params]
        expected = whole if name == "one rank" else expected
        torch.testing.assert_close(whole, expected, rtol=1e-5, atol=1e-6)
        if rank == 0:
            sent = transfers * (k - 1) / k * P / 1e6
            print(f"{name:23}{mb(params)}{mb(grads)}{mb(moments)}{sent:11.2f}")
    if rank == 0:
        print("after 5 steps of Adam: the same parameters as on one rank with all images")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
