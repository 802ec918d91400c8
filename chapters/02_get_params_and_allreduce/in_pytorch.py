"""Chapter 2 in PyTorch: copies of the parameters on k devices, and four ways to sum their gradients.

    python in_pytorch.py --devices 4

compares the sums and the bytes that each device sends. k GPUs are used if they are there.
"""
import argparse
import sys

try:
    import torch
except ImportError as e:
    sys.exit(f"in_pytorch.py: error: {e}\nhint: pip install torch")

sent = []  # bytes, by each device

def send(x, i, data, j):
    """From device i to device j, which has data[j]."""
    sent[i] += x.numel() * x.element_size()
    return x.to(data[j].device, copy=True)


def get_params(params, device):
    """Without `copy=True`, `.to()` returns the same tensor if it is already on that device, and then two replicas would
    share it."""
    return [p.detach().to(device, copy=True).requires_grad_() for p in params]


def allreduce(data):
    """`copy_()` writes into the memory of each gradient, whereas `g = total` would only give the name `g` to another
    tensor. (`send()` copies to another device and counts the bytes.) Between processes,
    `torch.distributed.all_reduce(g)` does all of this."""
    total = data[0] + sum(send(x, i, data, 0) for i, x in enumerate(data) if i > 0)
    for i, x in enumerate(data):
        x.copy_(send(total, 0, data, i) if i > 0 else total)


def allreduce_rebinding(data):
    data[0] += sum(x.to(data[0].device) for x in data[1:])
    for i in range(1, len(data)):
        data[i] = data[0].to(data[i].device, copy=True)  # a new tensor: the device's gradient stays as it was


def allreduce_sharded(data):
    k = len(data)
    parts = [x.flatten().tensor_split(k) for x in data]  # views of data[i]
    for r in range(k):  # device r adds part r, and sends the sum to all
        for i in range(k):
            if i != r:
                parts[r][r].add_(send(parts[i][r], i, data, r))
        for i in range(k):
            if i != r:
                parts[i][r].copy_(send(parts[r][r], r, data, i))


# C: pass_to_the_right
def allreduce_ring(data):
    """A step reads only parts that it does not change, so the order of the loop does not matter. Between processes, each
    rank would run this for one `i`, with `dist.batch_isend_irecv()`."""
    k = len(data)
    parts = [x.flatten().tensor_split(k) for x in data]

    def pass_to_the_right(first, store):
        for i in range(k):  # part (i + first) % k, to the right neighbour
            part, right = (i + first) % k, (i + 1) % k
            store(parts[right][part], send(parts[i][part], i, data, right))

    for step in range(k - 1):
        pass_to_the_right(-step, torch.Tensor.add_)       # reduce-scatter
    for step in range(k - 1):
        pass_to_the_right(1 - step, torch.Tensor.copy_)  # all-gather


def allreduce_tree(data):
    k, pairs, distance = len(data), [], 1
    while distance < k:
        pairs += [(i, i + distance) for i in range(0, k - distance, 2 * distance)]
        distance *= 2
    for near, far in pairs:            # up: sums end on device 0
        data[near].add_(send(data[far], far, data, near))
    for near, far in reversed(pairs):  # and down
        data[far].copy_(send(data[near], near, data, far))


def main():
    global sent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--numbers", type=int, default=129068, help="on each device; LeNet has 129,068")
    args = parser.parse_args()
    k = args.devices
    gpus = torch.cuda.device_count() >= k
    devices = [torch.device("cuda", i) if gpus else torch.device("cpu") for i in range(k)]
    data = [torch.full((1, 2), i + 1.0, device=device) for i, device in enumerate(devices)]
    sent = [0] * k
    grads = [x.clone() for x in data]
    allreduce_rebinding(list(grads))
    print("after data[i] = .., the devices have", [x.tolist() for x in grads])
    allreduce(data)
    print("after allreduce()                   ", [x.tolist() for x in data])
    torch.manual_seed(0)
    grads = [torch.randint(-99, 99, (args.numbers,)).float() for _ in devices]  # whole numbers: sums are exact
    for way in allreduce, allreduce_sharded, allreduce_ring, allreduce_tree:
        data, sent = [get_params([g], device)[0].detach() for g, device in zip(grads, devices)], [0] * k
        way(data)
        print(f"{way.__name__:17} the busiest device sends {max(sent):,} bytes")
        assert all(torch.equal(x.cpu(), sum(grads)) for x in data)


if __name__ == "__main__":
    main()
