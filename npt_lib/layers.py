"""The two building blocks of chapter 1: softmax, and the linear layer."""

import math

import numpy as np

from npt_lib.module import Array, Backward, Module, Parameter, Rng
from npt_lib.require import (
    FLOATS,
    check_count,
    check_dy,
    check_flag,
    check_floats,
    check_mask,
    check_rng,
    check_width,
)

MOST_NUMBERS = 2**60               # more, and NumPy itself would refuse to count them


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
    """Softmax written over x: only for an array that the caller has just made.

    Where exp would overflow, the largest entry of each row is taken off first: that changes no
    weight. Looking for it takes longer than exp itself on short rows, so others go without.
    """
    limit = EXP_LIMIT[x.dtype]
    if not (-limit < x.min(initial=0) and x.max(initial=0) < limit):
        lowest = np.finfo(x.dtype).min
        if mask is not None:
            np.copyto(x, lowest, where=~mask)     # the largest is one that counts
        x -= x.max(axis=-1, keepdims=True, initial=lowest)
    if mask is not None:
        x += np.where(mask, x.dtype.type(0), -8 * limit)           # exp of that is 0
    np.exp(x, out=x)
    total = row_sum(x)
    if mask is not None:
        total += total == 0                       # a row with nothing to choose from stays zeros
    x /= total
    return x


# e to the power of twice as much would be the largest number that there is
EXP_LIMIT = {dtype: dtype.type(math.log(np.finfo(dtype).max) / 2) for dtype in FLOATS}


def softmax_gradient(w: Array, dw: Array) -> Array:
    """dx from dw, given the weights w that softmax returned: w * (dw - sum of dw * w)."""
    dx = dw - np.vecdot(dw, w)[..., None]
    dx *= w
    return dx


def normal(shape: tuple[int, ...], std: float, rng: Rng) -> Array:
    """Random float32 numbers around 0 with this standard deviation."""
    check_rng(rng)
    if math.prod(shape) > MOST_NUMBERS:
        raise ValueError(f"parameters must be at most {MOST_NUMBERS:.0e} numbers, got {shape}.")
    return rng.standard_normal(shape, dtype=np.float32) * np.float32(std)


class Linear(Module):
    """y = x @ W + b: every output is a weighted sum of all inputs, plus a bias.

    x is (..., d_in), y is (..., d_out). W starts with Glorot's variance, b at zero; bias=False
    leaves b out.
    Backward: returns dx; dW and db sum over every row of x. Built in chapter 1.
    """

    def __init__(self, d_in: int, d_out: int, rng: Rng, bias: bool = True):
        d_in, d_out = check_count("d_in", d_in), check_count("d_out", d_out)
        self.W = Parameter(normal((d_in, d_out), math.sqrt(2 / (d_in + d_out)), rng))
        self.b = Parameter(np.zeros(d_out, np.float32)) if check_flag("bias", bias) else None

    def forward(self, x: Array) -> tuple[Array, Backward]:
        W = self.W.value
        check_width("Linear", x, W.shape[0])
        rows = x.reshape(-1, W.shape[0])                  # (N, d_in): leading axes in one
        y = rows @ W                                      # (N, d_out)
        if self.b:
            y += self.b.value

        def backward(dy: Array) -> Array:
            check_dy("Linear", dy, (*x.shape[:-1], W.shape[1]))
            dys = dy.reshape(-1, W.shape[1])              # (N, d_out)
            self.W.add_grad(rows.T @ dys)
            if self.b:
                self.b.add_grad(sum_rows(dys))
            return (dys @ W.T).reshape(x.shape)

        return y.reshape(*x.shape[:-1], W.shape[1]), backward


def sum_rows(x: Array) -> Array:
    """The sum over the first axis of a matrix, as a product with a row of ones: BLAS is faster."""
    return ones(len(x), x.dtype) @ x


def row_sum(x: Array) -> Array:
    """The sum along the last axis, which stays, as (..., 1): a product with ones as well."""
    return x @ ones(x.shape[-1], x.dtype)[:, None]


def ones(n: int, dtype: np.dtype) -> Array:
    """n ones: a view of some that are there, or new ones where that is too few."""
    there = ONES[dtype]
    return there[:n] if n <= len(there) else np.ones(n, dtype)


ONES = {dtype: np.broadcast_to(np.ones(1 << 14, dtype), 1 << 14) for dtype in FLOATS}   # read-only
