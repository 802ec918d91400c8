"""Chapter 9 in PyTorch: recomputation (activation checkpointing) of blocks with batch norm.

    python recompute_in_pytorch.py --blocks 8

uses random images, and a GPU if there is one.
"""
import argparse
import copy
import sys
from contextlib import contextmanager, nullcontext

try:
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint
except ImportError as e:
    sys.exit(f"recompute_in_pytorch.py: error: {e}\nhint: pip install torch")


@contextmanager
def without_statistics(block):
    """With a momentum of 0, running statistics do not change. (Without `track_running_stats`,
    batch norm would keep other tensors than the first time, which `checkpoint()` refuses.)"""
    norms = [(m, m.momentum, m.num_batches_tracked.clone())
             for m in block.modules() if isinstance(m, nn.BatchNorm2d)]
    for m, _, _ in norms:
        m.momentum = 0.0
    try:
        yield
    finally:  # the second pass ends with an exception, as soon as backward has what it needs
        for m, momentum, count in norms:
            m.momentum = momentum
            m.num_batches_tracked.copy_(count)


# C: checkpoint
def forward_recomputed(blocks, X, again=without_statistics):
    """`checkpoint()` keeps a block's input, and computes the block again in the backward pass. The
    two contexts are for the first and the second time. If you give none, both update batch norm's
    running statistics."""
    for block in blocks:
        X = checkpoint(block, X, use_reentrant=False, context_fn=lambda: (nullcontext(), again(block)))
    return X


def forward_counted(blocks, X):
    """Returns the output, the bytes that autograd keeps, and those of the blocks' inputs."""
    kept, inputs, weights = {}, 0, {p.data_ptr() for p in blocks.parameters()}
    def keep(t):
        kept[t.data_ptr()] = 0 if t.data_ptr() in weights else t.nbytes
        return t
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        for block in blocks:
            inputs += X.nbytes
            X = block(X)
    return X, sum(kept.values()), inputs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=16)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    blocks = nn.Sequential(*(
        nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
                      nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        for _ in range(args.blocks))).to(device)
    once, twice = copy.deepcopy(blocks), copy.deepcopy(blocks)
    X = torch.randn(args.batch_size, 16, 28, 28, device=device) + 1
    for _ in range(2):
        Y, kept, inputs = forward_counted(blocks, X)
        Y.sum().backward()
        forward_recomputed(once, X).sum().backward()
    grads = [[p.grad for p in net.parameters()] for net in (blocks, once)]
    torch.testing.assert_close(*grads, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(once.state_dict(), blocks.state_dict(), rtol=1e-5, atol=1e-6)
    forward_recomputed(twice, X, lambda block: nullcontext()).sum().backward()
    torch.testing.assert_close(twice.state_dict(), once.state_dict())  # after two steps
    print(f"activations of {args.blocks} blocks: {kept / 1e6:.1f} MB\n"
          f"  recomputed, only the inputs are kept: {inputs / 1e6:.1f} MB\n"
          "  the gradients and the running statistics are the same\n"
          "if both passes update the statistics, one step changes them as two steps do")


if __name__ == "__main__":
    main()
