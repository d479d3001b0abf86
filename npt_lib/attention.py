"""Scaled dot-product attention and its masks: chapter 2."""

import math

import numpy as np

from npt_lib.layers import exp_in_place, softmax_gradient, softmax_in_place
from npt_lib.module import Array, Backward
from npt_lib.require import as_ids, check_attention
from npt_lib.threads import all_threads, each

LONG = 1 << 20                 # scores T * S, beyond which a table of them is never made whole
BLOCK = 1 << 19                # scores that are made at a time then


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
    S, scale = k.shape[-2], 1 / math.sqrt(q.shape[-1])
    tables = list(np.ndindex(q.shape[:-2]))               # each batch row and head
    few = max(1, block // S)
    blocks = [slice(i, i + few) for i in range(0, q.shape[-2], few)]
    masks = None if mask is None else np.broadcast_to(mask, (*q.shape[:-1], S))
    dtype = np.result_type(q, k, v, 1.0)                  # floats, also of integers
    y = np.empty((*q.shape[:-1], v.shape[-1]), dtype)

    def weigh(t: tuple[int, ...], rows: slice) -> tuple[Array, Array]:
        """Weights times a total, and that total, which is cheaper to divide by later."""
        e = q[t][rows] * scale @ k[t].T                   # (few, S)
        total = exp_in_place(e, None if masks is None else masks[t][rows])
        if dtype == np.float16:                           # which is too small for what comes
            e /= total
            total = np.ones_like(total)
        return e, total

    def table_forward(t: tuple[int, ...]) -> None:
        for rows in blocks:
            e, total = weigh(t, rows)
            y[t][rows] = e @ v[t] / total

    def backward(dy: Array) -> tuple[Array, Array, Array]:
        dq, dk, dv = (np.zeros(x.shape, dtype) for x in (q, k, v))

        def table_backward(t: tuple[int, ...]) -> None:
            for rows in blocks:
                e, total = weigh(t, rows)
                dye = dy[t][rows] / total                 # of e @ v
                dv[t] += e.T @ dye
                dscores = dye @ v[t].T
                dscores -= np.vecdot(dye, y[t][rows])[:, None]    # the sum of dw * w
                dscores *= e
                dk[t] += dscores.T @ q[t][rows]
                dq[t][rows] = dscores @ k[t]
            dk[t] *= scale
            dq[t] *= scale

        with all_threads(len(tables)):
            each(table_backward, tables)
        return dq, dk, dv

    with all_threads(len(tables)):
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
