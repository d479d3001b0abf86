"""Scaled dot-product attention and its masks: chapter 2."""

import math

import numpy as np

from npt_lib.layers import softmax_gradient, softmax_in_place
from npt_lib.module import Array, Backward
from npt_lib.require import as_ids, check_attention


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
