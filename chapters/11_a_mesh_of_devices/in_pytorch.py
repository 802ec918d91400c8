"""Chapter 11 in PyTorch: a vision transformer on a mesh of ranks.

    torchrun --nproc-per-node 4 in_pytorch.py

compares a few steps with one process that has everything. Ranks use GPUs if there are enough, else the CPU. With --bf16, --save
or --resume, it trains instead. For example, on 8 GPUs: --mesh 2x4 --bf16 --steps 100 --save FOLDER
"""
import copy
import os
import sys
from argparse import ArgumentParser, RawTextHelpFormatter
from tempfile import TemporaryDirectory
from types import SimpleNamespace

try:
    import torch
    from torch import distributed as dist, nn
    from torch.distributed.checkpoint import load, save, state_dict
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, parallel as tp
    from torch.nn import functional as F
except ImportError as e:
    sys.exit(f"in_pytorch.py: error: {e}\nhint: pip install torch")

PATCH, TOKENS, BLOCKS, HEADS = 7, 16, 4, 8


class Attention(nn.Module):  # three layers for queries, keys and values, so that a rank's columns of each are whole heads
    def __init__(self, D):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(D, D) for _ in range(4))

    def forward(self, X):
        Q, K, V = (f(X).unflatten(2, (-1, f.out_features // HEADS)).transpose(1, 2) for f in (self.query, self.key, self.value))
        return self.out(F.scaled_dot_product_attention(Q, K, V).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, D):
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(D), Attention(D), nn.LayerNorm(D)
        self.up, self.down = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)

    def forward(self, X):
        X = X + self.attention(self.norm1(X))
        return X + self.down(F.gelu(self.up(self.norm2(X))))


class Vit(nn.Module):  # an ordinary network: nothing in it knows about ranks
    def __init__(self, D):
        super().__init__()
        self.cut, self.patch = nn.Unfold(PATCH, stride=PATCH), nn.Linear(PATCH * PATCH, D)
        self.position = nn.Parameter(torch.randn(TOKENS, D) / D ** 0.5)
        self.blocks = nn.Sequential(*(Block(D) for _ in range(BLOCKS)))
        self.last = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 10))

    def forward(self, X):
        X = self.patch(self.cut(X).transpose(1, 2)) + self.position  # (N,T,D)
        return self.last(self.blocks(X)).mean(1)


def mesh_new(start, mesh=None, sums=None):
    """`start` is the same on all ranks. Outside the pairs, a rank has Shard(1), a part of the tokens."""
    net = copy.deepcopy(start)
    if mesh:
        tp.parallelize_module(net, mesh["tensor"], {
            "cut": tp.PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(2)),  # (N,49,T)
            **dict.fromkeys(["patch", "blocks.*.norm?", "last.?"], tp.SequenceParallel()),
            "blocks.*.attention": tp.PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate()),
            "blocks.*.attention.[qkv]*": tp.ColwiseParallel(),
            "blocks.*.attention.out": tp.RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
            "blocks.*.up": tp.ColwiseParallel(input_layouts=Shard(1)),
            "blocks.*.down": tp.RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
            "last": tp.PrepareModuleOutput(output_layouts=Shard(1), desired_output_layouts=Replicate())})
        net.position = nn.Parameter(distribute_tensor(net.position, mesh["tensor"], [Shard(0)]))
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16 if sums else None, reduce_dtype=sums)
        for unit in *net.blocks, net:
            fully_shard(unit, mesh=mesh["data"], mp_policy=policy)
    return SimpleNamespace(net=net, mesh=mesh, optimizer=torch.optim.Adam(net.parameters()))


def mesh_train_batch(m, X, y):
    """fully_shard() takes the mean of the networks' gradients. This is right if all have equally many images."""
    data, own = (m.mesh["data"].size(), m.mesh["data"].get_local_rank()) if m.mesh else (1, 0)
    m.optimizer.zero_grad()
    loss = F.cross_entropy(m.net(X.chunk(data)[own]).to(X.dtype), y.chunk(data)[own])
    loss.backward()
    m.optimizer.step()
    dist.all_reduce(loss.detach())
    return loss.item() / dist.get_world_size()


def minibatch(step, args):
    """Noise, but row y is brighter. Put your data here. (All ranks draw everything, but need only their network's images.)"""
    torch.manual_seed(step)
    X, y = torch.randn(args.batch_size, 1, 28, 28), torch.randint(10, (args.batch_size,))
    X[range(args.batch_size), 0, y] += 1
    return X.to(args.device), y.to(args.device)


def training_loop(name, m, steps, args):
    losses = [mesh_train_batch(m, *minibatch(step, args)) for step in steps]
    print(f"{name:27}", *(f"{loss:.6f}" for loss in losses))
    return losses


def vit_save(m, steps, folder):
    net, optimizer = state_dict.get_state_dict(m.net, m.optimizer)
    save({"net": net, "optimizer": optimizer, "steps": steps}, checkpoint_id=folder)  # each rank writes its parts


