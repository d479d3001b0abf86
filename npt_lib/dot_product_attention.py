"""Scaled dot-product attention, its masks, and a look at its weights: chapter 2."""

import math
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np

from npt_lib.layers import softmax, softmax_gradient, softmax_in_place
from npt_lib.long_attention import Pattern, attention_in_tiles, pattern_table
from npt_lib.module import Array, Backward, saved
from npt_lib.require import as_ids, check_attention, check_count

LONG = 1 << 20                 # scores T * S, beyond which a table of them is never made whole
Change = Callable[[Array], tuple[Array, Backward]]


def attention(
    q: Array, k: Array, v: Array, mask: Array | None = None, drop: Change | None = None,
    shift: Change | None = None,
) -> tuple[Array, Backward]:
    """Each query takes a mixture of the values, weighted by how well it matches the keys.

    q is (..., T, K), k is (..., S, K), v is (..., S, K'); y is (..., T, K'). mask is boolean,
    True = may attend, and broadcasts to (..., T, S); a query that may attend to nothing gets 0.
    drop changes the weights before they mix the values, as dropout does: w -> (w, backward);
    shift changes the scores before the softmax, as relative positions do.
    Backward: returns dq, dk, dv. Built and derived in chapter 2.
    """
    check_attention(q, k, v, mask)
    is_long = q.shape[-2] * k.shape[-2] > LONG
    if is_long and drop is None and shift is None:
        return attention_in_tiles(q, k, v, mask)
    return attention_at_once(q, k, v, mask, drop, shift)


def attention_at_once(
    q: Array, k: Array, v: Array, mask: Array | None = None, drop: Change | None = None,
    shift: Change | None = None,
) -> tuple[Array, Backward]:
    """Attention with all scores at once, their weights kept for the way back."""
    scale = 1 / math.sqrt(q.shape[-1])
    qs = q * scale                                        # q has mostly fewer numbers
    scores = qs @ k.swapaxes(-1, -2)                      # (..., T, S)
    scores, shift_backward = shift(scores) if shift else (scores, same)
    w = softmax_in_place(scores.copy() if shift else scores, mask)
    used, drop_backward = drop(w) if drop else (w, same)
    y = used @ v                                          # (..., T, K')

    def backward(dy: Array) -> tuple[Array, Array, Array]:
        dv = used.swapaxes(-1, -2) @ dy                   # (..., S, K')
        dw = drop_backward(dy @ v.swapaxes(-1, -2))       # (..., T, S)
        dscores = shift_backward(softmax_gradient(w, dw))
        dk = dscores.swapaxes(-1, -2) @ qs                # (..., S, K)
        dqs = dscores @ k                                 # (..., T, K)
        return dqs * scale, dk, dv

    return y, backward


def same(dy: Array) -> Array:
    """The backward of a step that was left out."""
    return dy


def causal_mask(n: int) -> Array:
    """(n, n), True on and below the diagonal: a position may attend to itself and the past."""
    return np.tri(check_count("n", n, 0), dtype=bool)


def padding_mask(ids: Array, pad_id: int = 0) -> Array:
    """(B, 1, 1, S), True where ids (B, S) hold a real token: nobody may attend to padding."""
    ids = as_ids("token", ids)
    if ids.ndim != 2:
        raise ValueError(f"ids must have two axes (B, S), got shape {ids.shape}.")
    return (ids != check_count("pad_id", pad_id, 0))[:, None, None, :]


def attention_maps(backward: Backward) -> dict[str, Array]:
    """Every attention's weights (B, H, T, S), by name, such as ``decoder.0.cross``.

    backward is what the forward of a model, stack, block or layer returned; the weights are
    found in what it remembers. A name is made of the variables on the way there:
    ``attn_backward`` is ``attn``, and the functions of a list are numbered.
    """
    maps: dict[str, Array] = {}
    for path, weights in _find(backward, (), set()):
        name = ".".join(path) or "attention"
        maps[name if name not in maps else f"{name}.{len(maps)}"] = weights
    return maps


def _find(
    backward: Backward, path: tuple[str, ...], seen: set[int]
) -> Iterator[tuple[tuple[str, ...], Array]]:
    if id(backward) in seen:
        return
    seen.add(id(backward))
    inside = saved(backward)
    if backward.__qualname__ == "attention_at_once.<locals>.backward":
        yield path, inside["w"]
    elif backward.__qualname__ == "attention_in_tiles.<locals>.backward":
        yield path, _weights(**saved(inside["tiles"]))
    else:
        for name, value in inside.items():
            for step, function in _functions(name, value):
                yield from _find(function, path + step, seen)


def _functions(name: str, value: Any) -> Iterator[tuple[tuple[str, ...], FunctionType]]:
    """The functions in one remembered value, each with its part of the path."""
    part = name.removesuffix("_backward")
    if isinstance(value, FunctionType):
        yield (() if part == name or part in SILENT else (part,)), value
    elif isinstance(value, list | tuple):
        yield from (((str(i),), item) for i, item in enumerate(value)
                    if isinstance(item, FunctionType))


SILENT = {"attention", "encode", "decode", "model"}     # steps of the code, no parts of the model


def _weights(
    q: Array, k: Array, masks: Array | None, pattern: Pattern | None, **others: Any
) -> Array:
    """Those that attention in tiles did not keep."""
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.dtype.type(q.shape[-1]))
    seen = pattern_table(pattern, *scores.shape[-2:])
    w, _ = softmax(scores, seen if masks is None else masks & seen)
    return w
