"""Chapter 1 in PyTorch: a step of LeNet on k devices, split across data, across layers and within layers.

    python in_pytorch.py --devices 4

compares the gradients with those of one device, and counts the bytes that move. k GPUs are used if they are there.
"""
import argparse
import sys

try:
    import torch
    from torch.nn import functional as F
except ImportError as e:
    sys.exit(f"in_pytorch.py: error: {e}\nhint: pip install torch")

SHAPES = [(20, 1, 3, 3), (50, 20, 5, 5), (128, 800), (10, 128)]  # of the layers' weights
moved = 0  # bytes from one device to another


def count(t):
    global moved
    moved += t.numel() * t.element_size()

def move(x, device, is_there):
    """Autograd records `.to()` like any other operation. So the gradient comes back the same way, which the hook counts."""
    if is_there:
        return x
    count(x)
    x = x.to(device, copy=True)
    if x.requires_grad:
        x.register_hook(count)
    return x


def layer(l, X, W, b):
    if l < 2:
        return F.avg_pool2d(F.relu(F.conv2d(X, W, b)), 2)
    out = F.linear(X.flatten(1), W, b)
    return F.relu(out) if l == 2 else out

def on(device, params):
    return [[t.detach().to(device, copy=True).requires_grad_() for t in pair] for pair in params]


def shard_gradients(X, y, device_params, devices):
    """The loop does not wait for a GPU if X and y are on one, because calls on CUDA tensors only enqueue work. From the
    host's memory, `.to()` waits."""
    k = len(devices)
    for X_i, y_i, params, device in zip(X.tensor_split(k), y.tensor_split(k), device_params, devices):
        scores = X_i.to(device)
        for l, (W, b) in enumerate(params):
            scores = layer(l, scores, W, b)
        F.cross_entropy(scores, y_i.to(device), reduction="sum").backward()


def sum_gradients(device_params, devices):
    """Between processes, `torch.distributed.all_reduce(p.grad)` does this for one parameter. DDP (chapter 6) does it for
    all of them, in buckets, and divides by the number of processes."""
    for replicas in zip(*[[t for pair in params for t in pair] for params in device_params]):
        total = sum(move(p.grad, devices[0], i == 0) for i, p in enumerate(replicas))
        for i, p in enumerate(replicas):
            p.grad.copy_(move(total, devices[i], i == 0))


def across_data(X, y, params, devices):
    device_params = [on(device, params) for device in devices]
    shard_gradients(X, y, device_params, devices)
    sum_gradients(device_params, devices)
    return device_params[-1]


def microbatch_forward(stages, X, y, devices):
    """`torch.distributed.pipelining` provides complete pipelines."""
    for i, (stage, device) in enumerate(zip(stages, devices)):
        X = move(X.to(device) if i == 0 else X, device, i == 0)
        for l, W, b in stage:
            X = layer(l, X, W, b)
    return F.cross_entropy(X, y.to(devices[-1]), reduction="sum")


def microbatch_backward(loss):
    """Autograd goes back through all stages and through the `.to()` calls between them."""
    loss.backward()

def across_layers(X, y, params, devices, microbatches=8):
    k = len(devices)
    cuts = [range(4)[len(SHAPES) * i // k:len(SHAPES) * (i + 1) // k] for i in range(k)]
    params = [on(devices[i], [params[l]])[0] for i in range(k) for l in cuts[i]]
    stages = [[(l, *params[l]) for l in cut] for cut in cuts]
    losses = [microbatch_forward(stages, X_j, y_j, devices)
              for X_j, y_j in zip(X.tensor_split(microbatches), y.tensor_split(microbatches))]
    for loss in reversed(losses):
        microbatch_backward(loss)
    return params


def all_gather(outputs, devices, of_own=False):
    """Between processes, this is `torch.distributed.nn.functional.all_gather()`. In the backward pass, autograd turns it
    into a reduce-scatter. (Each device computes the loss from all scores, so it already has the gradient of its own ones.)"""
    return [torch.cat([move(part.detach() if of_own and i != j else part, device, i == j) for j, part in enumerate(outputs)],
                      dim=1) for i, device in enumerate(devices)]


def forward_pass(parts, X, devices):
    inputs = [X.to(device) for device in devices]
    for l in range(len(SHAPES)):  # parts[i][l]: device i's channels of layer l
        outputs = [layer(l, X_i, *part[l]) for X_i, part in zip(inputs, parts)]
        inputs = all_gather(outputs, devices, of_own=l == len(SHAPES) - 1)
    return inputs  # the scores, on every device


def within_layers(X, y, params, devices):
    cut = [[t.tensor_split(len(devices)) for t in pair] for pair in params]
    parts = [on(device, [[t[i] for t in pair] for pair in cut]) for i, device in enumerate(devices)]
    losses = [F.cross_entropy(scores, y.to(device), reduction="sum")
              for scores, device in zip(forward_pass(parts, X, devices), devices)]
    sum(loss.cpu() for loss in losses).backward()
    return parts


def gradient(params):
    """Of all parameters, in their order. (Within layers, each device has a part.)"""
    by_layer = zip(*params) if isinstance(params[0][0], list) else [[pair] for pair in params]
    return torch.cat([torch.cat([pair[i].grad.cpu() for pair in pairs]).flatten() for pairs in by_layer for i in (0, 1)])


def main():
    global moved
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=4, choices=range(1, 5))
    parser.add_argument("--batch-size", type=int, default=256)
    args = parser.parse_args()
    torch.manual_seed(0)
    params = [(0.1 * torch.randn(shape), torch.zeros(shape[0])) for shape in SHAPES]
    X, y = torch.rand(args.batch_size, 1, 28, 28), torch.randint(10, (args.batch_size,))
    gpus = torch.cuda.device_count() >= args.devices
    devices = [torch.device("cuda", i) if gpus else torch.device("cpu") for i in range(args.devices)]
    expected = gradient(across_data(X, y, params, devices[:1]))
    for strategy in across_data, across_layers, within_layers:
        moved = 0
        difference = gradient(strategy(X, y, params, devices)) - expected
        error = (difference.abs().max() / expected.abs().max()).item()
        print(f"{strategy.__name__:14} error {error:.0e}, {moved:,} bytes moved")
        assert error < 1e-4, "k devices do not compute what one computes"


if __name__ == "__main__":
    main()
