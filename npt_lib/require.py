"""What the library asks of its inputs: one ValueError that says what it needs and what came."""

import math
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


# single values

def check_count(name: str, value: Any, least: int = 1) -> int:
    """A whole number, of Python or of NumPy, as Python's int."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)


def check_number(name: str, value: Any, wanted: str, fits: Callable[[float], bool]) -> float:
    """A number that fits, as Python's float; ``wanted`` completes the sentence *x must be …*."""
    is_number = isinstance(value, int | float | np.integer | np.floating)
    try:
        found = float(value) if is_number and not isinstance(value, bool) else math.nan
    except OverflowError:                                 # a whole number of 400 digits
        found = math.inf if value > 0 else -math.inf
    if math.isnan(found) or not fits(found):
        raise ValueError(f"{name} must be {wanted}, got {value!r}.")
    return found


def check_share(name: str, value: Any) -> float:
    """A number from 0 to below 1, such as a chance of dropout."""
    return check_number(name, value, "at least 0 and below 1", lambda x: 0 <= x < 1)


def check_kind(kind: Any, base: type) -> type:
    """The class itself, or one derived from it."""
    if not (isinstance(kind, type) and issubclass(kind, base)):
        raise ValueError(f"kind must be {base.__name__} or a subclass of it, got {kind!r}.")
    return kind


def check_positive(name: str, value: Any) -> float:
    return check_number(name, value, "above 0 and finite", lambda x: 0 < x < math.inf)


def check_flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}.")
    return bool(value)


def check_callable(name: str, value: Any) -> None:
    if not callable(value):
        raise ValueError(f"{name} must be a function, got {described(value)}.")


def check_has(name: str, thing: Any, methods: tuple[str, ...]) -> None:
    """Refuse what lacks one of these methods, or is a class instead of one of its objects."""
    if isinstance(thing, type) or not all(callable(getattr(thing, m, None)) for m in methods):
        raise ValueError(f"{name} must have the methods {', '.join(methods)}, "
                         f"got {described(thing)}.")


def check_rows(name: str, things: Any, of: str) -> list[Any]:
    """The members of something that can be gone through, as a list."""
    if (isinstance(things, np.ndarray) and things.ndim == 0) or not isinstance(things, Iterable):
        raise ValueError(f"{name} must be a list of {of}, got {described(things)}.")
    return list(things)


def check_text(name: str, text: Any) -> str:
    if not isinstance(text, str):
        raise ValueError(f"{name} must be a text, got {described(text)}.")
    return text


def check_path(path: Any) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path must be the name of a file, got {described(path)}.")
    return Path(path)


def check_rng(rng: Any) -> None:
    if not isinstance(rng, np.random.Generator):
        raise ValueError("rng must be a generator, such as np.random.default_rng(0), "
                         f"got {described(rng)}.")


def check_dtype(name: str, dtype: Any) -> np.dtype:
    """float32 or float64, however it was named."""
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if dtype is None or found is None or found not in FLOATS:
        raise ValueError(f"{name} must be float32 or float64, got {dtype!r}.")
    return found


# arrays

def described(x: Any) -> str:
    """What an array, or what is not one, is: for messages."""
    plain = f"{x.dtype} {x.shape}" if isinstance(x, np.ndarray) else ""
    return plain if type(x) is np.ndarray else f"{type(x).__name__} {plain}".strip()


def is_plain(x: Any) -> bool:
    """An array, and not one whose operators mean something else: no matrix, no masked array."""
    return type(x) is np.ndarray or (
        isinstance(x, np.ndarray) and not isinstance(x, np.matrix | np.ma.MaskedArray))


def check_floats(name: str, x: Array) -> None:
    if type(x) is np.ndarray and x.dtype.char in "fd" and x.dtype.isnative and x.ndim:
        return                                            # nearly always, and quick
    if not is_plain(x) or x.dtype not in FLOATS:
        raise ValueError(f"{name} needs an array of float32 or float64, got {described(x)}.")
    if x.ndim == 0:
        raise ValueError(f"{name} needs an array with at least one axis, got shape ().")


