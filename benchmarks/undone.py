"""A training step of SMALL with one fast form undone, and with all: benchmarks/undone.json.

    python -m benchmarks.undone

Each form is undone where it stands, in the library, and whole steps are timed, in turns.
"""

import json
import random
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import npt_lib as npt
from benchmarks import work
from benchmarks.contestants import CONTESTANTS, Contestant
from benchmarks.forms import OneByOne, once
from benchmarks.machine import Load, machine
from benchmarks.race import Process
from benchmarks.with_npt import Job, model_of
from benchmarks.work import Array
from npt_lib import dot_product_attention, feed_forward, layers

STORE = Path(__file__).parent / "undone.json"
SIZE = work.SIZES["SMALL"]
ROUNDS, STEPS = 9, 11
AS_IT_IS, ALL = "as it is", "all of these"
Run = Callable[[], Any]
Undo = Callable[[], AbstractContextManager]


# the forms of the chapters, in the library's place

def relu(h: Array) -> tuple[Array, Callable[[Array], Array]]:
    y = np.maximum(h, 0)
    return y, lambda dy: np.where(y > 0, dy, 0)


def softmax(x: Array, mask: Array | None = None) -> Array:
    if mask is not None:
        np.copyto(x, np.finfo(x.dtype).min, where=~mask)
    x -= x.max(axis=-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=-1, keepdims=True)
    return x


def layer_norm(self: npt.LayerNorm, x: Array) -> tuple[Array, Callable[[Array], Array]]:
    gain, bias = self.gain.value, self.bias.value
    std = np.sqrt(x.var(axis=-1, keepdims=True) + self.eps)
    n = (x - x.mean(axis=-1, keepdims=True)) / std

    def backward(dy: Array) -> Array:
        rows = tuple(range(dy.ndim - 1))
        self.gain.add_grad((dy * n).sum(axis=rows))
        self.bias.add_grad(dy.sum(axis=rows))
        dn = dy * gain
        mean, share = (a.mean(axis=-1, keepdims=True) for a in (dn, dn * n))
        return (dn - mean - n * share) / std

    return n * gain + bias, backward


def embedding(self: npt.Embedding, ids: Array) -> tuple[Array, Callable[[Array], None]]:
    table = self.table.value

    def backward(dy: Array) -> None:
        dtable = np.zeros_like(table)
        np.add.at(dtable, ids, dy)
        self.table.add_grad(dtable)

    return table[ids], backward


def column_sum(x: Array) -> Array:
    return x.sum(axis=0)


PATCHES: dict[str, Undo] = {
    "np.where for ReLU": partial(patch.dict, feed_forward.ACTIVATIONS, relu=relu),
    "softmax with its largest off": partial(
        patch.object, dot_product_attention, "softmax_in_place", softmax),
    "mean and var in layer norm": partial(patch.object, npt.LayerNorm, "forward", layer_norm),
    "np.add.at by rows": partial(patch.object, npt.Embedding, "forward", embedding),
    "dy.sum for biases": partial(patch.object, layers, "sum_rows", column_sum),
}
FLOAT64, ADAM = "float64", "Adam, one parameter at a time"
UNDONE = (AS_IT_IS, FLOAT64, *PATCHES, ADAM, ALL)


@contextmanager
def undone(names: tuple[str, ...]) -> Iterator[None]:
    with ExitStack() as stack:
        for name in names:
            if name in PATCHES:
                stack.enter_context(PATCHES[name]())
        yield


def step_with(name: str) -> tuple[tuple[str, ...], Run]:
    """What is undone, and a step that is to run while it is."""
    names = tuple(UNDONE[1:-1]) if name == ALL else (name,)
    model = model_of(SIZE).astype(np.float64 if FLOAT64 in names else np.float32)
    adam: Any = (OneByOne(model.parameters()) if ADAM in names
                 else npt.Adam(model.parameters(), work.LR, work.BETAS, work.EPS))
    data = cycle(work.batches(SIZE))
    return names, lambda: npt.train_step(model, adam, next(data), None,
                                         label_smoothing=work.SMOOTHING)


def steps(names: tuple[str, ...], keeps: bool) -> Job:
    """A round of all: the first three losses of each, then the seconds of a step of each."""
    if keeps:
        np.empty(31 << 20, np.uint8)
    made = {name: step_with(name) for name in names}

    def losses(name: str) -> list[float]:
        parts, run = made[name]
        with undone(parts):
            return [run() for _ in range(3)]

    found = {name: losses(name) for name in names}
    for name in names:
        np.testing.assert_allclose(found[name], found[names[0]], rtol=1e-3, err_msg=name)

    order = random.Random(0)

    def seconds(name: str) -> float:
        parts, run = made[name]
        with undone(parts):
            run()                                   # one that is not timed
            return once(run, STEPS)

    def one_round() -> dict[str, float]:
        return {name: seconds(name) for name in order.sample(names, len(names))}

    return lambda n: [one_round() for _ in range(n)]


def contestant(keeps: bool) -> Contestant:
    return Contestant("undone", f"memory kept: {keeps}", "undone", "numpy")


def main() -> None:
    load, rounds = Load(), []
    with (Process(contestant(True), "steps", names=UNDONE, keeps=True) as kept,
          Process(contestant(False), "steps", names=(AS_IT_IS,), keeps=False) as bare,
          Process(contestant(False), "steps", names=(ALL,), keeps=False) as old):
        for _ in range(ROUNDS):           # each without the line alone: what it frees teaches glibc
            rounds.append({"kept": kept.run(1)["values"][0],
                           "bare": bare.run(1)["values"][0] | old.run(1)["values"][0]})
    found = {kind: {name: [float(f"{r[kind][name]:.6g}") for r in rounds] for name in names}
             for kind, names in (("kept", UNDONE), ("bare", (AS_IT_IS, ALL)))}
    here = machine([CONTESTANTS["npt"]]) | load.by_others()
    STORE.write_text(json.dumps({"machine": here, "seconds": found}, indent=1) + "\n", "utf8")
    for kind, by_name in found.items():
        for name, times in by_name.items():
            ratio = statistics.median(a / b for a, b in zip(
                times, found["kept"][AS_IT_IS], strict=True))
            print(f"{kind} {name:32} {1e3 * statistics.median(times):6.1f} ms  {ratio:.2f}",
                  file=sys.stderr)


if __name__ == "__main__":
    main()
