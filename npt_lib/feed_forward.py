"""The feed-forward network, the same at every position, and its activations: chapter 4."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from npt_lib.layers import Linear
from npt_lib.module import Array, Backward, Module, Rng
from npt_lib.norm import Dropout
from npt_lib.require import check_floats


def relu(x: Array) -> tuple[Array, Backward]:
    """max(x, 0), entry by entry.

    Backward: dy where x was positive, 0 elsewhere (at 0 as well). Built in chapter 4.
    """
    check_floats("relu", x)
    y = np.maximum(x, 0)

    def backward(dy: Array) -> Array:
        return dy * (y > 0)

    return y, backward


def gelu(x: Array) -> tuple[Array, Backward]:
    """x times the chance that a standard normal number is below x, in its tanh approximation.

    Backward: returns dx. Built in chapter 4.
    """
    check_floats("gelu", x)
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x * x * x))
    y = 0.5 * x * (1 + t)

    def backward(dy: Array) -> Array:
        dt = (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)
        return dy * (0.5 * (1 + t) + 0.5 * x * dt)

    return y, backward


def exact_gelu(x: Array) -> tuple[Array, Backward]:
    """x times the chance that a standard normal number is below x, exactly, and slower.

    NumPy has no erf: Python's is called for each number.
    Backward: returns dx. Built in chapter 4.
    """
    check_floats("exact_gelu", x)
    erf = ERF(x / math.sqrt(2)).astype(x.dtype)
    chance = 0.5 * (1 + erf)

    def backward(dy: Array) -> Array:
        density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        return dy * (chance + x * density)

    return x * chance, backward


ERF: Callable[..., Array] = np.frompyfunc(math.erf, 1, 1)
Activation = Callable[[Array], tuple[Array, Backward]]
ACTIVATIONS: dict[str, Activation] = {"relu": relu, "gelu": gelu, "exact_gelu": exact_gelu}


class FeedForward(Module):
    """Linear, activation, Linear: applied to each position alone.

    x is (..., D), and so is y; in between there are d_ff hidden units. activation is a name, or
    a function x -> (y, backward). dropout is of the hidden units, and acts when rng is given.
    Backward: returns dx. Built in chapter 4.
    """

    def __init__(
        self, d_model: int, d_ff: int, rng: Rng, activation: str | Activation = "relu",
        bias: bool = True, dropout: float = 0.0,
    ):
        self.activation = check_activation(activation)
        self.up = Linear(d_model, d_ff, rng, bias)
        self.down = Linear(d_ff, d_model, rng, bias)
        self.drop = Dropout(dropout)

    def forward(self, x: Array, rng: Rng | None = None) -> tuple[Array, Backward]:
        named = isinstance(self.activation, str)
        activate = ACTIVATIONS[self.activation] if named else self.activation
        h, up_backward = self.up.forward(x)                           # (..., F)
        a, activation_backward = activate(h)
        a, drop_backward = self.drop.forward(a, rng)
        y, down_backward = self.down.forward(a)                       # (..., D)

        def backward(dy: Array) -> Array:
            da = drop_backward(down_backward(dy))
            return up_backward(activation_backward(da))

        return y, backward


def check_activation(activation: Any) -> Any:
    known = isinstance(activation, str) and activation in ACTIVATIONS
    if not known and not callable(activation):
        raise ValueError(f"activation must be one of {sorted(ACTIVATIONS)} or a function, "
                         f"got {activation!r}.")
    return activation
