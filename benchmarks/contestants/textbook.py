"""Attention as a textbook writes it in NumPy: a new array for every line, all of them kept."""

import math

import numpy as np

from benchmarks.contestants import Job, Kinds
from benchmarks.contestants.npt import about
from benchmarks.sizes import Array, attention_inputs

__all__ = ["KINDS", "about"]


def attention(q: Array, k: Array, v: Array, dy: Array) -> tuple[Array, ...]:
    """The output y, and the gradients dq, dk, dv."""
    scale = math.sqrt(q.shape[-1])
    scores = q @ k.swapaxes(-1, -2) / scale
    shifted = scores - scores.max(axis=-1, keepdims=True)
    e = np.exp(shifted)
    w = e / e.sum(axis=-1, keepdims=True)
    y = w @ v
    dv = w.swapaxes(-1, -2) @ dy
    dw = dy @ v.swapaxes(-1, -2)
    dscores = w * (dw - (dw * w).sum(axis=-1, keepdims=True)) / scale
    return y, dscores @ k, dscores.swapaxes(-1, -2) @ q, dv


def attending(n: int) -> Job:
    inputs = attention_inputs(n)

    def both() -> list[float]:
        return [float(np.vdot(x, x)) for x in attention(*inputs)]

    return lambda times: [both() for _ in range(times)][-1]


KINDS: Kinds = {"attend": attending}
