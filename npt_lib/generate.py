"""Writing with a trained model: greedy (chapter 9), sampling and beam search (chapter 10).

All three return ids (B, L) without the start token: each row ends with its end token, if it
came in time, and then padding. Padding and the start token are never chosen.
"""

from collections.abc import Callable

import numpy as np

from npt_lib.layers import softmax
from npt_lib.module import Array, Rng
from npt_lib.require import check_ids
from npt_lib.transformer import DecodingState, Transformer


def greedy(model: Transformer, src: Array, max_len: int) -> Array:
    """At each step the most likely token. src is (B, S); stops when every row has ended."""
    return _generate(model, src, max_len, lambda scores: scores.argmax(axis=-1))


def sample(
    model: Transformer,
    src: Array,
    max_len: int,
    rng: Rng,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
) -> Array:
    """At each step a random token, by the model's probabilities. src is (B, S).

    temperature below 1 sharpens them, above 1 flattens. top_k keeps the k likeliest tokens,
    top_p the fewest that together hold a chance of p. Built in chapter 10.
    """
    _check_sampling(temperature, top_k, top_p)

    def choose(scores: Array) -> Array:
        below = scores.astype(np.float64) - scores.max(axis=-1, keepdims=True)
        p, _ = softmax(below / temperature)               # nothing above 0: no overflow
        p = keep_likeliest(p, top_k, top_p)
        marks = p.cumsum(axis=-1)
        draws = rng.random((len(p), 1)) * marks[:, -1:]
        return (draws >= marks).sum(axis=-1)              # the first mark above the draw

    return _generate(model, src, max_len, choose)


def keep_likeliest(p: Array, top_k: int | None, top_p: float) -> Array:
    """p (B, V) with zeros outside the top k, and outside the fewest that reach top_p."""
    order = np.argsort(-p, axis=-1, kind="stable")
    ranked = np.take_along_axis(p, order, axis=-1)
    before = np.pad(ranked.cumsum(axis=-1), ((0, 0), (1, 0)))[:, :-1]     # all that rank higher
    keep = before < top_p
    if top_k is not None:
        keep[:, top_k:] = False
    kept = np.zeros_like(p)
    np.put_along_axis(kept, order, ranked * keep, axis=-1)
    return kept


def beam_search(
    model: Transformer, src: Array, max_len: int, width: int = 4, length_penalty: float = 0.6
) -> Array:
    """Keeps the width best beginnings of each row, and returns the best whole one.

    A beginning's score is its log-probability over ((5 + length) / 6) ** length_penalty.
    src is (B, S). width 1 is greedy. Built in chapter 10.
    """
    if width < 1 or not np.isfinite(length_penalty):
        raise ValueError(f"width must be at least 1 and length_penalty finite, "
                         f"got {width} and {length_penalty}.")
    c, state = model.config, _start(model, src, max_len)
    B = len(state.memory_mask)
    state.select(np.repeat(np.arange(B), width))          # each source, width times
    beams = Beams(B, width)
    last = np.full(B * width, c.bos_id)
    for _ in range(max_len):
        logp = _never(model, _log_probs(model.step(last, state)))
        rows = beams.extend(_freeze(logp, beams.ended.ravel(), c.pad_id), c.eos_id, length_penalty)
        last = beams.ids[..., -1].ravel()
        if beams.ended.all():
            break
        state.select(rows)
    return beams.ids[:, 0]


class Beams:
    """The width best beginnings of each of B rows, best first."""

    def __init__(self, B: int, width: int):
        self.ids = np.zeros((B, width, 0), int)
        self.logp = np.full((B, width), -np.inf)
        self.logp[:, 0] = 0.0                             # at first all are the same beginning
        self.length = np.zeros((B, width), int)
        self.ended = np.zeros((B, width), bool)

    def extend(self, logp: Array, eos_id: int, length_penalty: float) -> Array:
        """Go on by one token; logp is (B * width, V). Returns which rows the new ones continue."""
        B, width, _ = self.ids.shape
        total = self.logp[..., None] + logp.reshape(B, width, -1)         # (B, width, V)
        length = self.length + ~self.ended
        rank = total / ((5 + length[..., None]) / 6) ** length_penalty
        best = np.argsort(-rank.reshape(B, -1), axis=-1, kind="stable")[:, :width]
        beam, token = np.divmod(best, total.shape[-1])                    # each (B, width)
        row = np.arange(B)[:, None]
        self.ids = np.concatenate([self.ids[row, beam], token[..., None]], axis=-1)
        self.logp = total[row, beam, token]
        self.length = length[row, beam]
        self.ended = self.ended[row, beam] | (token == eos_id)
        return (row * width + beam).ravel()


def log_probability(model: Transformer, src: Array, ids: Array) -> Array:
    """log p(ids | src) for each row of what a search returned: the sum over its tokens, (B,)."""
    c = model.config
    ids = check_ids("target", ids, c.n_tgt_vocab)
    if ids.ndim != 2:
        raise ValueError(f"ids must be (batch, length), got shape {ids.shape}.")
    tgt = np.concatenate([np.full((len(ids), 1), c.bos_id), ids], axis=-1)
    logp = _log_probs(model(src, tgt[:, :-1]))     # (B, L, V)
    chosen = np.take_along_axis(logp, tgt[:, 1:, None], axis=-1)[..., 0]
    return np.where(ids == c.pad_id, 0.0, chosen).sum(axis=-1)


def _generate(
    model: Transformer, src: Array, max_len: int, choose: Callable[[Array], Array]
) -> Array:
    """One token at a time for all rows; a row that has ended is filled with padding."""
    c = model.config
    state = _start(model, src, max_len)
    last = np.full(len(state.memory_mask), c.bos_id)
    ended = np.zeros(len(last), bool)
    written: list[Array] = []
    while len(written) < max_len and not ended.all():
        scores = _never(model, model.step(last, state))   # (B, V)
        last = np.where(ended, c.pad_id, choose(scores))
        ended = ended | (last == c.eos_id)
        written.append(last)
    return np.stack(written, axis=1)


def _start(model: Transformer, src: Array, max_len: int) -> DecodingState:
    if max_len < 1:
        raise ValueError(f"max_len must be at least 1, got {max_len}.")
    return model.start(src, max_len)


def _never(model: Transformer, scores: Array) -> Array:
    """The scores with padding and the start token out of reach."""
    allowed = np.ones(scores.shape[-1], bool)
    allowed[[model.config.pad_id, model.config.bos_id]] = False
    return np.where(allowed, scores, scores.dtype.type(-np.inf))


def _log_probs(logits: Array) -> Array:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _freeze(logp: Array, ended: Array, pad_id: int) -> Array:
    """A beginning that has ended goes on with padding, for free, and with nothing else."""
    only_padding = np.where(np.arange(logp.shape[-1]) == pad_id, 0.0, -np.inf)
    return np.where(ended[..., None], only_padding, logp)


def _check_sampling(temperature: float, top_k: int | None, top_p: float) -> None:
    if not 0 < temperature < np.inf:
        raise ValueError(f"temperature must be above 0 and finite, got {temperature}.")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, got {top_k}.")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p must be above 0 and at most 1, got {top_p}.")
