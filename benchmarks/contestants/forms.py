"""Fast forms beside their textbook forms, in turn in one process."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import npt_lib as npt
from benchmarks.contestants import Job, Kinds
from benchmarks.contestants.forms_layers import LAYERS
from benchmarks.contestants.forms_model import MODEL
from benchmarks.contestants.forms_parts import Form
from benchmarks.contestants.npt import about
from benchmarks.race import SETTLE

__all__ = ["FORMS", "KINDS", "about"]

FORMS: dict[str, Callable[[], Form]] = {**LAYERS, **MODEL}
TURN = 0.03                     # seconds that a turn should take


def comparing(name: str) -> Job:
    """n rounds of both forms; their names, and the seconds of one repetition in each round.

    Freed memory is kept, as while training: what is compared is the work itself.
    """
    npt.keep_memory()
    form = FORMS[name]()
    same(name, form.before(), form.after())
    times = max(1, round(TURN / max(once(form.before), once(form.after))))

    def job(n: int) -> list[Any]:
        seconds = [(settled(form.before, times), settled(form.after, times)) for _ in range(n)]
        before, after = zip(*seconds, strict=True)
        return [form.old, form.new, before, after]

    return job


def settled(run: Callable[[], Any], times: int) -> float:
    """The same after a pause, in which the threads of what ran before have gone to sleep."""
    time.sleep(SETTLE)
    return once(run, times)


def once(run: Callable[[], Any], times: int = 1) -> float:
    """Seconds for one repetition."""
    start = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - start) / times


def same(name: str, before: Any, after: Any) -> None:
    """Both forms must compute the same; None means that they cannot (random numbers, a state)."""
    if before is None:
        return
    check = partial(np.testing.assert_allclose, rtol=2e-3, atol=2e-4, err_msg=name)
    for a, b in zip(before, after, strict=True):
        check(b, a)


KINDS: Kinds = {"compare": comparing}
