"""Training in 16 bits: rounding, a coat of it round each module, mixed precision. Chapter 14.

What a computation in float16 or bfloat16 would hold, in arrays of float32: a study of accuracy,
not of speed. Inside a module (the sum of a product, a softmax, a norm) float32 stays.
"""

import copy
import importlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from npt_lib.module import Array, Backward, Module, Parameter, Rng, parts
from npt_lib.require import (
    check_callable,
    check_count,
    check_flag,
    check_floats,
    check_has,
    check_positive,
)


def rounded(x: Array, to: str) -> Array:
    """Each number as near as float16, bfloat16 or float32 has one, ties to even; the dtype stays.

    What is too large becomes infinity, what is too small zero. A float64 is rounded to float32
    before bfloat16.
    """
    check_floats("rounded", x)
    return _rounding(to)(x)


def to_float16(x: Array) -> Array:
    """By arithmetic, and as NumPy's own float16, which is slow where numbers vanish."""
    n_bits = np.finfo(x.dtype).nmant
    step = x.dtype.type(2.0 ** (n_bits - 24))      # from here to its double, steps are 2**-24
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        size, near = np.abs(x), _without_last(x, n_bits - 10)
        small, large = size < 2.0**-14, size >= 65520
        if small.any():
            np.copyto(near, np.copysign((size + step) - step, x), where=small)
        if large.any():
            np.copyto(near, np.copysign(x.dtype.type(np.inf), x), where=large)
    return near


def to_bfloat16(x: Array) -> Array:
    """The upper half of float32's bits, rounded."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return _without_last(x.astype(np.float32, copy=False), 16).astype(x.dtype, copy=False)


def _without_last(x: Array, n: int) -> Array:
    """Each number without its last n bits, to nearest; in a tie, the last that stays becomes 0."""
    bits = np.ascontiguousarray(x).reshape(x.shape).view(f"u{x.dtype.itemsize}")
    near = bits >> n
    near &= 1
    near += bits
    near += (1 << n - 1) - 1
    near >>= n
    near <<= n
    found = near.view(x.dtype)
    lost = np.isnan(x)
    return np.where(lost, x, found) if lost.any() else found


def to_float32(x: Array) -> Array:
    """What float32 holds; of float32 a copy."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return x.astype(np.float32).astype(x.dtype, copy=False)


ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "float16": to_float16, "bfloat16": to_bfloat16, "float32": to_float32}


def _rounding(to: Any) -> Callable[[Array], Array]:
    if not isinstance(to, str) or to not in ROUNDINGS:
        raise ValueError(f"to must be one of {sorted(ROUNDINGS)}, got {to!r}.")
    return ROUNDINGS[to]


# A coat: what goes in and out of a module passes through a function, and so do gradients.

class Coat:
    """A module's forward with its inputs and outputs changed by a function, gradients by another.

    coat.module keeps its forward; whatever is no array of floats passes as it is.
    """

    def __init__(self, module: Module, values: Callable[[Array], Array],
                 gradients: Callable[[Array], Array]):
        self.module, self.values, self.gradients = module, values, gradients

    def __call__(self, *inputs: Any, **options: Any) -> tuple[Any, Backward]:
        inside = _through(self.values, inputs)
        y, inner_backward = type(self.module).forward(self.module, *inside, **options)

        def backward(*dys: Any) -> Any:
            return _through(self.gradients, inner_backward(*_through(self.gradients, dys)))

        return _through(self.values, y), backward


def put_coat(module: Module, values: Callable[[Array], Array],
             gradients: Callable[[Array], Array]) -> None:
    """From now on, what goes through this module's forward and backward goes through these."""
    check_callable("values", values)
    check_callable("gradients", gradients)
    module.forward = Coat(module, values, gradients)


def modules(model: Module, prefix: str = "") -> Iterator[tuple[str, Module]]:
    """Every module inside a model by its path, a part after what holds it."""
    for name, part in parts(model):
        if isinstance(part, Module):
            yield prefix + name, part
            yield from modules(part, f"{prefix}{name}.")


