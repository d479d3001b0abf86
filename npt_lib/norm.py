"""Layer normalisation and dropout: chapter 6."""

from collections.abc import Callable

import numpy as np

from npt_lib.layers import row_sum, sum_rows
from npt_lib.module import Array, Backward, Module, Parameter, Rng
from npt_lib.require import (
    check_count,
    check_dy,
    check_floats,
    check_positive,
    check_rng,
    check_share,
    check_width,
)


class LayerNorm(Module):
    """Each vector is shifted to mean 0, scaled to variance 1, then by a learned gain and bias.

    x is (..., D), and so is y.
    Backward: returns dx, by three paths: directly, through the mean, through the variance.
    Built and derived in chapter 6.
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        D = check_count("d_model", d_model)
        self.eps = check_positive("eps", eps)
        self.gain = Parameter(np.ones(D, np.float32))
        self.bias = Parameter(np.zeros(D, np.float32))

    def forward(self, x: Array) -> tuple[Array, Backward]:
        gain = self.gain.value
        D = gain.shape[0]
        check_width("LayerNorm", x, D)
        n = centred(x)
        std = np.sqrt(row_mean(n, n) + self.eps)                      # (..., 1)
        np.divide(n, std, out=n)                                      # mean 0, variance 1
        y = n * gain
        y += self.bias.value

        def backward(dy: Array) -> Array:
            check_dy("LayerNorm", dy, n.shape)
            self.gain.add_grad(sum_rows((dy * n).reshape(-1, D)))
            self.bias.add_grad(sum_rows(dy.reshape(-1, D)))
            dn = dy * gain
            dx = dn - row_mean(dn)
            dx -= n * row_mean(dn, n)
            dx /= std
            return dx

        return y, backward


def centred(x: Array) -> Array:
    """Each vector without its mean.

    Its first entry is taken off first. What is left is no larger than the vector's spread allows,
    so that rounding loses nothing, also where the mean is large.
    """
    n = x - x[..., :1]
    n -= row_mean(n)
    return n


def row_mean(x: Array, weight: Array | None = None) -> Array:
    """The mean along the last axis, of x or of x * weight, with that axis kept: (..., 1)."""
    total = row_sum(x) if weight is None else np.vecdot(x, weight)[..., None]
    return total / x.shape[-1]


Norm = Callable[[Module, Array], tuple[Array, Backward]]


def norm_order(pre_norm: bool) -> tuple[Norm, Norm]:
    """What happens before a sublayer, and what after its sum: one of the two normalises.

    Post-norm, as in the paper: leave, then normalise. Pre-norm: normalise, then leave.
    """
    return (normalise, leave) if pre_norm else (leave, normalise)


def normalise(norm: Module, x: Array) -> tuple[Array, Backward]:
    return norm.forward(x)


def leave(norm: Module, x: Array) -> tuple[Array, Backward]:
    return x, lambda dx: dx


class Dropout(Module):
    """Each entry becomes 0 with chance p; the others are scaled up so that the mean is kept.

    It acts when an rng is passed, and only then. p counts in steps of 1/65536.
    Backward: the same entries, the same scale. Built in chapter 6.
    """

    def __init__(self, p: float):
        self.p = check_share("dropout", p)

    def forward(self, x: Array, rng: Rng | None = None) -> tuple[Array, Backward]:
        check_floats("Dropout", x)
        if rng is None:
            return x, lambda dy: dy
        check_rng(rng)
        dropped = min(round(self.p * 65536), 65535)   # of the 65,536 values of two random bytes
        if dropped == 0:
            return x, lambda dy: dy
        draws = np.frombuffer(rng.bytes(2 * x.size), np.uint16).reshape(x.shape)
        factor = (draws >= dropped) * x.dtype.type(65536 / (65536 - dropped))

        def backward(dy: Array) -> Array:
            return dy * factor

        return x * factor, backward