def check_mask(mask: Array, shape: tuple[int, ...]) -> None:
    """Refuse a mask that is not boolean or does not broadcast to the scores' shape."""
    if not is_plain(mask) or mask.dtype != bool:
        raise ValueError(f"mask must be boolean, True = may attend, got {described(mask)}.")
    try:
        fits = np.broadcast_shapes(mask.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        axes = "(B, H, T, S)" if len(shape) == 4 else "(..., T, S)"
        raise ValueError(f"mask {mask.shape} does not broadcast to scores {axes} = {shape}.")


def check_width(name: str, x: Array, width: int) -> None:
    check_floats(name, x)
    if x.shape[-1] != width:
        raise ValueError(f"{name} needs a last axis of {width}, got shape {x.shape}.")


def check_dy(name: str, dy: Any, shape: tuple[int, ...]) -> None:
    """Refuse a gradient of another shape than that of y: reshaped, it would fit by chance."""
    if np.shape(dy) != shape:
        raise ValueError(f"{name}'s backward needs dy of y's shape {shape}, got {np.shape(dy)}.")


def check_axes(name: str, x: Array, axes: str) -> None:
    """Refuse what has not as many axes as the text names."""
    check_floats(name, x)
    if x.ndim != axes.count(",") + 1:
        raise ValueError(f"{name} needs axes {axes}, got shape {x.shape}.")


def check_sequence(name: str, x: Array, d_model: int) -> None:
    check_axes(name, x, "(B, T, D)")
    check_width(name, x, d_model)


def check_attention(q: Array, k: Array, v: Array, mask: Array | None) -> None:
    for name, x in (("q", q), ("k", k), ("v", v)):
        check_floats(name, x)
    if not (q.ndim == k.ndim == v.ndim >= 2 and q.shape[:-2] == k.shape[:-2] == v.shape[:-2]):
        raise ValueError(
            f"q, k and v must share their leading axes, got {q.shape}, {k.shape} and {v.shape}: "
            "k[:, None] adds an axis, np.broadcast_to repeats it."
        )
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2] or 0 in k.shape[-2:]:
        raise ValueError(
            "q (..., T, K), k (..., S, K) and v (..., S, K') must agree in K and S, at least 1, "
            f"got {q.shape}, {k.shape} and {v.shape}."
        )
    if mask is not None:
        scores = (*q.shape[:-1], k.shape[-2])
        check_mask(mask, scores)
        if 2 < mask.ndim < len(scores):
            raise ValueError(f"mask {mask.shape} is ambiguous for scores of shape {scores}: "
                             f"give it 2 axes or {len(scores)}, of size 1 where all are alike.")


# sizes and ids

def check_heads(d_model: int, n_heads: int) -> None:
    d_model, n_heads = check_count("d_model", d_model), check_count("n_heads", n_heads)
    if d_model % n_heads:
        raise ValueError(f"d_model={d_model} must be divisible by n_heads={n_heads}.")


def check_length(n: int, max_len: int) -> int:
    if n > max_len:
        raise ValueError(f"{n} tokens, but max_len={max_len}.")
    return n


def as_ids(name: str, ids: Any) -> Array:
    """The ids as an array; refuses rows of different lengths."""
    try:
        found = np.asarray(ids) if not isinstance(ids, np.ndarray) else ids
    except ValueError:
        raise ValueError(f"{name} ids must be rows of one length, padded at the end.") from None
    if not is_plain(found) or found.dtype == object:
        raise ValueError(f"{name} ids must be an array of whole numbers, got {described(ids)}.")
    return found


def check_ids(name: str, ids: Array, n_vocab: int) -> Array:
    """The ids as an array; refuses those that are not integers or lie outside the vocabulary."""
    ids = as_ids(name, ids)
    if ids.dtype.kind not in "iu":
        raise ValueError(f"{name} ids must be integers, got {ids.dtype}.")
    wrong = ids[(ids < 0) | (ids >= n_vocab)]
    if wrong.size:
        raise ValueError(f"{name} id {wrong[0]} is outside the vocabulary of {n_vocab}.")
    return ids


def check_padding(name: str, ids: Array, pad_id: int | None) -> None:
    """Refuse rows of ids with padding before a token; with None there is no padding."""
    real = ids != pad_id if pad_id is not None else np.ones((1, 1), bool)
    if (real[:, 1:] > real[:, :-1]).any():
        raise ValueError(f"{name} must be padded at the end, got padding before a token.")
