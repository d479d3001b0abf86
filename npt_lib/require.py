"""What the library asks of its inputs: one ValueError that says what it needs and what came."""

from typing import Any

import numpy as np

from npt_lib.module import Array


def check_numbers(name: str, x: Array) -> None:
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be an array of numbers, got {described(x)}.")


def check_floats(name: str, x: Array) -> None:
    if not isinstance(x, np.ndarray) or x.dtype.kind != "f" or x.ndim == 0:
        raise ValueError(f"{name} needs an array of floats, got {described(x)}.")


def check_mask(mask: Array, shape: tuple[int, ...]) -> None:
    """Refuse a mask that is not boolean or does not broadcast to the scores' shape."""
    if not isinstance(mask, np.ndarray) or mask.dtype != bool:
        raise ValueError(f"mask must be boolean, True = may attend, got {described(mask)}.")
    try:
        fits = np.broadcast_shapes(mask.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        axes = "(B, H, T, S)" if len(shape) == 4 else "(..., T, S)"
        raise ValueError(f"mask {mask.shape} does not broadcast to scores {axes} = {shape}.")


def check_width(name: str, x: Array, width: int) -> None:
    check_numbers("What " + name + " reads", x)
    if x.shape[-1:] != (width,):
        raise ValueError(f"{name} needs a last axis of {width}, got shape {x.shape}.")


def as_ids(name: str, ids: Any) -> Array:
    """The ids as an array; refuses rows of different lengths."""
    try:
        return np.asarray(ids)
    except ValueError:
        raise ValueError(f"{name} ids must be rows of one length, padded at the end.") from None


def described(x: Any) -> str:
    """What an array, or what is not one, is: for messages."""
    return f"{x.dtype} {x.shape}" if isinstance(x, np.ndarray) else type(x).__name__


def check_heads(d_model: int, n_heads: int) -> None:
    if d_model < 1 or n_heads < 1 or d_model % n_heads:
        raise ValueError(f"d_model={d_model} must be divisible by n_heads={n_heads}.")


def check_sequence(name: str, x: Array, d_model: int) -> None:
    check_axes(name, x, "(B, T, D)")
    check_width(name, x, d_model)


def check_axes(name: str, x: Array, axes: str) -> None:
    """Refuse what has not as many axes as the text names."""
    check_numbers(f"What {name} reads", x)
    if x.ndim != axes.count(",") + 1:
        raise ValueError(f"{name} needs axes {axes}, got shape {x.shape}.")


def check_length(n: int, max_len: int) -> int:
    if n > max_len:
        raise ValueError(f"{n} tokens, but max_len={max_len}.")
    return n


def check_ids(name: str, ids: Array, n_vocab: int) -> Array:
    """The ids as an array; refuses those that are not integers or lie outside the vocabulary."""
    ids = as_ids(name, ids)
    if ids.dtype.kind not in "iu":
        raise ValueError(f"{name} ids must be integers, got {ids.dtype}.")
    wrong = ids[(ids < 0) | (ids >= n_vocab)]
    if wrong.size:
        raise ValueError(f"{name} id {wrong[0]} is outside the vocabulary of {n_vocab}.")
    return ids


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
