"""PyTorch: a module written by hand, eager or compiled, and one of nn.Transformer's layers."""

from itertools import cycle

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.contestants import Job, Kinds
from benchmarks.contestants.torch_model import HandWritten
from benchmarks.contestants.torch_nn import Shipped
from benchmarks.sizes import PAD, Size, batches

SMOOTHING, LR, BETAS, EPS, MAX_NORM = 0.1, 1e-3, (0.9, 0.98), 1e-9, 1.0


def model_of(size: Size, weights: str, dropout: float, variant: str) -> nn.Module:
    """A model of this size at the weights of the file."""
    with np.load(weights) as arrays:
        state = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return (Shipped if variant == "nn" else HandWritten)(size, state, dropout)


def loss_of(model: nn.Module, src: Tensor, tgt: Tensor) -> Tensor:
    logits = model(src, tgt[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(),
                           ignore_index=PAD, label_smoothing=SMOOTHING)


def training(size: Size, weights: str, dropout: float = 0.0, variant: str = "") -> Job:
    """n steps of training; the losses."""
    model = model_of(size, weights, dropout, variant).train()
    compute = torch.compile(loss_of) if variant == "compile" else loss_of
    optimizer = torch.optim.Adam(model.parameters(), LR, BETAS, EPS, fused=True)
    data = cycle([tuple(map(torch.from_numpy, pair)) for pair in batches(size)])

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = compute(model, *next(data))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        return loss.item()

    return lambda n: [step() for _ in range(n)]


KINDS: Kinds = {"train": training}
