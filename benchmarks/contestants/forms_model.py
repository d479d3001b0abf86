"""Pairs of forms of more than a layer: attention, Adam, padding, decoding."""

import math
from collections.abc import Callable

import numpy as np

import npt_lib as npt
from benchmarks.contestants.forms_parts import SIZE, Array, Form, normal, rng
from benchmarks.contestants.npt import model_of, written
from benchmarks.sizes import BETAS, BOS, EPS, LR, N_TOKENS, SMOOTHING, attention_inputs, batches
from npt_lib.tasks import number_words


def attention() -> Form:
    q, k, v, dy = attention_inputs(1280)
    c = np.float32(1 / math.sqrt(q.shape[-1]))

    def before() -> list[Array]:
        w = (q * c) @ k.swapaxes(-1, -2)
        w -= w.max(axis=-1, keepdims=True)
        np.exp(w, out=w)
        w /= w.sum(axis=-1, keepdims=True)
        y = w @ v
        dv = w.swapaxes(-1, -2) @ dy
        ds = dy @ v.swapaxes(-1, -2)
        ds -= np.vecdot(ds, w)[..., None]
        ds *= w
        return [y, ds @ k * c, ds.swapaxes(-1, -2) @ (q * c), dv]

    def after() -> list[Array]:
        y, backward = npt.attention(q, k, v)
        return [y, *backward(dy)]

    return Form("all scores at once", "npt_lib.attention", before, after)


def adam() -> Form:
    models = [model_of(SIZE) for _ in range(2)]
    old, new = ([*model.parameters().values()] for model in models)
    grads = [normal(*p.shape, seed=1) for p in new]
    for p, grad in zip(new, grads, strict=True):
        p.grad = grad
    optimizer, n_steps = npt.Adam(new, LR, BETAS, EPS), 0
    means, squares = ([np.zeros_like(p.value) for p in old] for _ in range(2))
    b1, b2 = BETAS

    def before() -> list[Array]:
        nonlocal n_steps
        n_steps += 1
        for i, (p, grad) in enumerate(zip(old, grads, strict=True)):
            means[i] = b1 * means[i] + (1 - b1) * grad
            squares[i] = b2 * squares[i] + (1 - b2) * grad**2
            mean, square = means[i] / (1 - b1**n_steps), squares[i] / (1 - b2**n_steps)
            p.value = p.value - LR * mean / (np.sqrt(square) + EPS)
        return [p.value for p in old]

    def after() -> list[Array]:
        optimizer.step()
        return [p.value for p in new]

    return Form("one parameter at a time", "npt_lib.Adam", before, after)


def padding() -> Form:
    """A pass over numbers in words, which are of many lengths."""
    task = number_words(rng(), 20 * SIZE.batch, 1)
    sizes = {"d_model": SIZE.d_model, "n_heads": SIZE.n_heads, "d_ff": SIZE.d_ff,
             "n_layers": SIZE.n_layers}

    def passing(by_length: bool) -> Callable[[], None]:
        model = npt.Transformer(task.config(**sizes, dropout=0.0), rng())
        optimizer = npt.Adam(model.parameters(), LR)
        batches = npt.Batches(*task.arrays(), SIZE.batch, rng(), by_length=by_length)

        def one() -> None:
            for _, batch in zip(range(20), batches, strict=False):
                npt.train_step(model, optimizer, batch, None, label_smoothing=SMOOTHING)

        return one

    return Form("batches at random", "by_length", passing(False), passing(True))


def decoding() -> Form:
    model, src = model_of(SIZE), batches(SIZE)[0][0][:1]

    def before() -> list[Array]:
        memory, tokens = model.encode(src), np.full((1, 1), BOS)
        for _ in range(N_TOKENS):
            logits = model.decode(tokens, memory, src)[:, -1:]
            tokens = np.concatenate([tokens, logits.argmax(axis=-1)], axis=1)
        return [tokens[:, 1:]]

    return Form("without a cache", "with a cache", before,
                lambda: [written(model, src)])


MODEL = {"attention, 1,280 positions": attention, "Adam": adam, "padding": padding,
         "decoding": decoding}
