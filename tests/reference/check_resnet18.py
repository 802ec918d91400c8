#!/usr/bin/env python3
"""Parameters go from the book's PyTorch model into our program and back.

    build/torch/bin/python tests/reference/check_resnet18.py BUILD FOLDER

PyTorch saves a state_dict; our program loads it (--load), says how well it does on the first test
images and saves it again (--save); PyTorch loads that with strict=True. Must be equal: the accuracy
on both sides, every tensor, and so the logits. Needs torch, numpy, safetensors. Files go to FOLDER.
"""
import os
import re
import subprocess
import sys

import torch
from safetensors.torch import load_file, save_file

from resnet18 import batch, fashion_mnist, fill, resnet18

IMAGES = 50


def main():
    build, folder = sys.argv[1:]
    theirs, ours = os.path.join(folder, "theirs.safetensors"), os.path.join(folder, "ours.safetensors")
    net = resnet18(10)
    fill(net)
    net.train()
    net(batch(8)[0])                            # so that num_batches_tracked is not 0
    save_file(net.state_dict(), theirs)
    run = subprocess.run([os.path.join(build, "05_resnet18_concise"), "--devices", "1", "--steps", "0",
                          "--train-size", "32", "--test-size", str(IMAGES), "--load", theirs,
                          "--save", ours, "--out", folder], check=True, capture_output=True, text=True)
    again = resnet18(10)
    again.load_state_dict(load_file(ours), strict=True)
    for name, tensor in net.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), f"{name} changed on the way"
    net.eval()
    again.eval()
    X, y = fashion_mnist("t10k", IMAGES)
    with torch.no_grad():
        logits = net(X)
        assert torch.allclose(again(X), logits, rtol=1e-4, atol=1e-4), "other logits"
    accuracy = (logits.argmax(1) == y).float().mean().item()
    said = re.search(r"^test acc: ([0-9.]+)", run.stdout, re.MULTILINE).group(1)
    assert said == f"{accuracy:.2f}", f"our accuracy is {said}, PyTorch's {accuracy:.2f}"
    print(f"accuracy on both sides: {said}")


if __name__ == "__main__":
    main()
