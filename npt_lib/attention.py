"""Scaled dot-product attention and its masks: chapter 2."""

import math

import numpy as np

from npt_lib.layers import (
    as_ids,
    check_mask,
    check_numbers,
    softmax_gradient,
    softmax_in_place,
)
from npt_lib.module import Array, Backward


def attention(q: Array, k: Array, v: Array, mask: Array | None = None) -> tuple[Array, Backward]:
    """Each query takes a mixture of the values, weighted by how well it matches the keys.

    q is (..., T, K), k is (..., S, K), v is (..., S, K'); y is (..., T, K'). mask is boolean,
    True = may attend, and broadcasts to (..., T, S); a query that may attend to nothing gets 0.
    Backward: returns dq, dk, dv. Built and derived in chapter 2.
    """
    check_attention(q, k, v, mask)
    scale = 1 / math.sqrt(q.shape[-1])
    qs = q * scale                                        # cheaper here than on the scores
    scores = qs @ k.swapaxes(-1, -2)                      # (..., T, S)
    w = softmax_in_place(scores, mask)
    y = w @ v                                             # (..., T, K')

    def backward(dy: Array) -> tuple[Array, Array, Array]:
        dv = w.swapaxes(-1, -2) @ dy                      # (..., S, K')
        dw = dy @ v.swapaxes(-1, -2)                      # (..., T, S)
        dscores = softmax_gradient(w, dw)
        dk = dscores.swapaxes(-1, -2) @ qs                # (..., S, K)
        dqs = dscores @ k                                 # (..., T, K)
        return dqs * scale, dk, dv

    return y, backward


def causal_mask(n: int) -> Array:
    """(n, n), True on and below the diagonal: a position may attend to itself and the past."""
    if n < 0:
        raise ValueError(f"a causal mask needs n of at least 0, got {n}.")
    return np.tri(n, dtype=bool)


def padding_mask(ids: Array, pad_id: int = 0) -> Array:
    """(B, 1, 1, S), True where ids (B, S) hold a real token: nobody may attend to padding."""
    ids = as_ids("token", ids)
    if ids.ndim != 2:
        raise ValueError(f"ids must have two axes (B, S), got shape {ids.shape}.")
    return (ids != pad_id)[:, None, None, :]


def check_attention(q: Array, k: Array, v: Array, mask: Array | None) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        check_numbers(name, x)
    if not (q.ndim == k.ndim == v.ndim >= 2 and q.shape[:-2] == k.shape[:-2] == v.shape[:-2]):
        raise ValueError(
            f"q, k and v must share their leading axes, got {q.shape}, {k.shape} and {v.shape}."
        )
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2] or 0 in k.shape[-2:]:
        raise ValueError(
            "q (..., T, K), k (..., S, K) and v (..., S, K') must agree in K and S, at least 1, "
            f"got {q.shape}, {k.shape} and {v.shape}."
        )
    if mask is not None:
        check_mask(mask, (*q.shape[:-1], k.shape[-2]))
