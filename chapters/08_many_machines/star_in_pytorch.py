"""Chapter 8 in PyTorch: what DDP does for in_pytorch.py, in messages between two ranks.

    torchrun --nproc-per-node 4 star_in_pytorch.py

Ranks use GPUs and NCCL if there are enough GPUs, else the CPU and gloo.
"""
import argparse
import copy
import os
import sys

try:
    import torch
    from torch import distributed as dist, nn
    from torch.nn import functional as F
    from torch.nn.parallel import DistributedDataParallel as DDP
except ImportError as e:
    sys.exit(f"star_in_pytorch.py: error: {e}\nhint: pip install torch")


# C: all_reduce_star
def average_gradients(net):
    """With these four lines between `loss.backward()` and `optimizer.step()`, ranks train together.
    The second function is a star that does what `dist.all_reduce()` does. In practice, wrap the
    network in `DDP`, as `in_pytorch.py` does: it sums while backward still runs."""
    for p in net.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()

def all_reduce_star(x):
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        dist.send(x, dst=0)
        dist.recv(x, src=0)
        return
    theirs = torch.empty_like(x)
    for r in range(1, size):
        dist.recv(theirs, src=r)
        x += theirs
    for r in range(1, size):
        dist.send(x, dst=r)


def broadcast_from_rank_0(net):
    """Parameters and running statistics. DDP does this when it wraps a network."""
    for t in net.state_dict().values():
        dist.broadcast(t, src=0)


def sum_over_ranks(state, bucket):
    """A hook, which DDP calls for each bucket instead of its own sum. So it has to divide, too."""
    grads, done = bucket.buffer(), torch.futures.Future()
    all_reduce_star(grads)
    done.set_result(grads / dist.get_world_size())
    return done


def hierarchical_all_reduce(x, inside, across):
    """`inside` is the group of the ranks on this host. `across` has the rank with the same part on
    each host."""
    whole = F.pad(x, (0, -len(x) % inside.size()))  # for parts of equal size
    part = whole.new_empty(len(whole) // inside.size())
    dist.reduce_scatter_tensor(part, whole, group=inside)
    dist.all_reduce(part, group=across)
    dist.all_gather_into_tensor(whole, part, group=inside)
    x.copy_(whole[:len(x)])


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    if "RANK" not in os.environ:
        sys.exit("star_in_pytorch.py: error: no ranks\nhint: torchrun --nproc-per-node 4 star_in_pytorch.py")
    gpus = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpus else "gloo")
    rank, W = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    x = torch.randn(129068, device=device)
    star, inside_first, expected = x.clone(), x.clone(), x.clone()
    dist.all_reduce(expected)
    all_reduce_star(star)
    per_host = 2 if W % 2 == 0 else W  # as if each two ranks had a host of their own
    inside = [dist.new_group(range(r, r + per_host)) for r in range(0, W, per_host)]
    across = [dist.new_group(range(r, W, per_host)) for r in range(per_host)]
    hierarchical_all_reduce(inside_first, inside[rank // per_host], across[rank % per_host])
    torch.testing.assert_close((star, inside_first), (expected, expected), rtol=1e-5, atol=1e-5)

    net = nn.Sequential(nn.Conv2d(1, 20, 3), nn.BatchNorm2d(20), nn.Flatten(), nn.Linear(13520, 10)).to(device)
    net[1].running_mean.fill_(rank)
    by_ddp = DDP(copy.deepcopy(net))
    broadcast_from_rank_0(net)
    torch.testing.assert_close(net.state_dict(), by_ddp.module.state_dict(), rtol=0, atol=0)
    by_hand, by_star = copy.deepcopy(net), DDP(net)
    by_star.register_comm_hook(None, sum_over_ranks)
    X, y = torch.randn(16, 1, 28, 28, device=device), torch.arange(16, device=device) % 10
    for each in by_ddp, by_star, by_hand:
        F.cross_entropy(each(X), y).backward()
    average_gradients(by_hand)
    star, hand, ddp = ([p.grad for p in each.parameters()] for each in (by_star, by_hand, by_ddp))
    torch.testing.assert_close((star, hand), (ddp, ddp), rtol=1e-5, atol=1e-6)
    if rank == 0:
        print(f"star of {W} ranks: rank 0 sends {(W - 1) * x.nbytes:,} bytes\n"
              "the star's sum, that inside hosts first, and dist.all_reduce()'s are the same\n"
              "the parameters that we broadcast, and DDP's, are the same\n"
              "the gradients of DDP with the star, without it, and averaged by hand are the same")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
