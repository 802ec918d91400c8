"""Chapter 10 in PyTorch: a vision transformer whose layers are split over k ranks.

    torchrun --nproc-per-node 4 in_pytorch.py

trains on random numbers, and compares with one process that has everything. Ranks use GPUs if there are enough, else the CPU.
"""
import os
import sys
from argparse import ArgumentParser, RawTextHelpFormatter
from types import SimpleNamespace

try:
    import torch
    from torch import distributed as dist, nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    from torch.nn import functional as F
except ImportError as e:
    sys.exit(f"in_pytorch.py: error: {e}\nhint: pip install torch")

PATCH, TOKENS, BLOCKS, HEADS = 7, 16, 4, 8
CUTS = {"qkv_weight": 0, "qkv_bias": 0, "up_weight": 0, "up_bias": 0, "out_weight": 1, "down_weight": 1}  # dimensions


# C: sum_in_halves
def sum_of_ranks(X):
    """The library decides in which order it adds. So results for different k differ in their last digits."""
    X = X.clone()  # all_reduce() works in place
    dist.all_reduce(X)
    return X


def enter(X, k):
    """Autograd does not look into collectives, so you write both passes."""
    return Enter.apply(X) if k > 1 else X

class Enter(torch.autograd.Function):
    forward = staticmethod(lambda ctx, X: X.view_as(X))
    backward = staticmethod(lambda ctx, grad: sum_of_ranks(grad))


def leave(X, k):
    """PyTorch has `torch.distributed.nn.functional.all_reduce()`, but that sums in the backward pass as well."""
    return Leave.apply(X) if k > 1 else X

class Leave(torch.autograd.Function):
    forward = staticmethod(lambda ctx, X: sum_of_ranks(X))
    backward = staticmethod(lambda ctx, grad: grad)