def vit_resume(m, folder):
    net, optimizer = state_dict.get_state_dict(m.net, m.optimizer)
    load(state := {"net": net, "optimizer": optimizer, "steps": 0}, checkpoint_id=folder)  # fills the own parts
    state_dict.set_state_dict(m.net, m.optimizer, model_state_dict=net, optim_state_dict=optimizer)
    return state["steps"]


def compare(start, mesh, other_mesh, args):
    torch.set_default_dtype(torch.float64)  # so that a difference is not rounding
    one, m, other = mesh_new(start), mesh_new(start, mesh), mesh_new(start, other_mesh)
    expected = training_loop("one process", one, range(6), args)
    losses = training_loop(f"mesh {args.mesh}", m, range(3), args)
    with TemporaryDirectory() as folder:
        dist.broadcast_object_list(folders := [folder])  # rank 0's
        vit_save(m, 3, *folders)
        resumed = range(vit_resume(other, *folders), 6)
        dist.barrier()  # then it is removed
    losses += training_loop("  goes on", m, range(3, 6), args)
    losses += training_loop(f"  goes on as {other_mesh.size()}x1", other, resumed, args)
    torch.testing.assert_close(losses, expected + expected[3:], rtol=1e-9, atol=0)
    for split in m, other:  # cut in the same way, the one process has the same parts
        for p, q in zip(split.net.parameters(), mesh_new(one.net, split.mesh).net.parameters()):
            torch.testing.assert_close(p.to_local(), q.to_local(), rtol=1e-9, atol=1e-12)
    for name, p in list(m.net.blocks[0].named_parameters())[::2]:
        print(f"rank 0 keeps {str(tuple(p.to_local().shape)):9} of {name} {tuple(p.shape)}")
    for sums in torch.float32, torch.bfloat16:
        m = mesh_new(start.float(), mesh, sums)
        losses = training_loop(f"bfloat16, sums in {str(sums)[6:]}", m, range(3), args)
        lost = torch.cat([(p.grad != p.grad.bfloat16()).to_local().flatten() for p in m.net.parameters()]).double().mean()
        print(f"  {lost:.0%} of its summed gradients are not bfloat16 numbers")
        torch.testing.assert_close(losses, expected[:3], rtol=0.01, atol=0)
        assert (lost > 0.2) == (sums == torch.float32 and mesh["data"].size() > 1)


def main():
    k = int(os.environ.get("WORLD_SIZE", 0))
    parser = ArgumentParser(description=__doc__, formatter_class=RawTextHelpFormatter)
    parser.add_argument("--mesh", metavar="DxT", default=f"{k}x1" if k % 2 else f"{k // 2}x2", help="D networks on T ranks each")
    parser.add_argument("--width", type=int, default=64, help="numbers in each token, a multiple of 8")
    parser.add_argument("--batch-size", type=int, default=48, help="images of all ranks in a step")
    parser.add_argument("--bf16", action="store_true", help="train in bfloat16")
    parser.add_argument("--steps", type=int, default=20, help="with --bf16, --save or --resume")
    parser.add_argument("--save", metavar="FOLDER", help="at the end, write a checkpoint into a folder that all hosts have")
    parser.add_argument("--resume", metavar="FOLDER", help="go on from a checkpoint of any mesh")
    args = parser.parse_args()
    sizes = [int(size) for size in args.mesh.split("x") if size.isdecimal()]
    if k == 0 or len(sizes) != 2 or sizes[0] * sizes[1] != k or HEADS % sizes[1]:
        sys.exit(f"in_pytorch.py: error: {k} ranks, mesh {args.mesh}\nhint: torchrun --nproc-per-node 4 in_pytorch.py --mesh 2x2")
    if args.width < 8 or args.width % HEADS or args.batch_size < 1 or args.batch_size % k:
        sys.exit(f"in_pytorch.py: error: unequal parts\nhint: a --width of 8, 16, .., and a --batch-size of {k}, {2 * k}, ..")
    args.device = "cuda" if torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"]) else "cpu"
    mesh, other = (dist.init_device_mesh(args.device, shape, mesh_dim_names=("data", "tensor")) for shape in (sizes, (k, 1)))
    if dist.get_rank() > 0:
        sys.stdout = open(os.devnull, "w")  # only rank 0 prints
    torch.manual_seed(0)
    start = Vit(args.width).to(args.device)
    if not (args.bf16 or args.save or args.resume):
        compare(start.double(), mesh, other, args)
    else:
        m = mesh_new(start, mesh, torch.float32 if args.bf16 else None)
        first = vit_resume(m, args.resume) if args.resume else 0
        steps = range(first, first + args.steps)
        for i in steps[::5]:
            training_loop(f"after {i} steps", m, range(i, min(i + 5, steps.stop)), args)
        if args.save:
            vit_save(m, steps.stop, args.save)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
