"""The two building blocks of chapter 1: softmax, and the linear layer."""

import math
from functools import lru_cache

import numpy as np

from npt_lib.module import Array, Backward, Module, Parameter, Rng
from npt_lib.require import check_floats, check_mask, check_width


def softmax(x: Array, mask: Array | None = None) -> tuple[Array, Backward]:
    """exp(x), divided by its sum along the last axis: positive weights that add up to 1.

    x is (..., N), and so is w. Where the boolean mask is False an entry gets no weight; a row
    that is False throughout becomes zeros.
    Backward: returns dx, from w alone. Built in chapter 1, derived in chapter 2.
    """
    check_floats("softmax", x)
    if mask is not None:
        check_mask(mask, x.shape)
    w = softmax_in_place(x.copy(), mask)

    def backward(dw: Array) -> Array:
        return softmax_gradient(w, dw)

    return w, backward


def softmax_in_place(x: Array, mask: Array | None = None) -> Array:
    """Softmax written over x: only for an array that the caller has just made."""
    total = exp_in_place(x, mask)
    x /= total
    return x


def exp_in_place(x: Array, mask: Array | None = None) -> Array:
    """Softmax without the division, which is by what is returned: the sum of each row, (..., 1).

    Where scores are large, a row is shifted first: that changes none of its weights.
    """
    far, never, lowest = limits(x.dtype)
    tame = -far < x.min(initial=0) and x.max(initial=0) < far
    hide = 0 if mask is None else np.where(mask, x.dtype.type(0), never)
    if not tame:
        if mask is not None:
            np.copyto(x, lowest, where=~mask)     # the largest is one that counts
        x -= x.max(axis=-1, keepdims=True, initial=-np.inf)
    if mask is not None:
        x += hide
    np.exp(x, out=x)
    total = row_sum(x)
    if mask is not None:
        total += total == 0                       # a row with nothing to choose from stays zeros
    return total


@lru_cache
def limits(dtype: np.dtype) -> tuple[float, float, float]:
    """What exp takes as it is; what makes its exp 0; the lowest number."""
    known = np.finfo(dtype)
    far = float(np.log(known.max)) / 2 if known.bits > 16 else 0      # float16: 257 such overflow
    return far, 4 * float(np.log(known.tiny)), known.min


def softmax_gradient(w: Array, dw: Array) -> Array:
    """dx from dw, given the weights w that softmax returned: w * (dw - sum of dw * w)."""
    dx = dw - np.vecdot(dw, w)[..., None]
    dx *= w
    return dx


def normal(shape: tuple[int, ...], std: float, rng: Rng) -> Array:
    """Random float32 numbers around 0 with this standard deviation."""
    return rng.standard_normal(shape, dtype=np.float32) * np.float32(std)


class Linear(Module):
    """y = x @ W + b: every output is a weighted sum of all inputs, plus a bias.

    x is (..., d_in), y is (..., d_out). W starts with Glorot's variance, b at zero.
    Backward: returns dx; dW and db sum over every row of x. Built in chapter 1.
    """

    def __init__(self, d_in: int, d_out: int, rng: Rng):
        if d_in < 1 or d_out < 1:
            raise ValueError(f"Linear needs d_in and d_out of at least 1, got {d_in} and {d_out}.")
        self.W = Parameter(normal((d_in, d_out), math.sqrt(2 / (d_in + d_out)), rng))
        self.b = Parameter(np.zeros(d_out, np.float32))

    def forward(self, x: Array) -> tuple[Array, Backward]:
        W = self.W.value
        check_width("Linear", x, W.shape[0])
        rows = x.reshape(-1, W.shape[0])                  # (N, d_in): leading axes in one
        y = rows @ W                                      # (N, d_out)
        y += self.b.value

        def backward(dy: Array) -> Array:
            dys = dy.reshape(-1, W.shape[1])              # (N, d_out)
            self.W.add_grad(rows.T @ dys)
            self.b.add_grad(sum_rows(dys))
            return (dys @ W.T).reshape(x.shape)

        return y.reshape(*x.shape[:-1], W.shape[1]), backward


def sum_rows(x: Array) -> Array:
    """The sum over the first axis of a matrix, as a product with a row of ones: BLAS is faster."""
    return filled((x.shape[0],), 1, x.dtype) @ x


def row_sum(x: Array) -> Array:
    """The sum along the last axis, which stays, as (..., 1): a product with ones as well."""
    return x @ filled((x.shape[-1], 1), 1, x.dtype)


@lru_cache
def filled(shape: tuple[int, ...], value: float, dtype: np.dtype) -> Array:
    """An array of one value, made once and never changed."""
    array = np.full(shape, value, dtype)
    array.flags.writeable = False
    return array
