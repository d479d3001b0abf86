"""Data parallelism: the parts of a batch on a thread each. Told in "Making it fast".

Needs threadpoolctl: pip install "npt-lib[parallel]". For training, ``train(n_threads=2)`` does all.
"""

import copy
from itertools import pairwise
from typing import Any

import numpy as np

from npt_lib.module import Array, Backward, Module, Parameter, Rng
from npt_lib.parallel.threads import each
from npt_lib.require import described


class DataParallel(Module):
    """A model and n copies of it: they look at its values, and collect gradients of their own.

    loss cuts a batch, a tuple of arrays, in n parts of rows, and computes them with ``each``.
    A part draws from a generator of its own, seeded by the one that is passed.
    Backward: adds to the model's gradients those of the parts, weighted by their targets.
    """

    def __init__(self, model: Any, n: int):
        values = [p.value for p in model.parameters().values()]
        self.model = model
        self.copies = [copy.deepcopy(model, {id(x): x for x in values}) for _ in range(n)]
        self.rows = list(zip(*(m.parameters().values() for m in [model, *self.copies]),
                             strict=True))

    def parameters(self) -> dict[str, Parameter]:
        """The model's own: the copies follow it."""
        return self.model.parameters()

    def n_targets(self, batch: Any) -> int:
        """The model's own."""
        return self.model.n_targets(batch)

    def loss(self, batch: Any, rng: Rng | None = None, **options: Any) -> tuple[float, Backward]:
        """The model's loss of the batch, its parts computed side by side."""
        counts, parts = self._parts(batch)
        shares = [count / max(sum(counts), 1) for count in counts]
        seeds = [None] * len(parts) if rng is None else rng.integers(1 << 63, size=len(parts))
        for p, *others in self.rows:
            for other in others:
                other.value, other.grad = p.value, None

        def part_loss(model: Any, part: Any, seed: Any) -> tuple[float, Backward]:
            return model.loss(part, None if seed is None else np.random.default_rng(seed),
                              **options)

        losses, backwards = zip(*each(part_loss, self.copies, parts, seeds))

        def backward(dloss: float = 1.0) -> None:
            each(lambda part_backward: part_backward(), backwards)
            each(add_shares, self.rows, [[dloss * share for share in shares]] * len(self.rows))

        return float(np.dot(shares, losses)), backward

    def _parts(self, batch: Any) -> tuple[list[int], list[tuple[Array, ...]]]:
        """Parts of about as many rows, and their targets; none without, if any has some."""
        cuts = cut_rows(check_batch(batch, "Several threads"), len(self.copies))
        parts = [tuple(x[cut] for x in batch) for cut in cuts if cut.stop > cut.start]
        counted = [(self.model.n_targets(part), part) for part in parts]
        counted = [pair for pair in counted if pair[0]] or counted[:1]
        return [n for n, _ in counted], [part for _, part in counted]


def check_batch(batch: Any, who: str) -> int:
    """How many rows the arrays of a batch have in common."""
    sizes = {len(x) for x in batch} if isinstance(batch, tuple) else set()
    if len(sizes) != 1:
        raise ValueError(f"{who} need batches that are tuples of arrays with one "
                         f"first axis, got {[described(x) for x in batch]}.")
    return sizes.pop()


def cut_rows(n_rows: int, n_parts: int) -> list[slice]:
    """About as many rows for each part, none twice; some may get none."""
    ends = [n_rows * i // n_parts for i in range(n_parts + 1)]
    return [slice(a, b) for a, b in pairwise(ends)]


def add_shares(row: tuple[Parameter, ...], shares: list[float]) -> None:
    """Add to a parameter the gradients of its copies, each times its share, in a new array."""
    p, *others = row
    found = [(other.grad, share) for other, share in zip(others, shares)
             if other.grad is not None]
    if found:
        total = found[0][0] * found[0][1]
        for grad, share in found[1:]:
            total += grad * share
        p.add_grad(total)
    for other in others:
        other.grad = None
