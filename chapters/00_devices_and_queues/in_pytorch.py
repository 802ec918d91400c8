"""Chapter 0 in PyTorch: a GPU's work is enqueued; events, and copies beside work.

    python in_pytorch.py

Without a GPU, each operation is done when its call returns, so both times are the same and there are no events.
"""
import argparse
import sys
import time

try:
    import torch
except ImportError as e:
    sys.exit(f"in_pytorch.py: error: {e}\nhint: pip install torch")

PRODUCTS, now = 4, time.perf_counter


def run(x):
    Y = x
    for _ in range(PRODUCTS):
        Y = x @ Y
    return Y


def ask_too_early(x):
    """An event is recorded in the current stream of a GPU. `query()` asks, `synchronize()` waits."""
    Y = run(x)
    end = torch.cuda.Event()
    end.record(torch.cuda.current_stream(x.device))
    at_once = end.query()
    torch.cuda.synchronize(x.device)
    print(f"an event behind {PRODUCTS} products: reached at once {at_once}, after synchronize() {end.query()}")
    assert end.query() and Y.sum().item() == len(x)


def synchronize_all():
    for i in range(torch.cuda.device_count()):
        torch.cuda.synchronize(i)

def time_by(now, enqueue):
    """On the CPU, both times are the same."""
    synchronize_all()
    start = now()
    enqueue()
    enqueued = now() - start
    synchronize_all()
    return enqueued, now() - start


def side_by_side(X):
    for x in X:  # on cuda:0, cuda:1, ..
        run(x)


def one_after_the_other(X):
    """Work goes to a GPU's current stream, unless you choose another one with `torch.cuda.stream(..)`."""
    done = None
    for x in X:
        stream = torch.cuda.current_stream(x.device)
        if done:
            stream.wait_event(done)
        run(x)
        done = stream.record_event()


def copy_and_count(original, to):
    """From a GPU to the host, `non_blocking=True` only enqueues a copy, if the host's memory is pinned. So the copy and
    the next kernels can overlap. You must synchronize before you read it."""
    pinned = torch.cuda.is_available() and to.type == "cpu"
    copy = torch.empty(original.shape, device=to, pin_memory=pinned)
    copy.copy_(original, non_blocking=True)
    synchronize_all()
    print(f"{original.device} to {to}: {copy.numel() * copy.element_size():,} bytes")
    assert torch.equal(copy.cpu(), original.cpu())


def copy_afterwards(x, on_host):
    products = []
    for _ in on_host:
        products.append(x @ (products or [x])[-1])
    for host, Y in zip(on_host, products):
        host.copy_(Y, non_blocking=True)


def copy_meanwhile(x, on_host):
    """`record_stream()` keeps the memory of `Y` until the copy is done. If the host's memory were not pinned, a copy would
    block the host."""
    Y, second = x, torch.cuda.Stream(x.device)
    for host in on_host:
        Y = x @ Y
        second.wait_stream(torch.cuda.current_stream(x.device))
        with torch.cuda.stream(second):
            host.copy_(Y, non_blocking=True)
        Y.record_stream(second)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=1024, help="of the square matrices")
    side = parser.parse_args().side
    devices = [torch.device("cuda", i) for i in range(torch.cuda.device_count())] or [torch.device("cpu")]
    X = [torch.full((side, side), 1 / side, device=device) for device in devices]
    on_host = [torch.empty(side, side, pin_memory=torch.cuda.is_available()) for _ in range(PRODUCTS)]
    ways = {"device 0 alone": lambda: run(X[0]), "all, side by side": lambda: side_by_side(X),
            "device 0, then copies": lambda: copy_afterwards(X[0], on_host)}
    if torch.cuda.is_available():
        ask_too_early(X[0])
        ways["all, one after the other"] = lambda: one_after_the_other(X)
        ways["device 0, copies meanwhile"] = lambda: copy_meanwhile(X[0], on_host)
    for name, way in ways.items():
        enqueued, done = time_by(now, way)
        print(f"{PRODUCTS} products on {name}: enqueued after {1000 * enqueued:.2f} ms, done after {1000 * done:.2f} ms")
    assert all(torch.allclose(Y, X[0].cpu()) for Y in on_host), "copied before the product was there"
    product = run(X[0])
    copy_and_count(product, devices[-1])
    copy_and_count(product, torch.device("cpu"))
    copy_and_count(product.sum(), torch.device("cpu"))


if __name__ == "__main__":
    main()
