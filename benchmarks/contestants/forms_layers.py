"""Pairs of forms of one layer or less: what a textbook writes, and what npt_lib does."""

import math

import numpy as np

import npt_lib as npt
from benchmarks.contestants.forms_parts import ROWS, SIZE, Array, Form, normal, rng
from npt_lib.layers import softmax_in_place

D, F, H = SIZE.d_model, SIZE.d_ff, SIZE.n_heads


def precision() -> Form:
    single, x, dy = npt.Linear(D, F, rng()), normal(ROWS, D), normal(ROWS, F)
    double = single.astype(np.float64)

    def both(layer: npt.Linear, x: Array, dy: Array) -> list[Array]:
        layer.zero_grad()
        y, backward = layer.forward(x)
        return [y, backward(dy)]

    x64, dy64 = x.astype(np.float64), dy.astype(np.float64)
    return Form("float64", "float32", lambda: both(double, x64, dy64), lambda: both(single, x, dy))


def softmax(*shape: int) -> Form:
    scores = normal(*shape)

    def before() -> list[Array]:
        shifted = scores - scores.max(axis=-1, keepdims=True)
        e = np.exp(shifted)
        return [e / e.sum(axis=-1, keepdims=True)]

    def after() -> list[Array]:
        w = scores - scores.max(axis=-1, keepdims=True)
        np.exp(w, out=w)
        w /= w.sum(axis=-1, keepdims=True)
        return [w]

    return Form("a new array each line", "in place", before, after)


def shift(*shape: int) -> Form:
    scores = normal(*shape)
    return Form("the largest of each row, np.sum", "npt_lib's", softmax(*shape).after,
                lambda: [softmax_in_place(scores.copy())])


def bias_gradient() -> Form:
    dy = normal(ROWS, F)
    return Form("dy.sum(axis=0)", "ones @ dy", lambda: [dy.sum(axis=0)],
                lambda: [np.ones(ROWS, dy.dtype) @ dy])


def layer_norm() -> Form:
    layer, x, dy = npt.LayerNorm(D), normal(ROWS, D), normal(ROWS, D, seed=1)
    gain, bias = layer.gain.value, layer.bias.value

    def before() -> list[Array]:
        mean, std = x.mean(axis=-1, keepdims=True), np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
        n = (x - mean) / std
        y = n * gain + bias
        dn = dy * gain
        dx = (dn - dn.mean(axis=-1, keepdims=True)
              - n * (dn * n).mean(axis=-1, keepdims=True)) / std
        return [y, dx, (dy * n).sum(axis=0), dy.sum(axis=0)]

    def after() -> list[Array | None]:
        layer.zero_grad()
        y, backward = layer.forward(x)
        return [y, backward(dy), layer.gain.grad, layer.bias.grad]

    return Form("mean and var", "npt_lib.LayerNorm", before, after)


def relu_backward() -> Form:
    y, dy = np.maximum(normal(ROWS, F), 0), normal(ROWS, F, seed=1)
    return Form("np.where(y > 0, dy, 0)", "dy * (y > 0)", lambda: [np.where(y > 0, dy, 0)],
                lambda: [dy * (y > 0)])


def scale() -> Form:
    q, k = normal(8, 8, 256, 32), normal(8, 8, 32, 256, seed=1)
    c = np.float32(1 / math.sqrt(32))
    return Form("on the scores", "on the queries", lambda: [(q @ k) * c], lambda: [(q * c) @ k])


def projections() -> Form:
    x, W = normal(ROWS, D), normal(D, 3 * D, seed=1)
    parts = [np.ascontiguousarray(part) for part in np.split(W, 3, axis=1)]
    return Form("three products", "one, split", lambda: [x @ part for part in parts],
                lambda: np.split(x @ W, 3, axis=1))


def embedding_gradient(n_vocab: int) -> Form:
    layer, dy = npt.Embedding(n_vocab, D, rng()), normal(ROWS, D)
    ids = rng().integers(0, n_vocab, ROWS)
    _, backward = layer.forward(ids)

    def before() -> list[Array]:
        dtable = np.zeros_like(layer.table.value)
        np.add.at(dtable, ids, dy)
        return [dtable]

    def after() -> list[Array | None]:
        layer.zero_grad()
        backward(dy)
        return [layer.table.grad]

    return Form("np.add.at by rows", "npt_lib.Embedding", before, after)


def dropout() -> Form:
    layer, x, chance = npt.Dropout(0.1), normal(ROWS, F), rng()

    def before() -> None:
        factor = ((chance.random(x.shape) >= layer.p) / (1 - layer.p)).astype(x.dtype)
        _ = x * factor

    def after() -> None:
        layer.forward(x, chance)

    return Form("float64 uniforms", "npt_lib.Dropout", before, after)


LAYERS = {
    "precision of Linear": precision,
    "softmax": lambda: softmax(8, H, 256, 256),
    "softmax of short rows": lambda: shift(SIZE.batch, H, SIZE.n_tgt, SIZE.n_src),
    "bias gradient": bias_gradient,
    "layer norm": layer_norm,
    "ReLU backward": relu_backward,
    "scale of attention": scale,
    "queries, keys, values": projections,
    "embedding gradient, 32 tokens": lambda: embedding_gradient(32),
    "embedding gradient, 8,000 tokens": lambda: embedding_gradient(8000),
    "dropout": dropout,
}
