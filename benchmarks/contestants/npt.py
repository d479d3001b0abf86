"""npt_lib as it is shipped, by its public names."""

from itertools import cycle

import numpy as np

import npt_lib as npt
from benchmarks.blas import blas
from benchmarks.contestants import Job, Kinds
from benchmarks.sizes import BOS, LR, MAX_LEN, N_TOKENS, SMOOTHING, Size, attention_inputs, batches
from npt_lib.memory import reuse_memory


def about() -> dict[str, str]:
    return {"NumPy": np.__version__, "BLAS": blas()}


def model_of(size: Size, dropout: float = 0.0, weights: str | None = None) -> npt.Transformer:
    """A model of this size, at the weights of a file if there is one."""
    config = npt.Config(size.n_vocab, size.n_vocab, size.d_model, size.n_heads, size.d_ff,
                        size.n_layers, dropout, MAX_LEN)
    model = npt.Transformer(config, np.random.default_rng(0))
    if weights:
        with np.load(weights) as arrays:
            model.load_state_dict(arrays)
    return model


def prepare_memory(variant: str) -> None:
    if "keep" in variant:
        npt.keep_memory()
    elif "reuse" in variant:
        reuse_memory()


def training(size: Size, weights: str, dropout: float = 0.0, variant: str = "") -> Job:
    """n steps of train; the losses. Its settings are the defaults, but for what variant names.

    keep, reuse: what becomes of freed memory. one-thread: the batch stays whole. bare: train_step
    by itself, which leaves both alone.
    """
    prepare_memory(variant)
    model = model_of(size, dropout, weights)
    optimizer = npt.Adam(model.parameters(), LR)
    data = cycle(batches(size))
    rng = np.random.default_rng(1) if dropout else None

    n_threads = 1 if "one-thread" in variant else None

    def train(n: int) -> list[float]:
        return npt.train(model, optimizer, data, rng, n, label_smoothing=SMOOTHING,
                         n_threads=n_threads).loss

    def bare(n: int) -> list[float]:
        return [npt.train_step(model, optimizer, next(data), rng, label_smoothing=SMOOTHING)
                for _ in range(n)]

    return bare if "bare" in variant else train


def written(model: npt.Transformer, src: np.ndarray) -> np.ndarray:
    """(B, N_TOKENS): the likeliest token each time, with the model's cache."""
    state, ids, tokens = model.start(src, N_TOKENS), np.full(len(src), BOS), []
    for _ in range(N_TOKENS):
        ids = model.step(ids, state).argmax(axis=-1)
        tokens.append(ids)
    return np.stack(tokens, axis=1)


def decoding(size: Size, weights: str, n_rows: int) -> Job:
    """N_TOKENS a row, n times over; the tokens."""
    model, src = model_of(size, weights=weights), batches(size)[0][0][:n_rows]
    return lambda n: [written(model, src).tolist() for _ in range(n)][-1]


def attending(n: int, variant: str = "") -> Job:
    """Attention over n positions, forwards and backwards; the squares of all, summed."""
    prepare_memory(variant or "reuse")              # as train does
    q, k, v, dy = attention_inputs(n)

    def both() -> list[float]:
        y, backward = npt.attention(q, k, v)
        return [float(np.vdot(x, x)) for x in (y, *backward(dy))]

    return lambda times: [both() for _ in range(times)][-1]


KINDS: Kinds = {"train": training, "decode": decoding, "attend": attending}
