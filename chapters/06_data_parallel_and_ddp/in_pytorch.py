"""Chapter 6 in PyTorch: DDP and its sampler, written by hand and compared with PyTorch's.

    torchrun --nproc-per-node 2 in_pytorch.py --bucket-kib 64

The ranks use GPUs if there are enough, else the CPU. (Chapter 8's in_pytorch.py is a complete training with DDP.)
"""
import copy
import os
import sys
from argparse import ArgumentParser, RawTextHelpFormatter
from types import SimpleNamespace

try:
    import torch
    from torch import distributed as dist, nn
    from torch.nn import functional as F
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.testing import assert_close
    from torch.utils.data import DistributedSampler
except ImportError as e:
    sys.exit(f"in_pytorch.py: error: {e}\nhint: pip install torch")


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(20, 50, 5),
                         nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(800, 128), nn.ReLU(),
                         nn.Linear(128, 10))


# C: broadcast
def replicate(net):
    """DDP does this once. DataParallel copies from GPU 0 to the others in each step."""
    for t in net.state_dict().values():
        dist.broadcast(t, src=0)


def buckets_of(params, first_bytes, other_bytes):
    """`params` begins with the last parameter."""
    buckets = [[]]
    for p in params:
        limit = first_bytes if len(buckets) == 1 else other_bytes
        if sum(q.nbytes for q in buckets[-1]) >= limit:
            buckets.append([])
        buckets[-1].append(p)
    return buckets


def hook_all(net, buckets):
    """`ddp` holds what a rank has to remember. PyTorch's DDP does all of this in C++."""
    of = {p: b for b, bucket in enumerate(buckets) for p in bucket}
    ddp = SimpleNamespace(buckets=buckets, of=of)
    for p in net.parameters():
        p.register_post_accumulate_grad_hook(lambda p: mark_final(ddp, p))
    return ddp


def mark_final(ddp, p):
    """The hook gets the parameter. `expect_all()` has to be called before each backward pass."""
    ddp.missing[ddp.of[p]] -= 1
    while next_is_ready(ddp):
        start_bucket(ddp, ddp.buckets[len(ddp.started)])

def expect_all(ddp):
    ddp.missing, ddp.started = [len(bucket) for bucket in ddp.buckets], []


def next_is_ready(ddp):
    """A rank knows only its own gradients. Waiting for the other ranks is part of the allreduce."""
    return len(ddp.started) < len(ddp.buckets) and ddp.missing[len(ddp.started)] == 0


def start_bucket(ddp, bucket):
    """With `async_op=True`, `all_reduce()` only starts the sum and returns a handle. With NCCL, the
    sum runs on another stream, after the work that is already on the current stream."""
    flat = torch.cat([p.grad.flatten() for p in bucket])  # DDP copies, too, by default
    ddp.started.append((bucket, flat, dist.all_reduce(flat, async_op=True), sum(ddp.missing)))


def wait_for_sums(ddp):
    """With gloo, `wait()` blocks the host. With NCCL, only the current stream waits, as in C. Each
    rank's loss is a mean, so the sum is divided. (DDP divides before it sums.)"""
    for bucket, flat, work, _ in ddp.started:
        work.wait()
        flat /= dist.get_world_size()
        for p, part in zip(bucket, flat.split([p.numel() for p in bucket])):
            p.grad.copy_(part.view_as(p))


def divide_twice(net, X, y, rows):
    """`rows` are those of all ranks, but DDP divides by k as well."""
    (F.cross_entropy(net(X), y, reduction="sum") / rows).backward()


def sampler_indices(n, k, rank, mode, epoch=None):
    """With an epoch, the order is that of `DistributedSampler` with seed 0. If you train with "exact",
    ranks may have unequal numbers of images. Then divide by all ranks' images, not by k (chapter 3)."""
    shuffled = torch.Generator().manual_seed(epoch or 0)
    order = range(n) if epoch is None else torch.randperm(n, generator=shuffled).tolist()
    count = n // k + (n % k > {"padded": 0, "dropped": k, "exact": rank}[mode])
    return [order[(rank + i * k) % n] for i in range(count)]


