"""Data parallelism: the parts of a batch on a thread each. Told in "Making it fast"."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from threading import Lock
from typing import Any, cast

import numpy as np

from npt_lib.module import Array, Backward, Module, Parameter, Rng
from npt_lib.threads import all_of_blas, each
from npt_lib.transformer import Transformer

LEAST = 1 << 15            # numbers (tokens times d_model) for which a part of its own pays
NOTHING = np.empty(0, np.float32)
MOST_PARAMETERS = 32       # for each of those numbers: beyond, adding up the gradients costs more


class Replicas(Module):
    """A model and its copies, each with a part of the batch: they share values, own gradients.

    forward takes and returns what the model's does; ``each`` computes the parts, at most n, and
    fewer for a small batch. Dropout draws what it would draw for the whole batch.
    Backward: dlogits in; adds the copies' gradients to the model's: the batch's gradient, up to
    the order of a sum.
    """

    def __init__(self, model: Transformer, n: int, least: int = LEAST):
        if n < 1:
            raise ValueError(f"Replicas needs n of at least 1, got {n}.")
        left_out: dict[int, Any] = {}
        for p in model.parameters().values():
            left_out |= {id(p.value): NOTHING, id(p.grad): None}
        self.model, self.config, self.least = model, model.config, least
        self.size = model.n_parameters()
        self.replicas = [model] + [copy.deepcopy(model, dict(left_out)) for _ in range(n - 1)]
        self.copies = list(zip(*(r.parameters().values() for r in self.replicas), strict=True))

    def parameters(self) -> dict[str, Parameter]:
        """The model's own: the copies follow it."""
        return self.model.parameters()

    def forward(self, src: Array, tgt: Array, rng: Rng | None = None) -> tuple[Array, Backward]:
        n = self._n_parts(src, tgt)
        if n == 0:
            return self._whole(src, tgt, rng)
        if n == 1:
            return self.model.forward(src, tgt, rng)
        cuts = [len(src) * i // n for i in range(n + 1)]
        parts = [slice(start, stop) for start, stop in pairwise(cuts)]
        draws = Draws(rng, len(src)) if rng else None

        def part_forward(model: Transformer, rows: slice) -> tuple[Array, Backward]:
            noise = cast(Rng, Part(draws, rows)) if draws else None
            return model.forward(src[rows], tgt[rows], noise)

        with self._shared_values():
            results = each(part_forward, self.replicas[:n], parts)
        backwards = [part_backward for _, part_backward in results]

        def backward(dlogits: Array) -> None:
            each(lambda undo, rows: undo(dlogits[rows]), backwards, parts)
            each(add_up, self.copies)

        return np.concatenate([logits for logits, _ in results]), backward

    def _whole(self, src: Array, tgt: Array, rng: Rng | None) -> tuple[Array, Backward]:
        """The batch as it is, its products on all the threads of BLAS."""
        with all_of_blas():
            logits, model_backward = self.model.forward(src, tgt, rng)

        def backward(dlogits: Array) -> None:
            with all_of_blas():
                model_backward(dlogits)

        return logits, backward

    @contextmanager
    def _shared_values(self) -> Iterator[None]:
        """The copies have the model's values for a forward pass, and keep none of them."""
        try:
            for p, *others in self.copies:
                for other in others:
                    other.value, other.grad = p.value, None
            yield
        finally:
            for _, *others in self.copies:
                for other in others:
                    other.value = NOTHING

    def _n_parts(self, src: Array, tgt: Array) -> int:
        """As many as pay: one for a small batch, none where it is small against the model."""
        numbers = (np.size(src) + np.size(tgt)) * self.config.d_model
        if numbers * MOST_PARAMETERS < self.size:
            return 0
        return max(1, min(len(self.replicas), len(src), numbers // self.least))


def add_up(copies: tuple[Parameter, ...]) -> None:
    """Add the gradients of a parameter's copies to the first of them, in an array of a copy's."""
    p, *others = copies
    for other in others:
        if other.grad is not None:
            p.grad = other.grad if p.grad is None else np.add(p.grad, other.grad, out=other.grad)
            other.grad = None


class Draws:
    """Random bytes for a whole batch, drawn by the part that first needs them."""

    def __init__(self, rng: Rng, n_rows: int):
        self.rng, self.n_rows, self.lock = rng, n_rows, Lock()
        self.drawn: list[bytes] = []

    def get(self, i: int, n_bytes: int) -> bytes:
        with self.lock:
            if i == len(self.drawn):
                self.drawn.append(self.rng.bytes(n_bytes * self.n_rows))
            return self.drawn[i]


class Part:
    """One part's view of the draws: what Dropout needs of a generator."""

    def __init__(self, draws: Draws, rows: slice):
        self.draws, self.rows, self.n_drawn = draws, rows, 0

    def bytes(self, n: int) -> Any:
        per_row = n // (self.rows.stop - self.rows.start)
        whole = self.draws.get(self.n_drawn, per_row)
        self.n_drawn += 1
        return memoryview(whole)[self.rows.start * per_row:self.rows.stop * per_row]
