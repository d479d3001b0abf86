"""From token ids to vectors with a place in the sequence, and from vectors back: chapter 5."""

import math

import numpy as np

from npt_lib.layers import normal, sum_rows
from npt_lib.module import Array, Backward, Module, Parameter, Rng
from npt_lib.require import (
    check_count,
    check_dy,
    check_flag,
    check_ids,
    check_length,
    check_width,
)


class Embedding(Module):
    """A table with one learned vector for each token of the vocabulary.

    ids is an integer array (...); y is (..., D).
    Backward: returns nothing; each row of the table gets the sum over the places it was used.
    Built in chapter 5.
    """

    def __init__(self, n_vocab: int, d_model: int, rng: Rng):
        n_vocab, D = check_count("n_vocab", n_vocab), check_count("d_model", d_model)
        self.table = Parameter(normal((n_vocab, D), 1 / math.sqrt(D), rng))

    def forward(self, ids: Array) -> tuple[Array, Backward]:
        table = self.table.value
        V, D = table.shape
        rows = check_ids("token", ids, V)

        def backward(dy: Array) -> None:
            check_dy("Embedding", dy, (*rows.shape, D))
            dtable = np.zeros(table.shape, table.dtype)
            flat = rows.reshape(-1, 1).astype(np.intp) * D + np.arange(D)      # flat indices
            np.add.at(dtable.reshape(-1), flat.ravel(), dy.ravel())       # a repeated id adds up
            self.table.add_grad(dtable)

        return table[rows], backward                  # (..., D)


class Unembedding(Module):
    """Scores for the next token: how well a vector matches each row of the table.

    x is (..., D), the logits are (..., V). Hand over an Embedding's table to tie the two. With
    bias=True each token has a score of its own besides.
    Backward: returns dx. Built in chapter 5.
    """

    def __init__(self, table: Parameter, bias: bool = False):
        if not isinstance(table, Parameter) or table.value.ndim != 2:
            raise ValueError(f"Unembedding needs a Parameter (V, D), such as an Embedding's table, "
                             f"got {table!r}.")
        self.table = table
        n_vocab, dtype = len(table.value), table.value.dtype
        self.b = Parameter(np.zeros(n_vocab, dtype)) if check_flag("bias", bias) else None

    def forward(self, x: Array) -> tuple[Array, Backward]:
        table = self.table.value
        V, D = table.shape
        check_width("Unembedding", x, D)
        rows = x.reshape(-1, D)                       # (N, D)
        y = rows @ table.T                            # (N, V)
        if self.b:
            y += self.b.value

        def backward(dy: Array) -> Array:
            check_dy("Unembedding", dy, (*x.shape[:-1], V))
            dys = dy.reshape(-1, V)
            self.table.add_grad(dys.T @ rows)
            if self.b:
                self.b.add_grad(sum_rows(dys))
            return (dys @ table).reshape(x.shape)

        return y.reshape(*x.shape[:-1], V), backward


def sinusoidal_positions(n: int, d_model: int) -> Array:
    """(n, D): sines and cosines, wavelengths 2 pi to (with many columns) almost 10,000 * 2 pi."""
    n, d_model = check_count("n", n), check_count("d_model", d_model)
    rates = 10000.0 ** (-np.arange(0, d_model, 2) / d_model)          # (D/2,)
    angles = np.arange(n)[:, None] * rates                            # (n, D/2)
    table = np.empty((n, d_model))
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles[:, :d_model // 2])
    return table


class SinusoidalPositions(Module):
    """Adds a fixed pattern of waves to each position; nothing is learned.

    x is (..., T, D), and so is y; start is the position of x's first vector.
    Backward: dy unchanged. Built in chapter 5.
    """

    def __init__(self, max_len: int, d_model: int):
        self.table = sinusoidal_positions(max_len, d_model)

    def forward(self, x: Array, start: int = 0) -> tuple[Array, Backward]:
        stop = check_places("SinusoidalPositions", x, start, self.table)
        return x + self.table[start:stop].astype(x.dtype), lambda dy: dy


class LearnedPositions(Module):
    """Adds a learned vector to each position; there is none beyond max_len.

    x is (..., T, D), and so is y; start is the position of x's first vector.
    Backward: returns dx; a position's gradient sums over the batch. Built in chapter 5.
    """

    def __init__(self, max_len: int, d_model: int, rng: Rng):
        n, D = check_count("max_len", max_len), check_count("d_model", d_model)
        self.table = Parameter(normal((n, D), 1 / math.sqrt(D), rng))

    def forward(self, x: Array, start: int = 0) -> tuple[Array, Backward]:
        table = self.table.value
        stop, shape = check_places("LearnedPositions", x, start, table), x.shape

        def backward(dy: Array) -> Array:
            check_dy("LearnedPositions", dy, shape)
            dtable = np.zeros_like(table)
            dtable[start:stop] = dy.sum(axis=tuple(range(dy.ndim - 2)))
            self.table.add_grad(dtable)
            return dy

        return x + table[start:stop], backward


def check_places(name: str, x: Array, start: int, table: Array) -> int:
    """The position after the last, of vectors x (..., T, D) that begin at position start."""
    check_width(name, x, table.shape[1])
    if x.ndim < 2:
        raise ValueError(f"{name} needs x (..., T, D), got shape {x.shape}.")
    return check_length(check_count("start", start, 0) + x.shape[-2], table.shape[0])
