"""Chapter 5 in PyTorch: d2l's ResNet-18 on k devices. The images are random numbers.

    python in_pytorch.py --devices 2             trains on one device, then on k
    torchrun --nproc-per-node 2 in_pytorch.py    compares a step of DDP with our step on k devices

They use GPUs if there are enough, else replicas on the CPU. (To train with DDP: chapter 8's in_pytorch.py.)
"""
import copy
import os
import sys
from argparse import ArgumentParser, RawTextHelpFormatter

try:
    import torch
    from torch import distributed as dist, nn
    from torch.nn import functional as F
    from torch.testing import assert_close
except ImportError as e:
    sys.exit(f"in_pytorch.py: error: {e}\nhint: pip install torch")


# C: resnet18, resnet_block
def resnet18(num_classes, in_channels=1):
    """The names in `state_dict()` are the same as in our C code."""
    net = nn.Sequential(nn.Conv2d(in_channels, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU())
    for i, c in enumerate([64, 128, 256, 512], 1):
        first = Residual(c, c) if i == 1 else Residual(c // 2, c, use_1x1conv=True, strides=2)
        net.add_module(f"resnet_block{i}", nn.Sequential(first, Residual(c, c)))
    net.add_module("global_avg_pool", nn.AdaptiveAvgPool2d((1, 1)))
    net.add_module("fc", nn.Sequential(nn.Flatten(), nn.Linear(512, num_classes)))
    return net.apply(init_weights)

class Residual(nn.Module):
    def __init__(self, inputs, channels, use_1x1conv=False, strides=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, channels, 3, stride=strides, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv3 = nn.Conv2d(inputs, channels, 1, stride=strides) if use_1x1conv else None
        self.bn1, self.bn2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, X):
        Y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(X)))))
        return F.relu(Y + (self.conv3(X) if self.conv3 else X))

def init_weights(m):
    if type(m) in (nn.Linear, nn.Conv2d):
        nn.init.normal_(m.weight, std=0.01)


def place_on(net, devices):
    """`.to(device)` moves a module's parameters, so each replica needs a copy."""
    return [copy.deepcopy(net).to(device) for device in devices]


