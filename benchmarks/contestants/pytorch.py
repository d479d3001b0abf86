"""PyTorch: a module written by hand, eager or compiled, and one of nn.Transformer's layers."""

from itertools import cycle

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.contestants import Job, Kinds
from benchmarks.contestants.torch_model import HandWritten
from benchmarks.contestants.torch_nn import Shipped
from benchmarks.sizes import (
    BETAS,
    BOS,
    EPS,
    LR,
    MAX_NORM,
    N_TOKENS,
    PAD,
    SMOOTHING,
    Size,
    attention_inputs,
    batches,
)

torch.ones(1).add(1)            # what starts at the first operation belongs to the import


def about() -> dict[str, str]:
    return {"PyTorch": f"{torch.__version__}, {torch.get_num_threads()} threads"}


def model_of(size: Size, weights: str, dropout: float = 0.0, variant: str = "") -> nn.Module:
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


def decoding(size: Size, weights: str, n_rows: int) -> Job:
    """N_TOKENS a row, each the likeliest, n times over, with a cache; the tokens."""
    model = model_of(size, weights).eval()
    src = torch.from_numpy(batches(size)[0][0][:n_rows])

    @torch.inference_mode()
    def write() -> Tensor:
        state, ids, written = model.start(src, N_TOKENS), torch.full((n_rows,), BOS), []
        for position in range(N_TOKENS):
            ids = model.step(ids, state, position).argmax(dim=-1)
            written.append(ids)
        return torch.stack(written, dim=1)

    return lambda n: [write().tolist() for _ in range(n)][-1]


def attending(n: int) -> Job:
    """Attention over n positions, forwards and backwards; the squares of all, summed."""
    *inputs, dy = torch.from_numpy(attention_inputs(n)).unbind(0)
    leaves = [x.requires_grad_() for x in inputs]

    def both() -> list[float]:
        y = F.scaled_dot_product_attention(*leaves)
        gradients = torch.autograd.grad(y, leaves, dy)
        return [(x * x).sum().item() for x in (y.detach(), *gradients)]

    return lambda times: [both() for _ in range(times)][-1]


KINDS: Kinds = {"train": training, "decode": decoding, "attend": attending}
