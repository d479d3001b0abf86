"""Mini-batches of id arrays, in a random order that can be resumed. Chapter 10."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from npt_lib.module import Array, Rng
from npt_lib.require import as_ids

Batch = tuple[Array, Array]


class Batches:
    """Endless mini-batches (src, tgt), every row once before any row twice.

    src (N, S) and tgt (N, L) are padded with pad_id at the end; each batch is cut to its
    longest row. A new random order is drawn from rng for each pass. Built in chapter 10.
    by_length puts rows of about one length together, the batches in random order: less padding.
    """

    def __init__(
        self, src: Array, tgt: Array, batch_size: int, rng: Rng, pad_id: int = 0,
        by_length: bool = False,
    ):
        self.src, self.tgt = as_ids("source", src), as_ids("target", tgt)
        check_pairs(self.src, self.tgt)
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
        self.batch_size, self.rng, self.pad_id = min(batch_size, len(self.src)), rng, pad_id
        self.order, self.by_length = np.zeros(0, int), by_length

    def __iter__(self) -> "Batches":
        return self

    def __next__(self) -> Batch:
        while len(self.order) < self.batch_size:      # what is left of a pass opens the next
            self.order = np.concatenate([self.order, self._new_pass()])
        rows, self.order = self.order[: self.batch_size], self.order[self.batch_size :]
        return trim(self.src[rows], self.pad_id), trim(self.tgt[rows], self.pad_id, least=2)

    def _new_pass(self) -> Array:
        """Every row once, in random order, or in groups of about one length."""
        rows = self.rng.permutation(len(self.src))
        if not self.by_length:
            return rows
        n = self.batch_size
        first, rows = np.split(rows, [-len(self.order) % n])  # with what the last pass has left
        lengths = np.sum(self.src[rows] != self.pad_id, axis=1)
        lengths += np.sum(self.tgt[rows] != self.pad_id, axis=1)
        rows = rows[np.argsort(lengths, kind="stable")]       # of one length: still at random
        groups, rest = np.split(rows, [len(rows) // n * n])
        return np.concatenate([first, self.rng.permutation(groups.reshape(-1, n)).ravel(), rest])

    def state_dict(self) -> dict[str, Array]:
        return {"order": self.order.copy(), "n_rows": np.array(len(self.src)),
                "rng": np.array(rng_state(self.rng))}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Go on where the batches of the state stood; they must have had as many rows."""
        got = int(state["n_rows"]) if "n_rows" in state else None
        if got != len(self.src):
            raise ValueError(f"The state's batches must have {len(self.src)} rows, got {got}.")
        set_rng_state(self.rng, str(state["rng"]))
        self.order = state["order"].copy()


def trim(ids: Array, pad_id: int = 0, least: int = 1) -> Array:
    """Without the columns at the end that hold nothing but padding; at least so many stay."""
    used = np.flatnonzero((ids != pad_id).any(axis=0))
    return ids[:, : max(used[-1] + 1 if used.size else 0, least)]


def check_pairs(src: Array, tgt: Array) -> None:
    if src.ndim != 2 or tgt.ndim != 2 or len(src) != len(tgt) or not len(src):
        raise ValueError(f"src (N, S) and tgt (N, L) need the same N, at least 1, "
                         f"got {src.shape} and {tgt.shape}.")
    if tgt.shape[1] < 2:
        raise ValueError(f"tgt needs at least a start token and one more, got shape {tgt.shape}.")


def rng_state(rng: Rng) -> str:
    """A generator's state as text, for a checkpoint."""
    return json.dumps(rng.bit_generator.state, default=lambda array: array.tolist())


def set_rng_state(rng: Rng, text: str) -> None:
    state: Any = json.loads(text)
    own = rng.bit_generator.state["bit_generator"]
    if state["bit_generator"] != own:
        raise ValueError(f"The checkpoint's generator is {state['bit_generator']}, "
                         f"but the one passed is {own}.")
    rng.bit_generator.state = state
