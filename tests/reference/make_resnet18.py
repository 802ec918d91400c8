#!/usr/bin/env python3
"""Writes resnet18.safetensors, which tests/test_resnet18.c compares our ResNet-18 with.

    build/torch/bin/python tests/reference/make_resnet18.py

needs torch, numpy and safetensors. The tracked file was made with PyTorch 2.15.0 on a CPU, in
float64, from numbers that a formula gives (resnet18.py), because the network itself has 45 MB.

    shape.NAME          the shape of each tensor of state_dict (num_batches_tracked has none)
    eval.logits         (rows,10) before the step, with the running statistics of the start
    logits, loss        of a training step on the same rows: batch statistics; the mean loss
    grad.NAME           the gradient of the mean loss, whole if it has up to 64 numbers; else
    grad.NAME.index     100 places and
    grad.NAME.value     what is there;
    grad.NAME.norm      always, the square root of the sum of squares
    after.NAME          the running statistics after the step
"""
import torch
from torch.nn import functional as F

from resnet18 import batch, fill, places, resnet18, save

ROWS, PLACES = 6, 100


def gradients(net):
    random = torch.Generator().manual_seed(0)
    parts = {}
    for name, param in net.named_parameters():
        grad = param.grad.flatten()
        parts[f"grad.{name}.norm"] = grad.norm().reshape(1)
        if grad.numel() <= 64:
            parts[f"grad.{name}"] = grad
        else:
            index = parts[f"grad.{name}.index"] = places(grad, PLACES, random)
            parts[f"grad.{name}.value"] = grad[index]
    return parts


def main():
    net = resnet18(10).double()
    fill(net)
    X, y = batch(ROWS)
    X = X.double()
    parts = {f"shape.{name}": torch.tensor(tensor.shape, dtype=torch.float32)
             for name, tensor in net.state_dict().items()}
    net.eval()
    with torch.no_grad():
        parts["eval.logits"] = net(X)
    net.train()
    logits = net(X)
    loss = F.cross_entropy(logits, y)
    loss.backward()
    after = {f"after.{name}": tensor for name, tensor in net.state_dict().items() if "running" in name}
    save("resnet18.safetensors", {**parts, "logits": logits.detach(), "loss": loss.detach().reshape(1),
                                  **gradients(net), **after})


if __name__ == "__main__":
    main()
