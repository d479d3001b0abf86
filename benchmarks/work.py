"""What is asked of everyone: four sizes of model, the data, how to train and decode."""

from dataclasses import dataclass

import numpy as np

Array = np.ndarray
PAD, BOS, EOS, FIRST_WORD = 0, 1, 2, 3
N_BATCHES = 4                   # different ones, used in turn
MAX_LEN = 128
N_TOKENS = 64                   # written by a decoding
N_HEADS, D_HEAD = 4, 64         # of attention by length
LENGTHS = (256, 512, 1024, 2048, 4096)
# how everybody trains
SMOOTHING, LR, BETAS, EPS, MAX_NORM = 0.1, 1e-3, (0.9, 0.98), 1e-9, 1.0


@dataclass(frozen=True)
class Size:
    """An encoder-decoder with as many blocks on each side, and the batches it trains on."""

    name: str
    batch: int
    n_src: int
    n_tgt: int
    d_model: int
    n_heads: int
    d_ff: int
    n_layers: int
    n_vocab: int


SIZES = {size.name: size for size in (
    Size("TINY", 32, 12, 12, 32, 4, 64, 1, 16),
    Size("SMALL", 64, 16, 16, 64, 4, 256, 2, 32),
    Size("MEDIUM", 32, 64, 64, 256, 8, 1024, 3, 1000),
    Size("BASE", 8, 64, 64, 512, 8, 2048, 6, 8000),
)}


def batch(size: Size, seed: int) -> tuple[Array, Array]:
    """Random sentences: src (B, n_src), tgt (B, n_tgt + 1) from <bos> to <eos>, padded with 0.

    Lengths are even between half and all of the room; the first row fills it. The decoder reads
    all of tgt but the last column and predicts all but the first, so it works on n_tgt.
    """
    rng = np.random.default_rng(seed)
    src = _sentences(size, size.n_src, rng)
    tgt = np.zeros((size.batch, size.n_tgt + 1), np.int64)
    words = _sentences(size, size.n_tgt - 1, rng)
    tgt[:, 0], tgt[:, 1:-1] = BOS, words
    tgt[np.arange(size.batch), 1 + (words != PAD).sum(axis=1)] = EOS
    return src, tgt


def batches(size: Size) -> list[tuple[Array, Array]]:
    """The batches of a run, the same for every contestant."""
    return [batch(size, seed) for seed in range(N_BATCHES)]


def positions(d_model: int) -> Array:
    """(MAX_LEN, D): the paper's sines and cosines."""
    rates = 10000.0 ** (-np.arange(0, d_model, 2) / d_model)
    angles = np.arange(MAX_LEN)[:, None] * rates
    waves = np.stack([np.sin(angles), np.cos(angles)], axis=-1)
    return waves.reshape(MAX_LEN, -1)[:, :d_model].astype(np.float32)


def attention_inputs(n: int) -> Array:
    """q, k, v and dy, each (1, H, n, K) in float32."""
    rng = np.random.default_rng(n)
    return rng.standard_normal((4, 1, N_HEADS, n, D_HEAD), dtype=np.float32)


def factors(products: list[tuple[int, int, int, int]]) -> list[tuple[Array, Array]]:
    """The two sides of each product: stack, n, k, m make (stack, n, k) and (stack, k, m)."""
    rng = np.random.default_rng(0)
    return [(rng.random((stack, n, k), np.float32), rng.random((stack, k, m), np.float32))
            for stack, n, k, m in products]


def _sentences(size: Size, room: int, rng: np.random.Generator) -> Array:
    ids = rng.integers(FIRST_WORD, size.n_vocab, (size.batch, room))
    lengths = rng.integers((room + 1) // 2, room + 1, size.batch)
    lengths[0] = room
    return np.where(np.arange(room) < lengths[:, None], ids, PAD)
