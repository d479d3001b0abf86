"""Scaled dot-product attention and its masks: chapter 2."""

import math

import numpy as np

from npt_lib.layers import softmax_gradient, softmax_in_place
from npt_lib.module import Array, Backward
from npt_lib.require import as_ids, check_attention
from npt_lib.threads import each

LONG = 1 << 20                 # scores T * S, beyond which a table of them is never made whole
BLOCK = 1 << 18                # scores that are made at a time then: they fit in the cache


def attention(q: Array, k: Array, v: Array, mask: Array | None = None) -> tuple[Array, Backward]:
    """Each query takes a mixture of the values, weighted by how well it matches the keys.

    q is (..., T, K), k is (..., S, K), v is (..., S, K'); y is (..., T, K'). mask is boolean,
    True = may attend, and broadcasts to (..., T, S); a query that may attend to nothing gets 0.
    Backward: returns dq, dk, dv. Built and derived in chapter 2.
    """
    check_attention(q, k, v, mask)
    is_long = q.shape[-2] * k.shape[-2] > LONG
    return by_rows(q, k, v, mask) if is_long else whole(q, k, v, mask)


def whole(q: Array, k: Array, v: Array, mask: Array | None = None) -> tuple[Array, Backward]:
    """Attention with all scores at once, kept for the way back."""
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


def by_rows(
    q: Array, k: Array, v: Array, mask: Array | None = None, block: int = BLOCK
) -> tuple[Array, Backward]:
    """Attention for long sequences: a few queries at a time, and their weights not kept.

    The same results, with memory that grows with T, not with T * S.
    Backward: computes the weights of the same few queries again. Told in "Making it fast".
    """
    S = k.shape[-2]
    tables = list(np.ndindex(q.shape[:-2]))               # each batch row and head
    few = max(1, block // S)
    blocks = [slice(i, i + few) for i in range(0, q.shape[-2], few)]
    masks = None if mask is None else np.broadcast_to(mask, (*q.shape[:-1], S))
    dtype = np.result_type(q, k, v, 1.0)                  # floats, also of integers
    y = np.empty((*q.shape[:-1], v.shape[-1]), dtype)

    def some(t: tuple[int, ...], rows: slice) -> tuple[Array, Backward]:
        return whole(q[t][rows], k[t], v[t], None if masks is None else masks[t][rows])

    def table_forward(t: tuple[int, ...]) -> None:
        for rows in blocks:
            y[t][rows], _ = some(t, rows)

    def backward(dy: Array) -> tuple[Array, Array, Array]:
        dq, dk, dv = (np.zeros(x.shape, dtype) for x in (q, k, v))

        def table_backward(t: tuple[int, ...]) -> None:
            for rows in blocks:
                _, some_backward = some(t, rows)
                dq[t][rows], dk_some, dv_some = some_backward(dy[t][rows])
                dk[t] += dk_some
                dv[t] += dv_some

        each(table_backward, tables)
        return dq, dk, dv

    each(table_forward, tables)
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
