#!/usr/bin/env python3
"""Writes vit.safetensors, which tests/test_vit.c compares chapter 10 with.

    build/torch/bin/python tests/reference/make_vit.py

needs torch, numpy and safetensors. The tracked file was made with PyTorch 2.15.0 on a CPU, in float64, from numbers and
images that a formula gives (resnet18.py). The blocks are PyTorch's own, nn.TransformerEncoderLayer. Here, too, the
chapter's in_pytorch.py has to compute the same logits.

    adam                    learning rate and eps
    logits                  (rows,10) at the start
    losses                  (steps): the mean loss before each step of Adam; all steps have the same images
    grad.NAME, ..           of the mean loss at the start, as in resnet18.safetensors. NAME is a parameter's in vit.h, with
                            blocks.B. before it in a block.

Of the largest number of its tensor, PyTorch's own float32 was off by up to 9e-8 in the logits, 4e-8 in the losses, and 5e-7
in a gradient.
"""
import importlib.util
from types import SimpleNamespace

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

from make_resnet18 import gradients
from resnet18 import batch, fill, save

WIDTH, HEADS, BLOCKS, PATCH, ROWS, STEPS = 16, 8, 4, 7, 6, 3
ADAM = (0.01, 0.01)     # learning rate, eps


def chapter():
    spec = importlib.util.spec_from_file_location("in_pytorch", "chapters/10_a_transformer/in_pytorch.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def all_queries_first(qkv):
    """The chapter has the queries, keys and values of each head together."""
    return qkv.unflatten(0, (HEADS, 3, -1)).transpose(0, 1).flatten(0, 2)


def block(p, b, X):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0, "gelu", batch_first=True, norm_first=True)
    ours = {"self_attn.in_proj_": "qkv_", "self_attn.out_proj.": "out_", "linear1.": "up_", "linear2.": "down_",
            "norm1.": "norm1_", "norm2.": "norm2_"}
    params = {end + kind: p[f"blocks.{b}.{ours[end]}{kind}"] for end in ours for kind in ("weight", "bias")}
    for kind in ("weight", "bias"):
        params[f"self_attn.in_proj_{kind}"] = all_queries_first(params[f"self_attn.in_proj_{kind}"])
    assert params.keys() == layer.state_dict().keys()
    return functional_call(layer, params, X)


def forward(p, X):
    patches = F.conv2d(X, p["patch_weight"].view(-1, 1, PATCH, PATCH), p["patch_bias"], stride=PATCH)
    X = patches.flatten(2).transpose(1, 2) + p["position"]
    for b in range(BLOCKS):
        X = block(p, b, X)
    X = F.layer_norm(X, (WIDTH,), p["norm_weight"], p["norm_bias"])
    return F.linear(X.mean(1), p["head_weight"], p["head_bias"])


def train(start, dtype):
    """Logits, losses, and gradients of the first step."""
    p = {name: t.to(dtype, copy=True).requires_grad_() for name, t in start.items()}
    X, y = batch(ROWS)
    lr, eps = ADAM
    optimizer, parts = torch.optim.Adam(p.values(), lr, eps=eps), {"losses": torch.empty(STEPS, dtype=dtype)}
    for step in range(STEPS):
        logits = forward(p, X.to(dtype))
        loss = F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            parts.update(logits=logits.detach(), **gradients(SimpleNamespace(named_parameters=p.items)))
        optimizer.step()
        parts["losses"][step] = loss.detach()
    return parts


def main():
    torch.set_num_threads(1)
    theirs = chapter()
    start = theirs.vit_start(WIDTH)
    fill(SimpleNamespace(state_dict=lambda: start))
    parts, float32 = train(start, torch.float64), train(start, torch.float32)
    v = theirs.vit_new({name: t.double() for name, t in start.items()}, 1, 0, "cpu")
    torch.testing.assert_close(theirs.vit_forward(v, batch(ROWS)[0].double()), parts["logits"])
    for kind in "logits", "losses", "grad":
        print(f"{kind}: float32 is off by", max(((float32[n] - t).abs() / t.abs().max()).max().item()
                                                for n, t in parts.items() if n.startswith(kind) and "index" not in n))
    save("vit.safetensors", {"adam": torch.tensor(ADAM), **parts})


if __name__ == "__main__":
    main()