def compare_samplers():
    for mode in "padded", "dropped", "exact":
        ours = [sampler_indices(10, 4, rank, mode) for rank in range(4)]
        counted = sum(len(sampler_indices(10000, 3, rank, mode)) for rank in range(3))
        print(f"10 images, {mode:7}", *ours, f"of 10,000, 3 ranks count {counted:,}")
        options = {"shuffle": False, "drop_last": mode == "dropped"}
        theirs = [list(DistributedSampler(range(10), 4, rank, **options)) for rank in range(4)]
        assert ours == theirs if mode != "exact" else sorted(sum(ours, [])) == list(range(10))
    sampler = DistributedSampler(range(2048), 4, 0)
    first, forgotten, told = list(sampler), list(sampler), sampler.set_epoch(1) or list(sampler)
    assert [first, told] == [sampler_indices(2048, 4, 0, "padded", epoch) for epoch in (0, 1)]
    same = [sum(a == b for a, b in zip(first, order)) / len(first) for order in (forgotten, told)]
    print("of the order, {:.1%} is the same in two epochs; with set_epoch(), {:.1%}".format(*same))
    assert same[0] == 1 and same[1] < 0.05


def compare_buckets(params):
    for kib, count in (4, 4), (64, 3), (256, 2), (1024, 1), (4096, 1):
        ours = buckets_of(params, kib << 10, kib << 10)
        theirs, _ = dist._compute_bucket_assignment_by_size(params, [kib << 10])  # as indices
        assert len(ours) == count and [len(b) for b in ours] == [len(b) for b in theirs]
        print(f"buckets of {kib:4} KiB: {count}")


def compare_with_ddp(net, X, y, bucket_bytes):
    """All ranks get equally many images, so one network with all of them has the same gradients."""
    rank, k, params = dist.get_rank(), dist.get_world_size(), list(net.parameters())
    theirs = DDP(copy.deepcopy(net))  # gets rank 0's parameters
    replicate(net)
    one = copy.deepcopy(net)
    ddp = hook_all(net, buckets_of(params[::-1], bucket_bytes, bucket_bytes))
    optimizer = torch.optim.SGD([*params, *theirs.parameters(), *one.parameters()], lr=0.1)
    for epoch in range(3):
        own = sampler_indices(len(X), k, rank, "padded", epoch)
        optimizer.zero_grad()
        expect_all(ddp)
        for each, rows in (net, own), (theirs, own), (one, slice(None)):
            F.cross_entropy(each(X[rows]), y[rows]).backward()
        wait_for_sums(ddp)
        for (name, p), q, r in zip(net.named_parameters(), theirs.parameters(), one.parameters()):
            for other, grad in ("DDP", q.grad), ("one process", r.grad):
                assert_close(p.grad, grad, rtol=1e-5, atol=1e-7, msg=lambda text: f"{name}, {other}: {text}")
        optimizer.step()
    for _, flat, _, missing in ddp.started:
        print(f"exchange of {flat.nbytes:,} bytes: started when {missing} gradients were missing")
    P = sum(flat.nbytes for _, flat, *_ in ddp.started)
    print(f"three steps as with DDP; in a ring, each rank sends {2 * (k - 1) * P // k:,} bytes")
    optimizer.zero_grad()
    divide_twice(theirs, X[own], y[own], len(X))
    F.cross_entropy(one(X), y).backward()
    wrong, right = (torch.cat([p.grad.flatten() for p in m.parameters()]) for m in (theirs, one))
    print(f"divided twice, the update is {wrong.norm() / right.norm():.3f} times as long")
    assert_close(k * wrong, right, rtol=1e-3, atol=1e-5)


def main():
    parser = ArgumentParser(description=__doc__, formatter_class=RawTextHelpFormatter)
    parser.add_argument("--bucket-kib", type=int, default=64, help="size of our buckets")
    parser.add_argument("--rows", type=int, default=64, help="of each rank")
    args = parser.parse_args()
    if "RANK" not in os.environ:
        sys.exit("in_pytorch.py: error: there is only one process\n"
                 "hint: torchrun --nproc-per-node 2 in_pytorch.py")
    gpus = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpus else torch.device("cpu")
    dist.init_process_group("nccl" if gpus else "gloo")
    if dist.get_rank() > 0:
        sys.stdout = open(os.devnull, "w")  # only rank 0 prints
    torch.manual_seed(dist.get_rank())
    net, n = lenet().to(device), args.rows * dist.get_world_size()  # other parameters on each rank
    torch.manual_seed(0)
    X, y = torch.randn(n, 1, 28, 28).to(device), torch.randint(10, (n,)).to(device)
    compare_buckets(list(net.parameters())[::-1])
    compare_with_ddp(net, X, y, args.bucket_kib << 10)
    compare_samplers()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
