"""Writes adam.h: what torch.optim.Adam makes of some numbers, for tests/test_servers.c.

    python make_adam.py > adam.h
"""
import torch

START = [1.0, -2.0, 0.5, 0.0, 3.0, -0.001]
GRADS = [[0.5, -1.0, 0.0, 1e-4, 2.0, 1e-8],
         [0.25, 1.0, 0.0, -1e-4, 2.0, 1e-8],
         [-0.5, -3.0, 0.125, 1e-4, 0.0, 0.0],
         [1.0, 0.5, -0.25, 5.0, -8.0, 1e-8]]


def train(**options):
    p = torch.tensor(START, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([p], lr=0.1, **options)
    for grad in GRADS:
        p.grad = torch.tensor(grad, dtype=torch.float64)
        adam.step()
    return p.tolist()


def row(values):
    numbers = [f"{float(v):.9g}" for v in values]
    return "{" + ", ".join(number + ("f" if set(number) & set(".e") else ".0f") for number in numbers) + "}"


print(f"""// adam.h: made by make_adam.py with PyTorch {torch.__version__.split('+')[0]}.
enum {{ ADAM_N = {len(START)}, ADAM_STEPS = {len(GRADS)} }};
static const float adam_start[ADAM_N] = {row(START)};
static const float adam_grads[ADAM_STEPS][ADAM_N] = {{""", *(f"    {row(grad)}," for grad in GRADS), f"""}};
static const float adam_expected[ADAM_N] = {row(train())};
static const float adam_expected_other[ADAM_N] = {row(train(betas=(0.5, 0.75), eps=1e-3))};""", sep="\n")
