"""Central differences: the slow, independent way to a gradient, and the judge of the fast one."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from npt_lib.module import Array, Parameter
from npt_lib.require import (
    check_callable,
    check_positive,
    check_rows,
    described,
    is_plain,
)

H = 1e-5            # the step of a central difference, near the best for float64


def numeric_gradient(f: Callable[[], Any], x: Array, h: float = H) -> Array:
    """Change each entry of x (float64) by ±h, in place, and see how much the number f() changes.

    x is restored afterwards, also after an interruption. Built in chapter 1.
    """
    if not is_plain(x) or x.dtype != np.float64:         # float32 hardly feels the step
        raise ValueError(f"numeric_gradient needs an array of float64, got {described(x)}.")
    check_callable("f", f)
    h = check_positive("h", h)
    grad = np.zeros(x.shape)
    for i in np.ndindex(x.shape):
        old = x[i]
        try:
            x[i] = old + h
            above = f()
            x[i] = old - h
            below = f()
        finally:
            x[i] = old
        grad[i] = (above - below) / (2 * h)
    return grad


def relative_error(a: Array, b: Array) -> float:
    """‖a - b‖ as a part of the larger of ‖a‖ and ‖b‖, or of 1e-6 if both are smaller."""
    scale = max(float(np.linalg.norm(a)), float(np.linalg.norm(b)), 1e-6)
    return float(np.linalg.norm(np.subtract(a, b))) / scale


def gradient_errors(
    forward: Callable[..., Any],
    inputs: Iterable[Array],
    parameters: Mapping[str, Parameter] | Iterable[Parameter] = (),
) -> dict[str, float]:
    """The relative error of every gradient of ``forward``, by name: inputs, then parameters.

    ``forward(*inputs)`` must give the same result each time: fix masks and dropout's rng in a
    lambda. Integer inputs have no gradient and are passed through. Needs float64.
    """
    check_callable("forward", forward)
    xs = [np.array(x) for x in check_rows("inputs", inputs, "arrays")]     # copies: they change
    floats = {f"input {i}": x for i, x in enumerate(xs) if x.dtype.kind == "f"}
    params = _named(parameters)
    arrays = floats | {name: p.value for name, p in params.items()}
    _require_float64(arrays)
    for p in params.values():
        p.grad = None

    y, backward = forward(*xs)
    dy = np.cos(np.arange(np.size(y))).reshape(np.shape(y))      # no two outputs count alike
    dxs = backward(dy if np.ndim(y) else 1.0)                    # dy of a loss is cos 0 = 1
    dxs = dxs if isinstance(dxs, tuple) else () if dxs is None else (dxs,)
    if len(dxs) != len(floats):
        raise ValueError(f"backward must return {len(floats)} gradients, got {len(dxs)}.")
    found = dict(zip(floats, dxs, strict=True)) | {name: p.grad for name, p in params.items()}
    _require_shapes(found, arrays)

    def loss() -> float:
        changed, _ = forward(*xs)
        return float(np.sum(changed * dy))

    first, second = loss(), loss()
    if first != second:                                          # also true of NaN
        raise ValueError(f"forward must give the same finite result each time, got {first} and "
                         f"{second}: make its rng in each call, as in np.random.default_rng(0).")
    return {name: relative_error(found[name], numeric_gradient(loss, arrays[name]))
            for name in arrays}


def check_gradients(
    forward: Callable[..., Any],
    inputs: Iterable[Array],
    parameters: Mapping[str, Parameter] | Iterable[Parameter] = (),
) -> float:
    """The worst of :func:`gradient_errors`: below 1e-6 is right, around 1 is a bug."""
    errors = gradient_errors(forward, inputs, parameters)
    return float(np.max([*errors.values()]))                     # NaN, if any of them is


def _named(parameters: Any) -> dict[str, Parameter]:
    if not isinstance(parameters, Mapping):
        found = check_rows("parameters", parameters, "Parameters")
        parameters = {f"parameter {i}": p for i, p in enumerate(found)}
    for name, p in parameters.items():
        if not isinstance(p, Parameter):
            raise ValueError(f"{name} must be a Parameter, got {described(p)}.")
    return dict(parameters)


def _require_float64(arrays: dict[str, Array]) -> None:
    if not arrays:
        raise ValueError("A gradient check needs an input of floats or a parameter, got none.")
    for name, x in arrays.items():
        if x.dtype != np.float64:
            raise ValueError(
                f"A gradient check needs float64, but {name} is {x.dtype}: use astype(np.float64)."
            )


def _require_shapes(found: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Each gradient is there, and has the shape of what it belongs to."""
    missing = [name for name, grad in found.items() if grad is None]
    if missing:
        raise ValueError(f"backward left no gradient on {missing}.")
    for name, grad in found.items():
        if np.shape(grad) != arrays[name].shape:
            raise ValueError(f"The gradient of {name} must have its shape {arrays[name].shape}, "
                             f"got {np.shape(grad)}.")