def allreduce_in_buckets(flats):
    """`split()` returns views, so `copy_()` writes into the long vectors."""
    for bucket in zip(*(flat.split((25 << 20) // flat.itemsize) for flat in flats)):
        total = sum(part.to(bucket[0].device) for part in bucket)
        for part in bucket:
            part.copy_(total)


def trainer_step(nets, flats, lr, batch_size):
    allreduce_in_buckets(flats)
    for net, flat in zip(nets, flats):
        params = nn.utils.parameters_to_vector(net.parameters()).detach()
        nn.utils.vector_to_parameters(params - lr / batch_size * flat, net.parameters())


def train_step_as(nets, shards, X, y, lr):
    """`parameters_to_vector()` copies the gradients. In C, they are slices of one vector."""
    losses, flats = [], []
    for net, rows in zip(nets, shards):
        device = net[0].weight.device
        losses.append(F.cross_entropy(net(X[rows].to(device)), y[rows].to(device), reduction="sum"))
        grads = torch.autograd.grad(losses[-1], list(net.parameters()))
        flats.append(nn.utils.parameters_to_vector(grads))
    trainer_step(nets, flats, lr, len(X))
    return losses


def share_statistics(nets):
    """This is `averaged`. With `rank0`, all would get `copies[0]`."""
    for copies in zip(*(net.buffers() for net in nets)):
        average = sum(c.to(copies[0].device) for c in copies) / len(copies)
        for c in copies:
            c.copy_(average)


def sync_batch_norm(norms, shards):
    """Each device merges the statistics of all shards. Autograd records `.to()`, and so makes the exchange of the
    backward pass. With DDP on GPUs: `net = nn.SyncBatchNorm.convert_sync_batchnorm(net)`."""
    stats, outputs = [torch.var_mean(X, (0, 2, 3), correction=0) for X in shards], []
    for norm, X in zip(norms, shards):
        v, m = (torch.stack([s.to(X.device) for s in each]) for each in zip(*stats))
        n = torch.tensor([[other[:, 0].numel()] for other in shards], device=X.device)
        mean = (n * m).sum(0) / n.sum()
        var = (n * (v + (m - mean) ** 2)).sum(0) / n.sum()
        with torch.no_grad():
            norm.running_mean.lerp_(mean, norm.momentum)
            norm.running_var.lerp_(var * n.sum() / (n.sum() - 1), norm.momentum)
        scale = norm.weight / (var + norm.eps).sqrt()
        outputs.append((X - mean.view(-1, 1, 1)) * scale.view(-1, 1, 1) + norm.bias.view(-1, 1, 1))
    return outputs


def training_loop(nets, X, y, batch_size, lr):
    for epoch in range(2):
        total = 0.0
        for X_b, y_b in zip(X.split(batch_size), y.split(batch_size)):
            shards = torch.arange(len(X_b)).tensor_split(len(nets))
            total += sum(loss.item() for loss in train_step_as(nets, shards, X_b, y_b, lr))
        share_statistics(nets)
        print(f"  epoch {epoch + 1}: train loss {total / len(X):.3f}")


def compare_with_one(net, X, y, lr, k):
    """One network that takes the shards in turn makes the same update. One batch norm with all rows
    computes what synchronized ones do."""
    net, X = copy.deepcopy(net).double(), X.double()  # batch norms magnify rounding errors
    one, *nets = place_on(net, ["cpu"] * (1 + k))
    shards = torch.arange(len(X)).tensor_split(k)
    for rows in shards:
        (F.cross_entropy(one(X[rows]), y[rows], reduction="sum") / len(X)).backward()
    torch.optim.SGD(one.parameters(), lr).step()
    train_step_as(nets, shards, X, y, lr)
    for replica in nets:
        assert_close(list(replica.parameters()), list(one.parameters()))
    share_statistics(nets)
    assert_close(nets[-1][1].running_mean, 0.1 * net[0](X).mean((0, 2, 3)))
    one, *norms = place_on(nn.BatchNorm2d(5).double(), ["cpu"] * (1 + k))
    X, weights = torch.randn(2, 3 * k + 1, 5, 4, 4, requires_grad=True, dtype=torch.double)
    Y, expected = torch.cat(sync_batch_norm(norms, X.tensor_split(k))), one(X)
    assert_close(Y, expected)
    assert_close(*(torch.autograd.grad((out * weights).sum(), X) for out in (Y, expected)))
    assert_close(norms[-1].running_var, one.running_var)


def compare_with_ddp(net, X, y, lr):
    """DDP averages the gradients of the ranks' mean losses, so shards have equal sizes. On a CPU, each rank's
    batch norms have their own statistics, as our replicas' do. On GPUs, they are synchronized."""
    gpus = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpus else torch.device("cpu")
    dist.init_process_group("nccl" if gpus else "gloo")
    rank, k = dist.get_rank(), dist.get_world_size()
    own = slice(4 * rank, 4 * rank + 4)
    net, X, y = net.double(), X[:4 * k].double(), y[:4 * k]
    nets = place_on(net, [device] * (1 if gpus else k))
    train_step_as(nets, torch.arange(4 * k).tensor_split(len(nets)), X, y, lr)
    if gpus:
        net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    ddp = nn.parallel.DistributedDataParallel(net.to(device))
    optimizer = torch.optim.SGD(ddp.parameters(), lr)
    F.cross_entropy(ddp(X[own].to(device)), y[own].to(device)).backward()  # averages over the ranks
    optimizer.step()
    assert_close(net.state_dict(), nets[rank % len(nets)].state_dict(), rtol=1e-5, atol=1e-7)
    if rank == 0:
        print(f"{k} ranks: a step of DDP changes parameters and statistics as our step in one process does")
    dist.destroy_process_group()


def main():
    parser = ArgumentParser(description=__doc__, formatter_class=RawTextHelpFormatter)
    parser.add_argument("--devices", type=int, default=2, choices=range(1, 9), help="without torchrun")
    parser.add_argument("--batch-size", type=int, default=8, help="for each device")
    parser.add_argument("--lr", type=float, default=0.01, help="for each device")
    args = parser.parse_args()
    torch.manual_seed(0)
    net, X, y = resnet18(10), torch.randn(32, 1, 28, 28), torch.randint(10, (32,))
    if "RANK" in os.environ:
        return compare_with_ddp(net, X, y, args.lr)
    print(f"ResNet-18: {sum(p.numel() for p in net.parameters()):,} parameters")
    compare_with_one(net, X[:3 * args.devices], y[:3 * args.devices], args.lr, args.devices)
    for k in 1, args.devices:
        gpus = torch.cuda.device_count() >= k
        devices = [torch.device("cuda", i) if gpus else torch.device("cpu") for i in range(k)]
        print(f"training on {[str(d) for d in devices]}: batch size {k * args.batch_size}")
        training_loop(place_on(net, devices), X, y, k * args.batch_size, k * args.lr)


if __name__ == "__main__":
    main()
