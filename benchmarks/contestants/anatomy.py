"""Where the time of one training step of npt_lib goes, by kind of work and by part."""

import cProfile
import pstats
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from itertools import repeat
from pathlib import PurePath
from typing import Any

import numpy as np

import npt_lib as npt
from benchmarks.contestants import Job, Kinds
from benchmarks.contestants.forms import once
from benchmarks.contestants.npt import about, model_of
from benchmarks.flops import Product, training_products
from benchmarks.sizes import LR, SMOOTHING, Size, batches

__all__ = ["KINDS", "about"]

PARTS = {"linear layers": ("layers", "feed_forward", "multihead"), "attention": ("attention",),
         "layer norm": ("norm",), "embeddings, logits, loss": ("embedding", "loss"),
         "Adam and clipping": ("optim", "flat")}
SHARED = ("softmax_in_place", "exp_in_place", "softmax_gradient", "sum_rows", "row_sum", "filled",
          "limits")             # helpers of several parts: their time is the caller's
REST = "all else"


def stepper(size: Size) -> Callable[[], Any]:
    """One training step, on one thread of Python."""
    model = model_of(size)
    optimizer, data = npt.Adam(model.parameters(), LR), repeat(batches(size)[0])
    return lambda: npt.train(model, optimizer, data, None, 1, label_smoothing=SMOOTHING,
                             n_threads=1)


def seconds(run: Callable[[], Any], times: int) -> float:
    """The least of so many runs, after one that does not count: what nothing else disturbed."""
    run()
    return min(once(run) for _ in range(times))


def kinds(size: Size) -> Job:
    """Seconds of matrix products, of Python, and of what is left: other work on arrays.

    The products are done alone; Python is a step of the same blocks at the least sizes there
    are, where the numbers take no time and the calls take all.
    """
    least = replace(size, batch=1, n_src=2, n_tgt=2, d_model=2 * size.n_heads, d_ff=1, n_vocab=4)

    def job(n: int) -> list[tuple[str, float]]:
        whole, calls = seconds(stepper(size), n), seconds(stepper(least), n)
        products = sum(count * alone(product, n)
                       for product, count in Counter(training_products(size)).items())
        rest = max(0.0, whole - products - calls)
        return [("matrix products", products), ("other work on arrays", rest),
                ("Python and calls", calls)]

    return job


def alone(product: Product, times: int) -> float:
    """Seconds of one product, into an array that is there already."""
    stack, n, k, m = product
    rng = np.random.default_rng(0)
    a = rng.standard_normal((stack, n, k), dtype=np.float32)
    b = rng.standard_normal((stack, k, m), dtype=np.float32)
    out = a @ b
    return seconds(lambda: np.matmul(a, b, out=out), times)


def parts(size: Size) -> Job:
    """Seconds in the code of each part of the library, with all that it calls outside of it."""
    step = stepper(size)

    def job(n: int) -> list[tuple[str, float]]:
        step()
        profile = cProfile.Profile()
        for _ in range(n):
            profile.runcall(step)
        return [(part, spent / n) for part, spent in by_part(pstats.Stats(profile)).items()]

    return job


def by_part(stats: pstats.Stats) -> dict[str, float]:
    """A function's own time goes to its part; what is no part's, to the part that called it."""
    spent: dict[str, float] = defaultdict(float, dict.fromkeys([*PARTS, REST], 0.0))
    rows: dict[tuple, tuple] = vars(stats)["stats"]
    for (file, _, name), (_, _, own, _, callers) in rows.items():
        if part := part_of(file, name):
            spent[part] += own
            continue
        for (file, _, name), (_, _, _, whole) in callers.items():
            if part := part_of(file, name):
                spent[part] += whole
    return dict(spent)


def part_of(file: str, function: str) -> str | None:
    """The part that a function of the library belongs to, None for any other and for helpers."""
    path = PurePath(file)
    if path.parent.name != "npt_lib" or function in SHARED:
        return None
    return next((part for part, stems in PARTS.items() if path.stem in stems), REST)


KINDS: Kinds = {"kinds": kinds, "parts": parts}
