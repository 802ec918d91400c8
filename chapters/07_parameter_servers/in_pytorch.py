"""Chapter 7 in PyTorch: parameter servers, with a thread for each worker.

    python in_pytorch.py --workers 4 --servers 2

Workers compute on GPUs if there are enough, else on the CPU. The last one is slow.
"""
import argparse
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as e:
    sys.exit(f"in_pytorch.py: error: {e}\nhint: pip install torch")


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2),
                         nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
                         nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10))

def gradients(net, device, params, X, y):
    """Of the sum of all rows' losses. All parameters are one vector, and so are their gradients."""
    nn.utils.vector_to_parameters(params.to(device), net.parameters())
    loss = F.cross_entropy(net(X.to(device)), y.to(device), reduction="sum")
    return nn.utils.parameters_to_vector(torch.autograd.grad(loss, list(net.parameters()))).cpu()


def servers_new(params, S, per_update, scale):
    return [SimpleNamespace(keys=slice(part.storage_offset(), part.storage_offset() + len(part)),
                            params=part.clone(), received={}, per_update=per_update, scale=scale,
                            lock=threading.Lock(), version=0, bytes=0) for part in params.tensor_split(S)]


def servers_push(servers, w, grads):
    """Workers are threads, so each server has a lock."""
    for server in servers:
        with server.lock:
            server.received[w] = grads[server.keys].clone()
            server.bytes += server.received[w].nbytes
            if len(server.received) == server.per_update:
                servers_update(server)


def servers_pull(servers, params):
    for server in servers:
        with server.lock:
            params[server.keys] = server.params
            server.bytes += server.params.nbytes


def servers_update(server):
    """Each server updates its own part, and adds in the order of the workers' numbers. `scale` is
    the learning rate, divided by the number of images in the whole minibatch."""
    server.params -= server.scale * sum(server.received[w] for w in sorted(server.received))
    server.received.clear()


def may_pull(w, steps, staleness):
    return within_bound(steps[w], steps, staleness)

def worker(w, servers, params, compute, num_steps, staleness, steps, changed):
    """`wait_for()` unlocks the condition `changed` while it waits. It asks again after each
    `notify_all()`."""
    for step in range(num_steps):
        with changed:
            changed.wait_for(lambda: may_pull(w, steps, staleness))
            assert steps[w] - min(steps) <= staleness, "it should have waited"
        servers_pull(servers, params)
        servers_push(servers, w, compute(w, params, step))
        with changed:
            steps[w] += 1
            changed.notify_all()


def within_bound(mine, steps, staleness):
    return mine - min(steps) <= staleness


def visit_server(server, grads, params, based_on):
    with server.lock:
        stale = server.version - based_on
        server.params -= server.scale * grads[server.keys]
        params[server.keys] = server.params
        server.version += 1
        return server.version, stale


def push_and_pull(servers, w, grads, params, based_on):
    """Python runs one thread at a time, except inside operations on tensors."""
    for turn in range(len(servers)):
        s = (w + turn) % len(servers)
        based_on[s], stale = visit_server(servers[s], grads, params, based_on[s])
    return stale


def combine_gradients(tower_grads):
    """`tower_grads[t]` lists the gradients of tower t. As in the article, the sum of k means is k
    times too large. (DDP would divide it by k.)"""
    return [torch.stack(grads).sum(0) for grads in zip(*tower_grads)]


def train(start, W, S, compute, scale, num_steps, staleness):
    """With visits if staleness is None. Returns the servers, seconds, and pushes' staleness."""
    servers = servers_new(start, S, W if staleness == 0 else 1, scale)
    steps, changed, tickets = [0] * W, threading.Condition(), iter(range(W * num_steps))
    def run(w):
        mine, based_on = start.clone(), [0] * S
        time.sleep(0.02 * w)  # some push before others have pulled
        if staleness is None:
            return [push_and_pull(servers, w, compute(w, mine, n), mine, based_on) for n in tickets]
        try:
            worker(w, servers, mine, compute, num_steps, staleness, steps, changed)
        finally:  # nobody waits for a worker that has ended
            with changed:
                steps[w] = float("inf")
                changed.notify_all()
    begin = time.perf_counter()
    with ThreadPoolExecutor(W) as pool:
        results = list(pool.map(run, range(W)))
    return servers, time.perf_counter() - begin, results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--slow", type=float, default=4, help="times as long for the last worker")
    args = parser.parse_args()
    W, S, lr, n = args.workers, args.servers, 0.2, 16  # n images on each worker
    torch.manual_seed(0)
    torch.set_num_threads(1)
    gpus = torch.cuda.device_count() >= W
    devices = [torch.device("cuda", w) if gpus else torch.device("cpu") for w in range(W)]
    nets = [lenet().to(device) for device in devices]
    start = nn.utils.parameters_to_vector(lenet().parameters()).detach()
    X, y = torch.randn(5, W, n, 1, 28, 28), torch.randint(10, (5, W, n))

    def of_shard(w, params, step):
        return gradients(nets[w], devices[w], params, X[step, w], y[step, w])
    servers, _, _ = train(start, W, S, of_shard, lr / (W * n), 5, staleness=0)
    one = start.clone()
    for step in range(5):
        grads = gradients(nets[0], devices[0], one, X[step].flatten(0, 1), y[step].flatten()) / (W * n)
        towers = [[of_shard(w, one, step) / n] for w in range(W)]
        torch.testing.assert_close(combine_gradients(towers)[0], W * grads, rtol=1e-4, atol=1e-5)
        one -= lr * grads
    torch.testing.assert_close(torch.cat([s.params for s in servers]), one, rtol=1e-5, atol=1e-6)
    print(f"{W} workers, 5 synchronous steps: the same parameters as on one device\n"
          f"  bytes in a step: a worker {2 * start.nbytes:,}, one of {S} servers {servers[0].bytes // 5:,}\n"
          f"the sum of {W} towers: {W} times the gradient of the whole minibatch")

    def ones(w, params, step):
        assert all((params[s.keys] == params[s.keys][0]).all() for s in servers), "a torn pull"
        assert staleness != 0 or (params == -step * W / 1024).all(), "a push was applied alone"
        time.sleep(0.02 * (args.slow if w == W - 1 else 1))
        return torch.ones_like(params)
    print(f"{32 * W} pushes of ones, the last worker {args.slow:g} times as slow")
    for name, staleness in ("synchronous", 0), ("SSP 1", 1), ("asynchronous", None):
        done, seconds, stale = train(torch.zeros_like(start), W, S, ones, 1 / 1024, 32, staleness)
        assert all((s.params == -32 * W / 1024).all() for s in done), "a push is lost"
        print(f"  {name:12} {seconds:.1f} sec, none lost, no pull torn")
    stale = sum(stale, [])
    print(f"  staleness, asynchronous: mean {sum(stale) / len(stale):.2f}, max {max(stale)}")


if __name__ == "__main__":
    main()