def vit_attention(v, b, X):
    """`nn.MultiheadAttention` stores the rows of all queries first, then those of all keys, then those of all values."""
    w = v.blocks[b]
    QKV = F.linear(enter(X, v.k), w.qkv_weight, w.qkv_bias).unflatten(2, (-1, 3, v.width // HEADS))
    Q, K, V = QKV.permute(3, 0, 2, 1, 4)  # each is (N,heads,T,d), with the heads of this rank
    heads = F.scaled_dot_product_attention(Q, K, V).transpose(1, 2).flatten(2)
    return leave(F.linear(heads, w.out_weight), v.k) + w.out_bias


def vit_mlp(v, b, X):
    """`parallelize_module()` does this to an `nn.Module`. See `mlp_of_pytorch()` in the whole program."""
    w = v.blocks[b]
    up = F.linear(enter(X, v.k), w.up_weight, w.up_bias)
    return leave(F.linear(F.gelu(up), w.down_weight), v.k) + w.down_bias


def vit_block(v, b, X):
    w = v.blocks[b]
    X = X + vit_attention(v, b, F.layer_norm(X, (v.width,), w.norm1_weight, w.norm1_bias))
    return X + vit_mlp(v, b, F.layer_norm(X, (v.width,), w.norm2_weight, w.norm2_bias))


def vit_forward(v, X):
    patches = F.unfold(X, PATCH, stride=PATCH).transpose(1, 2)  # (N,T,49)
    X = F.linear(patches, v.patch_weight, v.patch_bias) + v.position
    for b in range(BLOCKS):
        X = vit_block(v, b, X)
    X = F.layer_norm(X, (v.width,), v.norm_weight, v.norm_bias)
    return F.linear(X.mean(1), v.head_weight, v.head_bias)


def vit_train_batch(v, X, y):
    """All ranks get all images. Do not wrap this in DDP, which would average the gradients of different rows."""
    v.optimizer.zero_grad()
    loss = F.cross_entropy(vit_forward(v, X), y)
    loss.backward()
    v.optimizer.step()
    return loss.item()


# C: list_kinds
def vit_start(D):
    """All ranks draw the same numbers, and then keep their parts."""
    def layer(name, *shape):
        weight = torch.randn(shape) / shape[1] ** 0.5 if len(shape) == 2 else torch.ones(shape)
        return {f"{name}_weight": weight, f"{name}_bias": torch.zeros(shape[0])}
    torch.manual_seed(0)
    start = {**layer("patch", D, PATCH * PATCH), "position": torch.randn(TOKENS, D) / D ** 0.5}
    for b in range(BLOCKS):
        for name, *shape in ("norm1", D), ("qkv", 3 * D, D), ("out", D, D), ("norm2", D), ("up", 4 * D, D), ("down", D, 4 * D):
            start.update(layer(f"blocks.{b}.{name}", *shape))
    return {**start, **layer("norm", D), **layer("head", 10, D)}


# C: part_of_kind
def vit_cut(name, whole, k, rank):
    """PyTorch, too, stores the transpose of what is used, so what is cut by columns is cut along dimension 0."""
    dim = CUTS.get(name.split(".")[-1])
    return whole if dim is None else whole.unflatten(dim, (HEADS, -1)).tensor_split(k, dim)[rank].flatten(dim, dim + 1)


# C: make_shard
def vit_new(start, k, rank, device):
    v = SimpleNamespace(k=k, width=len(start["patch_bias"]), params={}, blocks=[SimpleNamespace() for _ in range(BLOCKS)])
    for name, whole in start.items():
        v.params[name] = nn.Parameter(vit_cut(name, whole, k, rank).to(device, copy=True))
        *block, field = name.split(".")
        setattr(v.blocks[int(block[1])] if block else v, field, v.params[name])
    v.optimizer = torch.optim.Adam(v.params.values(), eps=1e-4)  # a tiny eps would enlarge rounding where gradients are tiny
    return v


# C: vit_copies_are_equal
def vit_join(v):
    whole = {}
    for name, p in v.params.items():
        parts, dim = [None] * v.k, CUTS.get(name.split(".")[-1])
        dist.all_gather_object(parts, p.detach().cpu())  # the parts may have unequal sizes
        assert dim is not None or all(part.equal(parts[0]) for part in parts), f"{name} is not the same on all ranks"
        whole[name] = parts[0] if dim is None else torch.cat(parts, dim)
    return whole


def training_loop(v, X, y):
    for epoch in range(3):
        losses = [vit_train_batch(v, *minibatch) for minibatch in zip(X, y)]
        print(f"  {len(losses)} minibatches of noise: train loss {sum(losses) / len(losses):.6f}")


def mlp_of_pytorch(v, start, X):
    """The first block's. `ColwiseParallel` has `enter()` inside, and `RowwiseParallel` has `leave()`."""
    mlp = nn.Sequential(nn.Linear(v.width, 4 * v.width), nn.GELU(), nn.Linear(4 * v.width, v.width)).to(X.device)
    names = "up_weight", "up_bias", "down_weight", "down_bias"
    mlp.load_state_dict(dict(zip(mlp.state_dict(), (start["blocks.0." + name] for name in names))))
    return parallelize_module(mlp, init_device_mesh(X.device.type, (v.k,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})(X)


def main():
    parser = ArgumentParser(description=__doc__, formatter_class=RawTextHelpFormatter)
    parser.add_argument("--width", type=int, default=64, help="numbers in each token, a multiple of 8")
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()
    if not 1 <= int(os.environ.get("WORLD_SIZE", 0)) <= HEADS or args.width % HEADS:
        sys.exit("in_pytorch.py: error: use 1 to 8 ranks and a width 8, 16, ..\nhint: torchrun --nproc-per-node 4 in_pytorch.py")
    gpus = torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpus else "gloo")
    rank, k = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        sys.stdout = open(os.devnull, "w")  # only rank 0 prints
    start = vit_start(args.width)
    X, y = torch.randn(4, args.batch_size, 1, 28, 28).to(device), torch.randint(10, (4, args.batch_size)).to(device)
    tokens = torch.randn(args.batch_size, TOKENS, args.width).to(device)
    v, one = vit_new(start, k, rank, device), vit_new(start, 1, 0, device)
    if HEADS % k == 0:  # otherwise PyTorch's own ends with an error
        torch.testing.assert_close(vit_mlp(v, 0, tokens), mlp_of_pytorch(v, start, tokens))
    for name, net in (f"layers split over {k} ranks", v), ("one process with everything", one):
        print(name)
        training_loop(net, X, y)
    apart = max((p - one.params[name].detach().cpu()).abs().max() for name, p in vit_join(v).items())
    print(f"after {3 * len(X)} steps of Adam, no parameter differs by more than {apart:.0e}")
    assert apart < 1e-5
    print(f"a rank sends in a step of {args.batch_size} images, in MB:")
    for what, size in ("layers", 4 * BLOCKS * tokens.nbytes), ("images (DDP)", sum(p.nbytes for p in start.values())):
        print(f"splitting {what:12} {2 * (k - 1) / k * size / 1e6:5.2f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
