"""What a pair of forms is made of."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.sizes import SIZES

Array = np.ndarray
Run = Callable[[], Sequence[Array | None] | None]
SIZE = SIZES["SMALL"]
ROWS = SIZE.batch * SIZE.n_tgt                 # of a batch, its tokens in one axis


class Form(NamedTuple):
    """Two ways to compute the same arrays: what each is called, and the ways."""

    old: str
    new: str
    before: Run
    after: Run


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def normal(*shape: int, seed: int = 0) -> Array:
    return rng(seed).standard_normal(shape, dtype=np.float32)
