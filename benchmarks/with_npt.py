"""npt_lib as it is shipped, by its public names; the textbook's attention; NumPy's sgemm."""

import math
import time
from collections.abc import Callable
from itertools import cycle

import numpy as np
from threadpoolctl import threadpool_info

import npt_lib as npt
from benchmarks import work
from benchmarks.flops import training_products
from benchmarks.work import Array, Size

Job = Callable[[int], list]
N_SGEMM = 2048


def about() -> Job:
    """Versions, and which BLAS multiplies, with which kernel and how many threads."""
    blas = ", ".join(f"{x['internal_api']} {x['version']}, kernel {x['architecture']}, "
                     f"{x['num_threads']} threads" for x in threadpool_info()
                     if x["user_api"] == "blas")
    return lambda n: [("NumPy", np.__version__), ("BLAS", blas or "unknown")]


def model_of(size: Size, weights: str | None = None) -> npt.Transformer:
    """A model of this size, at the weights of a file if there is one."""
    config = npt.Config(size.n_vocab, size.n_vocab, size.d_model, size.n_heads, size.d_ff,
                        size.n_layers, 0.0, work.MAX_LEN)
    model = npt.Transformer(config, np.random.default_rng(0))
    if weights:
        with np.load(weights) as arrays:
            model.load_state_dict(arrays)
    return model


def train(size: Size, weights: str, variant: str = "") -> Job:
    """n steps of training; the losses.

    bare: train_step by itself. keep: freed memory is kept. threads: half of the batch on each.
    """
    if variant == "keep":
        npt.keep_memory()
    model = model_of(size, weights)
    optimizer = npt.Adam(model.parameters(), work.LR)
    data = cycle(work.batches(size))
    threads = {"n_threads": 2} if variant == "threads" else {}

    def bare(n: int) -> list[float]:
        return [npt.train_step(model, optimizer, next(data), None, label_smoothing=work.SMOOTHING)
                for _ in range(n)]

    def whole(n: int) -> list[float]:
        return npt.train(model, optimizer, data, None, n, label_smoothing=work.SMOOTHING,
                         **threads).loss

    return bare if variant == "bare" else whole


def products(size: Size) -> Job:
    """A step's matrix products and nothing else, n times over; a corner of each."""
    pairs = work.factors(training_products(size))
    return lambda n: [[float((a @ b)[0, 0, 0]) for a, b in pairs] for _ in range(n)][-1]


def decode(size: Size, weights: str, n_rows: int) -> Job:
    """N_TOKENS a row, n times over; the tokens."""
    model, src = model_of(size, weights), work.batches(size)[0][0][:n_rows]
    return lambda n: [written(model, src).tolist() for _ in range(n)][-1]


def written(model: npt.Transformer, src: Array) -> Array:
    """(B, N_TOKENS): the likeliest token each time, with the model's cache."""
    state, ids, tokens = model.start(src, work.N_TOKENS), np.full(len(src), work.BOS), []
    for _ in range(work.N_TOKENS):
        ids = model.step(ids, state).argmax(axis=-1)
        tokens.append(ids)
    return np.stack(tokens, axis=1)


def attend(n: int, variant: str = "") -> Job:
    """Attention over n positions, forwards and backwards; the squares of all, summed.

    Freed memory is kept, as train has it; bare: it is not.
    """
    inputs = work.attention_inputs(n)
    both = textbook_attention if variant == "textbook" else attention
    if variant != "bare":
        np.empty(31 << 20, np.uint8)
    return lambda times: [[float(np.vdot(x, x)) for x in both(*inputs)] for _ in range(times)][-1]


def attention(q: Array, k: Array, v: Array, dy: Array) -> tuple[Array, ...]:
    y, backward = npt.attention(q, k, v)
    return y, *backward(dy)


def textbook_attention(q: Array, k: Array, v: Array, dy: Array) -> tuple[Array, ...]:
    """The same as a textbook writes it: a new array for every line, all of them kept."""
    scale = math.sqrt(q.shape[-1])
    scores = q @ k.swapaxes(-1, -2) / scale
    shifted = scores - scores.max(axis=-1, keepdims=True)
    e = np.exp(shifted)
    w = e / e.sum(axis=-1, keepdims=True)
    y = w @ v
    dv = w.swapaxes(-1, -2) @ dy
    dw = dy @ v.swapaxes(-1, -2)
    dscores = w * (dw - (dw * w).sum(axis=-1, keepdims=True)) / scale
    return y, dscores @ k, dscores.swapaxes(-1, -2) @ q, dv


def sgemm() -> Job:
    """GFLOP/s of the best of n products of two large float32 matrices, on all of BLAS's threads."""
    a, b = np.random.default_rng(0).standard_normal((2, N_SGEMM, N_SGEMM), dtype=np.float32)
    out = a @ b

    def once() -> float:
        start = time.perf_counter()
        np.matmul(a, b, out=out)
        return time.perf_counter() - start

    return lambda n: [2 * N_SGEMM**3 / min(once() for _ in range(n)) / 1e9]
