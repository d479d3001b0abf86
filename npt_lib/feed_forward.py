"""The feed-forward network, the same at every position, and its activations: chapter 4."""

import math
from collections.abc import Callable

import numpy as np

from npt_lib.layers import Linear
from npt_lib.module import Array, Backward, Module, Rng


def relu(x: Array) -> tuple[Array, Backward]:
    """max(x, 0), entry by entry.

    Backward: dy where x was positive, 0 elsewhere (at 0 as well). Built in chapter 4.
    """
    y = np.maximum(x, 0)

    def backward(dy: Array) -> Array:
        return dy * (y > 0)

    return y, backward


def gelu(x: Array) -> tuple[Array, Backward]:
    """x times the chance that a standard normal number is below x, in its tanh approximation.

    Backward: returns dx. Built in chapter 4.
    """
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x + 0.044715 * x * x * x))
    y = 0.5 * x * (1 + t)

    def backward(dy: Array) -> Array:
        dt = (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)
        return dy * (0.5 * (1 + t) + 0.5 * x * dt)

    return y, backward


ACTIVATIONS: dict[str, Callable[[Array], tuple[Array, Backward]]] = {"relu": relu, "gelu": gelu}


class FeedForward(Module):
    """Linear, activation, Linear: applied to each position alone.

    x is (..., D), and so is y; in between there are d_ff hidden units.
    Backward: returns dx. Built in chapter 4.
    """

    def __init__(self, d_model: int, d_ff: int, rng: Rng, activation: str = "relu"):
        check_activation(activation)
        self.activation = activation
        self.up = Linear(d_model, d_ff, rng)
        self.down = Linear(d_ff, d_model, rng)

    def forward(self, x: Array) -> tuple[Array, Backward]:
        h, up_backward = self.up.forward(x)                           # (..., F)
        a, activation_backward = ACTIVATIONS[self.activation](h)
        y, down_backward = self.down.forward(a)                       # (..., D)

        def backward(dy: Array) -> Array:
            return up_backward(activation_backward(down_backward(dy)))

        return y, backward


def check_activation(activation: str) -> None:
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {sorted(ACTIVATIONS)}, got {activation!r}.")
