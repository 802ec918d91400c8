"""Chapter 4 in PyTorch: LeNet from scratch on k devices, with the data parallelism written by hand.

    python in_pytorch.py --devices 2 --epochs 3

trains on one device, then on k: on GPUs if there are enough, else with k replicas on the CPU.
"""
import argparse
import gzip
import os
import sys

try:
    import torch
    from torch.nn import functional as F
    from torch.utils.data import DataLoader, TensorDataset
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


def init_params():
    shapes = [(20, 1, 3, 3), (20,), (50, 20, 5, 5), (50,), (800, 128), (128,), (128, 10), (10,)]
    return [0.01 * torch.randn(s) if len(s) > 1 else torch.zeros(s) for s in shapes]


def get_params(params, device):
    return [p.detach().to(device, copy=True).requires_grad_() for p in params]


def lenet(X, params):
    """Here, too, the tape is built implicitly. Autograd records each operation that reads a tensor with
    `requires_grad`."""
    W1, b1, W2, b2, W3, b3, W4, b4 = params
    h1 = F.avg_pool2d(F.relu(F.conv2d(X, W1, b1)), 2)
    h2 = F.avg_pool2d(F.relu(F.conv2d(h1, W2, b2)), 2)
    h3 = F.relu(h2.flatten(1) @ W3 + b3)
    return h3 @ W4 + b4


def allreduce(grads):
    total = sum(g.to(grads[0].device) for g in grads)
    for g in grads:
        g.copy_(total)


def train_batch(X, y, device_params, devices, lr):
    """Calls on CUDA tensors only enqueue, so the GPUs work side by side although one thread makes all the calls. With
    `reduction="sum"`, the only division is in the update."""
    k, losses = len(devices), []
    for X_i, y_i, params, device in zip(X.tensor_split(k), y.tensor_split(k), device_params, devices):  # 1
        scores = lenet(X_i.to(device), params)                                                          # 2
        losses.append(F.cross_entropy(scores, y_i.to(device), reduction="sum"))
        losses[-1].backward()
    for replicas in zip(*device_params):                                                                # 3 and 4
        allreduce([p.grad for p in replicas])
    with torch.no_grad():                                                                               # 5
        for params in device_params:
            for p in params:
                p -= lr / len(X) * p.grad
                p.grad = None
    return losses


def training_loop(device_params, devices, train_iter, test, num_epochs, lr):
    """`item()` waits for the GPU, as `curves_loss()` waits for all devices."""
    for epoch in range(num_epochs):
        total, images = 0.0, 0
        for X, y in train_iter:
            losses = train_batch(X, y, device_params, devices, lr)
            total += sum(loss.item() for loss in losses)  # of the shards
            images += len(X)
        with torch.no_grad():
            right = lenet(test[0].to(devices[0]), device_params[0]).argmax(1).cpu() == test[1]
        print(f"  epoch {epoch + 1}: train loss {total / images:.3f}, test acc {right.float().mean():.3f}")
    return total / images


def train(num_gpus, params, train_data, test_data, args):
    gpus = torch.cuda.device_count() >= num_gpus
    devices = [torch.device("cuda", i) if gpus else torch.device("cpu") for i in range(num_gpus)]
    print(f"training on {[str(d) for d in devices]}: batch size {args.batch_size}, lr {args.lr}")
    device_params = [get_params(params, device) for device in devices]
    shuffled = torch.Generator().manual_seed(0)  # each run sees the same minibatches
    train_iter = DataLoader(TensorDataset(*train_data), args.batch_size, shuffle=True, generator=shuffled)
    training_loop(device_params, devices, train_iter, test_data, args.epochs, args.lr)


def same_update(params, X, y, k, lr):
    """Whether a step on k devices changes the parameters as a step on one does. (Sums that are added in another order
    differ in their last digits. In some hundred steps this grows until losses differ, too.)"""
    one, replicas = [get_params(params, "cpu")], [get_params(params, "cpu") for _ in range(k)]
    train_batch(X, y, one, ["cpu"], lr)
    train_batch(X, y, replicas, ["cpu"] * k, lr)
    return all(torch.allclose(p, q, rtol=1e-5, atol=1e-7) for r in replicas for p, q in zip(one[0], r))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--lr", type=float, default=0.2)
    args = parser.parse_args()
    torch.manual_seed(0)
    params, train_data, test_data = init_params(), fashion_mnist("train"), fashion_mnist("t10k")
    X, y = (t[:args.batch_size] for t in train_data)
    assert same_update(params, X, y, args.devices, args.lr), "k devices do not compute what one computes"
    for num_gpus in 1, args.devices:
        train(num_gpus, params, train_data, test_data, args)


if __name__ == "__main__":
    main()
