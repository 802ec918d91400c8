"""Chapter 8 in PyTorch: trains LeNet on many ranks with DistributedDataParallel (DDP).

    torchrun --nproc-per-node 2 in_pytorch.py --epochs 2 --parts 4

On two machines, start it on both, with the name of the first one:

    torchrun --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint one:29500 in_pytorch.py

Ranks use GPUs and NCCL if this machine shows them a GPU each, else the CPU and gloo.
"""
import argparse
import contextlib
import datetime
import gzip
import os
import sys

try:
    import torch
    from torch import distributed as dist, nn
    from torch.nn import functional as F
    from torch.nn.parallel import DistributedDataParallel as DDP
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
except ImportError as e:
    sys.exit(f"in_pytorch.py: error: {e}\nhint: pip install torch")


def fashion_mnist(kind):
    """All images of "train" or "t10k" (n,1,28,28), from 0 to 1, and their labels."""
    folder = os.environ.get("FASHION_MNIST_DIR", "/usr/share/datasets/fashion-mnist")
    def idx(name, header):
        with gzip.open(f"{folder}/{kind}-{name}-ubyte.gz") as file:
            return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8, offset=header)
    try:
        return idx("images-idx3", 16).view(-1, 1, 28, 28) / 255, idx("labels-idx1", 8).long()
    except OSError as e:
        sys.exit(f"in_pytorch.py: error: {e}\nhint: `make setup` installs the data set, or set FASHION_MNIST_DIR")


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2),
                         nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
                         nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10))


# C: watch
def meet(backend):
    """A rank that waits in a collective for longer than the timeout ends with an error, and `torchrun` ends the others.
    The error names no rank. NCCL's names the collective, such as `SeqNum=15, OpType=ALLREDUCE`. Gloo's only says `Timed
    out waiting 60000ms for recv operation`, below the line of your program. So ask each process where it is, before the
    timeout: `py-spy dump --pid PID` prints its Python functions, the innermost first. When we made one of four ranks
    sleep, three were in `all_reduce`, and the fourth in the function with `sleep()`. With gloo, you can also call
    `dist.monitored_barrier()`, which says `Rank 2 failed to pass monitoredBarrier`."""
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=60))


def find_the_others():
    """`torchrun` has set the address and the three numbers in the environment."""
    if "RANK" not in os.environ:
        sys.exit("in_pytorch.py: error: no ranks\nhint: torchrun --nproc-per-node 2 in_pytorch.py")
    gpus = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    meet("nccl" if gpus else "gloo")
    return dist.get_rank(), dist.get_world_size(), int(os.environ["LOCAL_RANK"])


def open_device(local_rank):
    if dist.get_backend() != "nccl":
        return torch.device("cpu")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def rule_lr(base_lr, times, step, warm_up_steps):
    """The linear rule with warm-up. DDP leaves the learning rate to you."""
    return base_lr * (1 + (times - 1) * (step / warm_up_steps if step < warm_up_steps else 1))


def accumulate(net, X, y, parts):
    """`net` is `DDP(model)`. Each part's loss is a sum, divided by the rows of all parts, and DDP
    divides by the number of ranks. Gradients are exchanged only in the last part's backward pass.
    On one device, leave out `no_sync()`."""
    total = 0
    for i, (X_i, y_i) in enumerate(zip(X.tensor_split(parts), y.tensor_split(parts)), 1):
        with contextlib.nullcontext() if i == parts else net.no_sync():
            loss = F.cross_entropy(net(X_i), y_i, reduction="sum") / len(X)
            loss.backward()
        total += loss.detach()
    return total


def loss_of_all(loss, step):
    """The mean over the ranks. It is the same on all, so all of them stop if it is not a number.
    `isfinite()` and `item()` wait for the GPU in each step."""
    dist.all_reduce(loss)
    if not loss.isfinite():
        sys.exit(f"in_pytorch.py: error: loss {loss} at step {step}\nhint: try a smaller --lr")
    return loss.item() / dist.get_world_size()


def accuracy(net, test, device):
    net.eval()  # LeNet needs neither this nor train(), but batch norm and dropout do
    right = torch.zeros((), device=device)
    with torch.no_grad():  # each rank has its own test images
        for X, y in zip(*(t[dist.get_rank()::dist.get_world_size()].split(500) for t in test)):
            right += (net(X.to(device)).argmax(1) == y.to(device)).sum()
    dist.all_reduce(right)
    net.train()
    return right.item() / len(test[1])


def check_step(net, loader, device, parts):
    """All ranks with their parts compute the gradients of one device with the whole minibatch."""
    X, y = next(iter(loader))
    accumulate(net, X.to(device), y.to(device), parts)
    whole = list(DistributedSampler(loader.dataset, 1, 0))[:len(X) * dist.get_world_size()]
    X, y = loader.dataset[whole]
    loss, params = F.cross_entropy(net.module(X.to(device)), y.to(device)), list(net.parameters())
    torch.testing.assert_close([p.grad for p in params], list(torch.autograd.grad(loss, params)), rtol=1e-5,
                               atol=1e-6, msg=lambda text: f"not the gradients of one device\n{text}")


# C: train_epoch
def train_on_ranks(net, loader, test, device, args):
    W, step, optimizer = dist.get_world_size(), 0, torch.optim.SGD(net.parameters(), args.lr)
    warm_up_steps = args.epochs * len(loader) * 5 // 90  # as in Goyal et al.: 5 epochs of 90
    for epoch in range(args.epochs):
        loader.sampler.set_epoch(epoch)  # else each epoch has the same order
        total = 0
        for X, y in loader:
            optimizer.param_groups[0]["lr"] = rule_lr(args.lr, W, step, warm_up_steps)
            optimizer.zero_grad()
            loss = accumulate(net, X.to(device), y.to(device), args.parts)
            optimizer.step()
            step += 1
            total += loss_of_all(loss, step)
        test_acc = accuracy(net.module, test, device)  # all ranks call it, and rank 0 prints
        if dist.get_rank() == 0:
            print(f"  epoch {epoch + 1}: train loss {total / len(loader):.3f}, test acc {test_acc:.4f}")
            if args.checkpoint:
                torch.save(net.module.state_dict(), args.checkpoint)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch-size", type=int, default=64, help="images of each rank in a step")
    parser.add_argument("--parts", type=int, default=4, help="in how many parts, one after another")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.05, help="of one rank")
    parser.add_argument("--train-size", type=int, default=20000)
    parser.add_argument("--checkpoint", help="a file for the parameters")
    args = parser.parse_args()
    rank, W, local_rank = find_the_others()
    device = open_device(local_rank)
    torch.manual_seed(rank)  # so that, for example, dropout differs
    data = TensorDataset(*(t[:args.train_size] for t in fashion_mnist("train")))
    # Without drop_last, the last minibatch is smaller, and its images weigh more.
    loader = DataLoader(data, args.batch_size, sampler=DistributedSampler(data), drop_last=True)
    net = DDP(lenet().to(device))  # all ranks start with rank 0's parameters
    check_step(net, loader, device, args.parts)
    if rank == 0:
        print(f"{W} ranks, rank 0 on {device}, {args.batch_size} images on each in {args.parts} parts, "
              f"learning rate {args.lr} x {W}")
    train_on_ranks(net, loader, fashion_mnist("t10k"), device, args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
