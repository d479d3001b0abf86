"""What differs between a result and the one expected, said in a sentence with names and numbers."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from npt_lib.module import Array

WHERE = " The first is at"
TOLERANCE = {2: 1e-2, 4: 1e-4}        # by bytes per float; 1e-6 for the others


def difference(got: Any, expected: Any, tol: float | None = None, what: str = "") -> str:
    """The first thing about ``got`` that is not as expected; an empty text if nothing is."""
    name = f"{what}: " if what else ""
    if not is_numeric(expected) and _equal(got, expected):
        return ""
    if not (is_numeric(expected) and is_numeric(got)):
        return f"{name}expected {kind(expected)}, got {kind(got)}."
    a, b = np.asarray(got), np.asarray(expected)
    if a.shape != b.shape:
        return f"{name}shape {b.shape} expected, got {a.shape}.{_shape_hint(a, b)}"
    wrong = ~close(a, b, tol)
    if wrong.any():
        return name + _describe(a, b, wrong)
    dtype = _dtype(a, b)
    return name + dtype if dtype else ""


def same(got: Any, expected: Any, tol: float | None = None) -> bool:
    """Whether two results agree in structure, shape and values; the dtype may differ."""
    if isinstance(expected, tuple):
        return (isinstance(got, tuple) and len(got) == len(expected)
                and all(same(a, b, tol) for a, b in zip(got, expected, strict=True)))
    if not (is_numeric(got) and is_numeric(expected)):
        return _equal(got, expected)
    a, b = np.asarray(got), np.asarray(expected)
    return a.shape == b.shape and bool(close(a, b, tol).all())


def close(a: Array, b: Array, tol: float | None = None) -> Array:
    """Where two arrays agree within the tolerance, as a part of 1 + the expected size."""
    if b.dtype.kind == "f":
        tol = TOLERANCE.get(b.dtype.itemsize, 1e-6) if tol is None else tol
        return np.isclose(a, b, rtol=tol, atol=tol, equal_nan=True)
    return np.asarray(a == b)


def is_numeric(value: Any) -> bool:
    """Whether a value is a number, an array of numbers, or a list of equally long such lists."""
    if not isinstance(value, np.ndarray | np.generic | int | float | list):
        return False
    try:
        return np.asarray(value).dtype.kind in "biuf"
    except ValueError:                           # a ragged list
        return False


def kind(value: Any) -> str:
    """What sort of thing a value is, in words."""
    if isinstance(value, np.ndarray):
        return f"an array {value.shape}"
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, tuple | dict):
        return f"a {type(value).__name__} of {len(value)}"
    if value is None or value is ...:
        return repr(value)
    if isinstance(value, str | list):
        return f"the {'text' if isinstance(value, str) else 'list'} {_short(value)}"
    if isinstance(value, bool | int | float | np.generic):
        return number(value)
    return "a function" if callable(value) else f"a {type(value).__name__}"


def _equal(got: Any, expected: Any) -> bool:
    return type(got) is type(expected) and bool(np.all(got == expected))


def _describe(a: Array, b: Array, wrong: Array) -> str:
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    first = f"expected {number(b[index])}, got {number(a[index])}."
    if a.ndim == 0:
        return first
    text = f"{wrong.sum()} of {wrong.size} values differ.{WHERE} {list(index)}: {first}"
    if wrong.sum() > 1 and a.dtype.kind in "iuf":
        gap = np.abs(a.astype(float) - b.astype(float))[wrong]
        if np.isfinite(gap).all():
            text += f" Largest difference: {number(gap.max())}."
    return text + _value_hint(a, b)


def _value_hint(a: Array, b: Array) -> str:
    """A pattern in the numbers that says more than the numbers: NaN, a sign, a factor."""
    if a.dtype.kind == "f" and not np.isfinite(a).all() and np.isfinite(b).all():
        return " Some values are not finite (inf or nan)."
    if a.dtype.kind == "b" and b.dtype.kind == "b":
        return " Every value is the opposite of the one expected." if (a != b).all() else ""
    a, b = a.astype(float), b.astype(float)
    counts = np.isfinite(b) & (np.abs(b) > 1e-9)
    ratio = float(np.median(a[counts] / b[counts])) if counts.any() else 0.0
    if abs(ratio) < 1e-9 or not close(a, b * ratio, 1e-6).all():
        return ""
    if abs(ratio + 1) < 1e-6:
        return " Every value has the wrong sign."
    return f" Every value is {number(ratio)} times the one expected."


def _shape_hint(a: Array, b: Array) -> str:
    for i, j in _axis_pairs(a.ndim):
        if a.swapaxes(i, j).shape == b.shape and close(a.swapaxes(i, j), b).all():
            return f" The values are those expected, with axes {i} and {j} swapped."
    if a.size == b.size and a.size and close(a.ravel(), b.ravel()).all():
        return " The values are right, the shape is not."
    return ""


def _axis_pairs(n: int) -> Iterator[tuple[int, int]]:
    return ((i, j) for j in range(n - 1, 0, -1) for i in range(j - 1, -1, -1))


def _dtype(a: Array, b: Array) -> str:
    """Kinds must agree, and floats in arrays must be as wide; the width of integers is free."""
    kinds = a.dtype.kind + b.dtype.kind
    free = kinds in ("ii", "iu", "ui", "uu", "bb") or (b.ndim == 0 and "b" not in kinds)
    if not free and a.dtype != b.dtype:
        return f"the values are right, but dtype {b.dtype} is expected, got {a.dtype}."
    return ""


def number(value: Any) -> str:
    """Four digits of a number, whatever its type."""
    value = np.asarray(value).item()
    return f"{value + 0.0:.4g}" if isinstance(value, float) else str(value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