def _through(f: Callable[[Array], Array], x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(_through(f, item) for item in x)
    return f(x) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x


class Once:
    """A rounding that leaves what it has just made: an array often passes several coats."""

    def __init__(self, rounding: Callable[[Array], Array]):
        self.rounding, self.made = rounding, deque[Array](maxlen=8)

    def __call__(self, x: Array) -> Array:
        if any(x is y for y in self.made):
            return x
        self.made.append(self.rounding(x))
        return self.made[-1]


# Training.

class MixedPrecision:
    """A model that learns in float16 or bfloat16: what ``train`` takes in its place.

    With to="float32" nothing is rounded: what remains is the scale, to compare with.

    Before each pass a copy gets the model's values, rounded; what goes in and out of each module
    of the copy is rounded, forwards and back. The loss is multiplied by ``scale``, the gradients
    are divided by it again, in float32: the optimizer gets the model's own parameters, the
    masters. With grow_after, the scale is halved and backward runs once more where a gradient has
    become infinite or NaN; after so many passes in a row without that it doubles. masters False
    rounds the model's own values, too. With either, ``train`` refuses n_threads and comm; it
    always refuses a path: save learner.model. Built in chapter 14.
    """

    def __init__(self, model: Any, to: str = "float16", scale: float = 1.0,
                 grow_after: int | None = None, masters: bool = True):
        check_has("model", model, ("loss", "n_targets", "parameters"))
        self.model, self.round = model, _rounding(to)
        self.scale = check_positive("scale", scale)
        self.grow_after = None if grow_after is None else check_count("grow_after", grow_after)
        self.masters = check_flag("masters", masters)
        self.good_passes = self.overflows = 0
        self.copy = copy.deepcopy(model)
        values, gradients = Once(self.round), Once(self.round)
        for module in {id(m): m for _, m in modules(self.copy)}.values():
            put_coat(module, values, gradients)
        self.pairs = list(zip(model.parameters().values(), self.copy.parameters().values(),
                              strict=True))
        if hasattr(model, "scores"):
            self.scores = self._scores

    def parameters(self) -> dict[str, Parameter]:
        """The model's own, in float32: those that an optimizer moves."""
        return self.model.parameters()

    def zero_grad(self) -> None:
        self.model.zero_grad()

    def n_targets(self, batch: Any) -> int:
        return self.model.n_targets(batch)

    def loss(self, batch: Any, rng: Rng | None = None, **options: Any) -> tuple[float, Backward]:
        """The loss of the rounded copy; backward adds float32 gradients to the model's own."""
        self.take_values()
        loss, copy_backward = self.copy.loss(batch, rng, **options)

        def backward(dloss: float = 1.0) -> None:
            while not self._go_back(copy_backward, dloss * self.scale):
                self.scale /= 2
                self.overflows += 1
                self.good_passes = 0
                if self.scale < 2.0**-24:
                    raise ValueError("A gradient is infinite or NaN however small the scale.")
            for own, half in self.pairs:
                if half.grad is not None:
                    own.add_grad(half.grad / half.grad.dtype.type(self.scale))
            self.good_passes += 1
            if self.good_passes == self.grow_after:
                self.scale *= 2
                self.good_passes = 0

        return loss, backward

    def check_alone(self) -> None:
        """Refuse what copies of this learner could not share: a scale that moves, no masters."""
        if self.grow_after is not None or not self.masters:
            raise ValueError("MixedPrecision with grow_after or without masters learns on one "
                             "thread of one process: leave out n_threads and comm, or give it a "
                             "fixed scale and masters.")

    def take_values(self) -> None:
        """Give the copy the model's values, rounded."""
        for own, half in self.pairs:
            half.value = self.round(own.value)
            if not self.masters:
                own.value = half.value

    def _go_back(self, copy_backward: Backward, dloss: float) -> bool:
        """One way back; whether its gradients can be used, or nobody wants another try."""
        for _, half in self.pairs:
            half.grad = None
        with np.errstate(over="ignore", invalid="ignore"):
            copy_backward(dloss)
        for _, half in self.pairs:
            half.grad = None if half.grad is None else self.round(half.grad)
        return self.grow_after is None or all(
            half.grad is None or bool(np.isfinite(half.grad).all()) for _, half in self.pairs)

    def _scores(self, batch: Any) -> dict[str, Array]:
        self.take_values()
        return self.copy.scores(batch)


def needs_ml_dtypes() -> Any:
    """The package that has bfloat16 and float8 as NumPy's dtypes: the judge of ``rounded``."""
    try:
        return importlib.import_module("ml_dtypes")
    except ImportError:
        raise ImportError('bfloat16 and float8 as dtypes need ml_dtypes: '
                          'pip install "npt-lib[bits]".') from None
