"""Fast forms beside their textbook forms, in turn in one process.

A function makes each pair: two ways to compute the same arrays, on arrays as those of SMALL.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import npt_lib as npt
from benchmarks import work
from benchmarks.race import SETTLE
from benchmarks.with_npt import Job
from benchmarks.work import Array
from npt_lib.layers import softmax_in_place

SIZE = work.SIZES["SMALL"]
D, F, ROWS = SIZE.d_model, SIZE.d_ff, SIZE.batch * SIZE.n_tgt
TURN = 0.03                     # seconds that a turn should take
Run = Callable[[], Any]
Pair = tuple[Run, Run]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def normal(*shape: int) -> Array:
    return rng().standard_normal(shape, dtype=np.float32)


def way_and_back(layer: npt.Module, x: Array, dy: Array) -> list[Any]:
    layer.zero_grad()
    y, backward = layer.forward(x)
    return [y, backward(dy), *(p.grad for p in layer.parameters().values())]


def precision() -> Pair:
    layer, x, dy = npt.Linear(D, F, rng()), normal(ROWS, D), normal(ROWS, F)
    double, x64, dy64 = (a.astype(np.float64) for a in (layer, x, dy))
    return lambda: way_and_back(double, x64, dy64), lambda: way_and_back(layer, x, dy)


def short_softmax() -> Pair:
    scores = normal(SIZE.batch, SIZE.n_heads, SIZE.n_tgt, SIZE.n_src)

    def textbook() -> list[Array]:
        w = scores - scores.max(axis=-1, keepdims=True)
        np.exp(w, out=w)
        w /= w.sum(axis=-1, keepdims=True)
        return [w]

    return textbook, lambda: [softmax_in_place(scores.copy())]


def bias_gradient() -> Pair:
    dy = normal(ROWS, F)
    return lambda: [dy.sum(axis=0)], lambda: [np.ones(ROWS, dy.dtype) @ dy]


def relu_backward() -> Pair:
    y, dy = np.maximum(normal(ROWS, F), 0), 2 - normal(ROWS, F)
    return lambda: [np.where(y > 0, dy, 0)], lambda: [dy * (y > 0)]


def embedding_gradient() -> Pair:
    layer, dy, ids = npt.Embedding(8000, D, rng()), normal(ROWS, D), rng().integers(8000, size=ROWS)
    _, backward = layer.forward(ids)

    def by_rows() -> list[Array]:
        dtable = np.zeros((8000, D), dy.dtype)
        np.add.at(dtable, ids, dy)
        return [dtable]

    def library() -> list[Array | None]:
        layer.zero_grad()
        backward(dy)
        return [layer.table.grad]

    return by_rows, library


def dropout() -> Pair:
    layer, x, chance = npt.Dropout(0.1), normal(ROWS, F), rng()

    def uniform() -> None:
        _ = x * ((chance.random(x.shape) >= layer.p) / (1 - layer.p)).astype(x.dtype)

    return uniform, lambda: layer.forward(x, chance)


FORMS: dict[str, tuple[str, str, Callable[[], Pair]]] = {
    "precision of Linear": ("float64", "float32", precision),
    "softmax of short rows": ("the largest of each row, np.sum", "npt_lib's", short_softmax),
    "bias gradient": ("dy.sum(axis=0)", "ones @ dy", bias_gradient),
    "ReLU backward": ("np.where(y > 0, dy, 0)", "dy * (y > 0)", relu_backward),
    "embedding gradient, 8,000 tokens": ("np.add.at by rows", "npt_lib.Embedding",
                                         embedding_gradient),
    "dropout": ("float64 uniforms", "npt_lib.Dropout", dropout),
}


def compare(names: tuple[str, ...] = tuple(FORMS)) -> Job:
    """n rounds of both forms of each name: the seconds of one repetition in each round."""
    npt.keep_memory()

    def rounds(name: str, n: int) -> dict[str, Any]:
        old, new, make = FORMS[name]
        before, after = make()
        same(name, before(), after())
        times = max(1, round(TURN / max(once(before), once(after))))
        turns = [(once(before, times), once(after, times)) for _ in range(n)]
        return {"name": name, "from": old, "to": new,
                "before": [a for a, _ in turns], "after": [b for _, b in turns]}

    return lambda n: [rounds(name, n) for name in names]


def once(run: Run, times: int = 1) -> float:
    """Seconds for one repetition, after a pause in which the threads of before fall asleep."""
    time.sleep(SETTLE)
    start = time.perf_counter()
    for _ in range(times):
        run()
    return (time.perf_counter() - start) / times


def same(name: str, before: Any, after: Any) -> None:
    """Both forms must compute the same; None means that they cannot (random numbers, training)."""
    if before is not None:
        for a, b in zip(before, after, strict=True):
            np.testing.assert_allclose(b, a, rtol=2e-3, atol=2e-4, err_msg=name)
