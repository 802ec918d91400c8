"""Chapter 3 in PyTorch: a minibatch is split over k devices. Divide the summed gradients once, by all rows.

    python in_pytorch.py --rows 96 --devices 7

k GPUs are used if they are there.
"""
import argparse
import sys

try:
    import torch
    from torch.nn import functional as F
except ImportError as e:
    sys.exit(f"in_pytorch.py: error: {e}\nhint: pip install torch")


def gradient_of_sum(X_shard, y_shard, params):
    """Leave out `reduction="sum"` and you get the mean over the shard's own rows. The whole mistake is one missing
    argument."""
    W, b = params
    scores = X_shard.flatten(1) @ W + b
    F.cross_entropy(scores, y_shard, reduction="sum").backward()


def sum_then_divide(gradients, rows):
    return sum(gradients) / sum(rows)


def average_the_averages(gradients, rows):
    """DDP's division by the number of processes does the same."""
    means = [g / n for g, n in zip(gradients, rows)]
    return torch.stack(means).mean(0)


def split_batch(X, y, devices):
    """`tensor_split()` makes the same shards as our C code. `nn.parallel.scatter(X, devices)`, which needs GPUs, rounds
    up. It splits 8 rows over 5 GPUs into 2, 2, 2, 2, and nothing for the last."""
    assert len(X) == len(y)
    def shards(t):
        return [s.to(d) for s, d in zip(t.tensor_split(len(devices)), devices)]
    return shards(X), shards(y)


def gradients_of_shards(X, y, params, devices):
    """Of W, and how many rows each device has."""
    gradients, rows = [], []
    for X_shard, y_shard in zip(*split_batch(X, y, devices)):
        replica = [p.detach().to(X_shard.device, copy=True).requires_grad_() for p in params]
        gradient_of_sum(X_shard, y_shard, replica)
        gradients.append(replica[0].grad.cpu())
        rows.append(len(X_shard))
    return gradients, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help="instead of 96 and 3")
    parser.add_argument("--devices", type=int, default=7)
    args = parser.parse_args()
    torch.manual_seed(0)
    params = 0.1 * torch.randn(784, 10), torch.zeros(10)
    gpus = torch.cuda.device_count() >= args.devices
    for n, k in [(args.rows, args.devices)] if args.rows else [(96, 4), (96, args.devices), (3, 4)]:
        devices = [torch.device("cuda", i) if gpus else torch.device("cpu") for i in range(k)]
        X, y = torch.rand(n, 1, 28, 28), torch.randint(10, (n,))
        right = sum_then_divide(*gradients_of_shards(X, y, params, devices[:1]))
        gradients, rows = gradients_of_shards(X, y, params, devices)
        print(f"{n} rows over {k} devices: {rows}")
        for combine in sum_then_divide, average_the_averages:
            error = (combine(gradients, rows) - right).abs().max() / right.abs().max()
            print(f"    {combine.__name__:20} has an error of {error:.1e}")
            assert combine is average_the_averages or error < 1e-5


if __name__ == "__main__":
    main()
