"""Layer normalisation and dropout: chapter 6."""

import numpy as np

from npt_lib.layers import filled, sum_rows
from npt_lib.module import Array, Backward, Module, Parameter, Rng
from npt_lib.require import check_floats, check_width


class LayerNorm(Module):
    """Each vector is shifted to mean 0, scaled to variance 1, then by a learned gain and bias.

    x is (..., D), and so is y.
    Backward: returns dx, by three paths: directly, through the mean, through the variance.
    Built and derived in chapter 6.
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        if d_model < 1 or eps <= 0:
            raise ValueError(f"LayerNorm needs d_model >= 1 and eps > 0, got {d_model}, {eps}.")
        self.eps = eps
        self.gain = Parameter(np.ones(d_model, np.float32))
        self.bias = Parameter(np.zeros(d_model, np.float32))

    def forward(self, x: Array) -> tuple[Array, Backward]:
        gain = self.gain.value
        D = gain.shape[0]
        check_floats("LayerNorm", x)
        check_width("LayerNorm", x, D)
        n = x - row_mean(x)
        std = np.sqrt(row_mean(n, n) + self.eps)                      # (..., 1)
        np.divide(n, std, out=n)                                      # mean 0, variance 1
        y = n * gain
        y += self.bias.value

        def backward(dy: Array) -> Array:
            self.gain.add_grad(sum_rows((dy * n).reshape(-1, D)))
            self.bias.add_grad(sum_rows(dy.reshape(-1, D)))
            dn = dy * gain
            dx = dn - row_mean(dn)
            dx -= n * row_mean(dn, n)
            dx /= std
            return dx

        return y, backward


def row_mean(x: Array, weight: Array | None = None) -> Array:
    """The mean along the last axis, of x or of x * weight, with that axis kept: (..., 1)."""
    if weight is None:
        return x @ filled((x.shape[-1], 1), 1 / x.shape[-1], x.dtype)
    return np.vecdot(x, weight)[..., None] / x.shape[-1]


class Dropout(Module):
    """Each entry becomes 0 with chance p; the others are scaled up so that the mean is kept.

    It acts when an rng is passed, and only then. p counts in steps of 1/65536.
    Backward: the same entries, the same scale. Built in chapter 6.
    """

    def __init__(self, p: float):
        if not 0 <= p < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {p}.")
        self.p = p

    def forward(self, x: Array, rng: Rng | None = None) -> tuple[Array, Backward]:
        check_floats("Dropout", x)
        dropped = min(round(self.p * 65536), 65535)   # of the 65,536 values of two random bytes
        if rng is None or dropped == 0:
            return x, lambda dy: dy
        draws = np.frombuffer(rng.bytes(2 * x.size), np.uint16).reshape(x.shape)
        factor = (draws >= dropped) * x.dtype.type(65536 / (65536 - dropped))

        def backward(dy: Array) -> Array:
            return dy * factor

        return x * factor, backward
