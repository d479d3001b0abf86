"""Writing with a trained model: greedy (chapter 9), sampling and beam search (chapter 10).

All return ids (B, L), without what the model was given: each row ends with an end token, if it
came in time, and then padding. They know of a model three things, so any model that has them can
write: ``state = model.start(inputs, max_len)``, where state.last (B,) are the ids to begin with;
``logits = model.step(ids, state)`` (B, V), for the token after ids (B,); and
``state.select(rows)``, which keeps these rows. Padding, start and end ids are those of
model.config, where it has them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from npt_lib.layers import softmax
from npt_lib.module import Array, Rng
from npt_lib.require import (
    check_count,
    check_has,
    check_ids,
    check_number,
    check_positive,
    check_rng,
    check_rows,
)


class DecodingState:
    """Where a batch of decodings stands: what the blocks keep, and how many tokens they have read.

    caches is a list of anything with ``select``. last (B,) are the ids that step reads first.
    """

    def __init__(self, caches: list[Any], last: Array, length: int = 0):
        self.caches, self.last, self.length = caches, last, length

    def select(self, rows: Array) -> None:
        """Keep these rows, in this order; a row may appear several times (beam search)."""
        rows = check_ids("row", rows, len(self.last))
        self.last = self.last[rows]
        for cache in self.caches:
            cache.select(rows)


@dataclass(frozen=True)
class Rules:
    """What may be written, made from the options of greedy, sample and beam_search.

    end_ids: a row is finished by any of these (the model's eos_id if None). min_len: no end
    before so many tokens. repetition_penalty above 1 (1.0 if not given) lowers the chance of
    tokens that the row has written: positive logits are divided by it, others multiplied.
    never_ids: never written (the model's pad_id and bos_id if None).
    """

    end_ids: tuple[int, ...]
    never_ids: tuple[int, ...]
    pad_id: int
    min_len: int
    repetition_penalty: float

    def allowed(self, logits: Array, written: Array) -> Array:
        """Scores (B, V) without what may not be written, for rows that have written ids (B, L)."""
        n_vocab = logits.shape[-1]
        if max(*self.never_ids, *self.end_ids, -1, -1) >= n_vocab:
            raise ValueError(f"end_ids {self.end_ids} and never_ids {self.never_ids} must be "
                             f"inside the vocabulary of {n_vocab}.")
        scores = logits.copy()
        early = self.end_ids if written.shape[1] < self.min_len else ()
        for token in (*self.never_ids, *early):
            scores[:, token] = -np.inf
        best = scores.max(axis=-1)
        if not (-np.inf < best.min() and best.max() < np.inf):            # also true of NaN
            raise ValueError(f"token {written.shape[1] + 1} needs a finite score for at least one "
                             f"allowed token in each row, and no NaN: the model's logits, or these "
                             f"rules, leave none.")
        return scores

    def penalised(self, logits: Array, written: Array) -> Array:
        """Logits (B, V) with those of tokens that a row has already made less likely."""
        if self.repetition_penalty == 1 or not written.size:
            return logits
        old = np.take_along_axis(logits, written, axis=1)
        new = np.where(old > 0, old / self.repetition_penalty, old * self.repetition_penalty)
        changed = logits.copy()
        np.put_along_axis(changed, written, new.astype(logits.dtype), axis=1)
        return changed

    def ends(self, ids: Array) -> Array:
        """Which of these ids are an end."""
        ended = np.zeros(ids.shape, bool)
        for end_id in self.end_ids:
            ended |= ids == end_id
        return ended


def rules_of(
    model: Any,
    end_ids: Iterable[int] | None = None,
    never_ids: Iterable[int] | None = None,
    min_len: int = 0,
    repetition_penalty: float = 1.0,
) -> Rules:
    """The rules for a model, with what its config says where nothing is given."""
    check_has("model", model, ("start", "step"))
    config = getattr(model, "config", None)
    known = {name: getattr(config, name, None) for name in ("pad_id", "bos_id", "eos_id")}
    given = (known["eos_id"],) if end_ids is None else end_ids
    never = (known["pad_id"], known["bos_id"]) if never_ids is None else never_ids
    given, never = (check_rows(name, ids, "ids") for name, ids in
                    (("end_ids", given), ("never_ids", never)))
    ends = tuple(check_count("end_ids", i, 0) for i in given if i is not None)
    return Rules(
        ends, tuple(check_count("never_ids", i, 0) for i in never if i is not None),
        next(i for i in (known["pad_id"], *ends, 0) if i is not None),
        check_count("min_len", min_len, 0),
        check_positive("repetition_penalty", repetition_penalty),
    )


def greedy(model: Any, inputs: Array, max_len: int, **options: Any) -> Array:
    """At each step the most likely token, up to max_len of them, or until every row has ended.

    inputs is what model.start takes: source ids (B, S), or a prompt. Returns the ids that were
    written, (B, L), without inputs; a row that has ended goes on with padding. options: see
    ``Rules``. Built in chapter 9.
    """
    return _generate(model, inputs, max_len, lambda scores: scores.argmax(axis=-1), options)


def sample(
    model: Any,
    inputs: Array,
    max_len: int,
    rng: Rng,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    **options: Any,
) -> Array:
    """At each step a random token, by the model's probabilities; returns ids like greedy.

    temperature below 1 sharpens them, above 1 flattens. top_k keeps the k likeliest tokens,
    top_p the fewest that together hold a chance of p. options: see ``Rules``.
    Built in chapter 10.
    """
    check_rng(rng)
    check_positive("temperature", temperature)
    if top_k is not None:
        check_count("top_k", top_k)
    check_number("top_p", top_p, "above 0 and at most 1", lambda p: 0 < p <= 1)

    def choose(scores: Array) -> Array:
        below = scores.astype(np.float64) - scores.max(axis=-1, keepdims=True)
        p, _ = softmax(below / temperature)               # nothing above 0: no overflow
        p = keep_likeliest(p, top_k, top_p)
        marks = p.cumsum(axis=-1)
        draws = rng.random((len(p), 1)) * marks[:, -1:]
        return (draws >= marks).sum(axis=-1)              # the first mark above the draw

    return _generate(model, inputs, max_len, choose, options)


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


def _generate(
    model: Any, inputs: Array, max_len: int, choose: Callable[[Array], Array],
    options: dict[str, Any],
) -> Array:
    """One token at a time for all rows; a row that has ended is filled with padding."""
    rules, max_len = rules_of(model, **options), check_count("max_len", max_len)
    state = _begin(model, inputs, max_len)
    last = state.last
    ended = np.zeros(len(last), bool)
    written = np.full((len(last), max_len), rules.pad_id)
    for n in range(max_len):
        logits = rules.penalised(_step(model, last, state, ended), written[:, :n])
        scores = rules.allowed(logits, written[:, :n])                    # (B, V)
        last = np.where(ended, rules.pad_id, choose(scores))
        written[:, n] = last
        ended |= rules.ends(last)
        if ended.all():
            return written[:, :n + 1]
    return written


def _begin(model: Any, inputs: Array, max_len: int) -> Any:
    """The model's state before the first token; refuses inputs without rows."""
    state = model.start(inputs, max_len)
    if not len(state.last):
        raise ValueError("There must be at least one row to write, got none.")
    return state


def _step(model: Any, last: Array, state: Any, over: Array) -> Array:
    """The model's logits for one more token; those of rows that are over count for nothing."""
    logits = model.step(last, state)
    return np.where(over[:, None], logits.dtype.type(0), logits) if over.any() else logits


def beam_search(
    model: Any,
    inputs: Array,
    max_len: int,
    width: int = 4,
    length_penalty: float = 0.6,
    n_best: int | None = None,
    **options: Any,
) -> Array:
    """Keeps the width best beginnings of each row, and returns the best answer of each.

    A beginning's score is its log-probability over ((5 + length) / 6) ** length_penalty. An
    answer that has ended is better than one that has not. width 1 is greedy. n_best asks for the
    n best answers of each row, best first: (B, n, L), padding alone where there are no more.
    options: see ``Rules``.
    Built in chapter 10.
    """
    width = check_count("width", width)
    n = check_count("n_best", 1 if n_best is None else n_best)
    if n > width:
        raise ValueError(f"n_best must be at most width={width}, got {n}.")
    check_number("length_penalty", length_penalty, "from -100 to 100", lambda p: -100 <= p <= 100)
    rules, max_len = rules_of(model, **options), check_count("max_len", max_len)
    state = _begin(model, inputs, max_len)
    B = len(state.last)
    state.select(np.repeat(np.arange(B), width))          # each source, width times
    beams, last = Beams(B, width, length_penalty), state.last
    for _ in range(max_len):
        written = beams.ids.reshape(B * width, -1)
        logits = _step(model, last, state, beams.over())
        logp = _log_probs(rules.penalised(logits, written))
        rows = beams.extend(rules.allowed(logp, written), rules)
        last = beams.ids[..., -1].ravel()
        if beams.over().all():
            break
        state.select(rows)
    best = beams.best(n)
    return best[:, 0] if n_best is None else best


class Beams:
    """The width best beginnings of each of B rows, best first."""

    def __init__(self, B: int, width: int, length_penalty: float):
        self.length_penalty = length_penalty
        self.ids = np.zeros((B, width, 0), int)
        self.logp = np.full((B, width), -np.inf)
        self.logp[:, 0] = 0.0                             # at first all are the same beginning
        self.length = np.zeros((B, width), int)
        self.ended = np.zeros((B, width), bool)
        self.answers, self.answer_rank = self.ids, np.full((B, width), -np.inf)

    def extend(self, logp: Array, rules: Rules) -> Array:
        """Go on by one token; logp is (B * width, V). Returns which rows the new ones continue."""
        B, width, _ = self.ids.shape
        logp = _freeze(logp.reshape(B, width, -1), self.ended, rules.pad_id)
        total = self.logp[..., None] + logp                               # (B, width, V)
        length = self.length + ~self.ended
        rank = self.rank(total, length[..., None]).reshape(B, -1)
        best = np.argsort(-rank, axis=-1, kind="stable")[:, :width]
        beam, token = np.divmod(best, total.shape[-1])                    # each (B, width)
        row = np.arange(B)[:, None]
        self.ids = np.concatenate([self.ids[row, beam], token[..., None]], axis=-1)
        self.logp = total[row, beam, token]
        self.length = length[row, beam]
        before, self.ended = self.ended[row, beam], self.ended[row, beam] | rules.ends(token)
        self._remember(self.ended & ~before, rules.pad_id)
        return (row * width + beam).ravel()

    def _remember(self, new: Array, pad_id: int) -> None:
        """Keep the best answers that have ended, also when longer beginnings crowd them out."""
        old = np.pad(self.answers, ((0, 0), (0, 0), (0, 1)), constant_values=pad_id)
        rank = np.where(new, self.rank(self.logp, self.length), -np.inf)
        ids, rank = np.concatenate([old, self.ids], 1), np.concatenate([self.answer_rank, rank], 1)
        best = np.argsort(-rank, axis=-1, kind="stable")[:, :new.shape[1]]
        self.answers = np.take_along_axis(ids, best[..., None], axis=1)
        self.answer_rank = np.take_along_axis(rank, best, axis=1)

    def over(self) -> Array:
        """Which beginnings (B * width,) have ended, or have no chance."""
        return (self.ended | (self.logp == -np.inf)).ravel()

    def rank(self, logp: Array, length: Array) -> Array:
        return logp / ((5 + length) / 6) ** self.length_penalty

    def best(self, n: int) -> Array:
        """The n best of each row, (B, n, L): answers that have ended, then unfinished ones."""
        unfinished = np.where(self.ended, -np.inf, self.rank(self.logp, self.length))
        ids = np.concatenate([self.answers, self.ids], axis=1)
        rank = np.concatenate([self.answer_rank, unfinished], axis=1)
        is_answer = np.arange(ids.shape[1]) < self.answers.shape[1]
        first = is_answer & (rank > -np.inf)
        order = np.lexsort((-rank, ~first))[:, :n]
        return np.take_along_axis(ids, order[..., None], axis=1)


def _freeze(logp: Array, ended: Array, pad_id: int) -> Array:
    """A beginning that has ended goes on with padding, for free, and with nothing else."""
    only_padding = np.where(np.arange(logp.shape[-1]) == pad_id, 0.0, -np.inf)
    return np.where(ended[..., None], only_padding, logp)


def _log_probs(logits: Array) -> Array:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def log_probability(model: Any, src: Array, ids: Array) -> Array:
    """log p(ids | src) for each row of what an encoder-decoder wrote, (B,): over its tokens.

    The logits are model(src, tgt); that it has encode and decode tells it from other models.
    """
    check_has("model", model, ("encode", "decode"))
    c = model.config
    ids = check_ids("target", ids, c.n_tgt_vocab)
    if ids.ndim != 2:
        raise ValueError(f"ids must be (batch, length), got shape {ids.shape}.")
    tgt = np.concatenate([np.full((len(ids), 1), c.bos_id), ids], axis=-1)
    logp = _log_probs(model(src, tgt[:, :-1]))     # (B, L, V)
    chosen = np.take_along_axis(logp, tgt[:, 1:, None], axis=-1)[..., 0]
    return np.where(ids == c.pad_id, 0.0, chosen).sum(axis=-1)
