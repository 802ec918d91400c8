"""Chapter 10's mesh in PyTorch, with sequence parallelism: torchrun --nproc-per-node 4 mesh_in_pytorch.py"""
import copy
import torch
from torch import distributed as dist, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, parallel as tp

mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
torch.set_default_device(mesh.device_type)  # with four GPUs, write "cuda" above
torch.set_default_dtype(torch.float64)  # so that a difference is not rounding

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.head = nn.LayerNorm(64), nn.Linear(64, 10)
        self.up, self.gelu, self.down = nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)
    def forward(self, X):  # (images,tokens,64)
        return self.head(X + self.down(self.gelu(self.up(self.norm(X))))).mean(1)

torch.manual_seed(0)  # every rank draws everything, and then uses its part
whole, X, y = Net(), torch.randn(32, 16, 64), torch.randint(10, (32,))
split = tp.parallelize_module(copy.deepcopy(whole), mesh["tensor"], {
    "norm": tp.SequenceParallel(),  # its input is cut along dimension 1, the tokens
    "up": tp.ColwiseParallel(input_layouts=Shard(1)),
    "down": tp.RowwiseParallel(output_layouts=Shard(1)),
    "head": tp.ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})
fully_shard(split, mesh=mesh["data"])
d, t = mesh.get_coordinate()
own_X, own_y = X.chunk(2)[d].chunk(2, 1)[t], y.chunk(2)[d]
for net, X, y in (split, own_X, own_y), (whole, X, y):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(X), y).backward()
        optimizer.step()
split.unshard()  # joins what "data" cut; full_tensor() joins what "tensor" cut
for p, q in zip(split.parameters(), whole.parameters()):
    torch.testing.assert_close(p.full_tensor() if isinstance(p, DTensor) else p, q)
print(f"rank {dist.get_rank()} is {d, t}, with X {tuple(own_X.shape)} and up "
      f"{tuple(split.up.weight.to_local().shape)}: as one process")
dist.destroy_process_group()
