"""Fast forms beside their textbook forms, in turn in one process.

A function makes each pair: two ways to compute the same arrays, on arrays as those of SMALL where
nothing else is said. Some pairs are no choice between two forms: they show what a page claims.
"""

import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

import npt_lib as npt
from benchmarks import work
from benchmarks.race import SETTLE
from benchmarks.with_npt import Job, model_of
from benchmarks.work import Array
from npt_lib.layers import softmax_in_place
from npt_lib.norm import centred, row_mean
from npt_lib.optim import STRETCH

SIZE = work.SIZES["SMALL"]
D, F, ROWS = SIZE.d_model, SIZE.d_ff, SIZE.batch * SIZE.n_tgt
N_ADAM = 8_000_000              # numbers that Adam moves: their arrays fit no cache
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


def sorted_signs() -> Pair:
    """The same work on the same numbers, so that nearly every guess of the processor is right."""
    y, dy = np.maximum(normal(ROWS, F), 0), 2 - normal(ROWS, F)
    order = np.argsort(y, axis=None)
    in_order, dy_so = (x.reshape(-1)[order].reshape(ROWS, F) for x in (y, dy))

    def at_random() -> None:
        np.where(y > 0, dy, 0)

    def one_after_the_other() -> None:
        np.where(in_order > 0, dy_so, 0)

    return at_random, one_after_the_other


class DividedAdam(npt.Adam):
    """Both running means are divided by what they miss, number by number."""

    def _change(self, grad: Array, mean: Array, square: Array, rate: float) -> Array:
        b1, b2 = self.betas
        change = (1 - b1) * grad
        mean *= b1
        mean += change
        np.multiply(grad, grad, out=change)
        change *= 1 - b2
        square *= b2
        square += change
        np.divide(square, 1 - b2**self.n_steps, out=change)
        np.sqrt(change, out=change)
        change += self.eps
        np.divide(mean / (1 - b1**self.n_steps), change, out=change)
        change *= rate
        return change


class AdamInPlace(npt.Adam):
    """Large parameters are moved where they are."""

    def _move(self, stretch: tuple[slice, list[npt.Parameter]], rate: float) -> None:
        place, (p,) = stretch
        value, grad = p.value.reshape(-1), p.grad.reshape(-1)        # type: ignore[union-attr]
        mean, square = self.mean[place], self.square[place]
        for i in range(0, len(value), STRETCH):
            piece = slice(i, i + STRETCH)
            value[piece] -= self._change(grad[piece], mean[piece], square[piece], rate)


def adams(one: type[npt.Adam], other: type[npt.Adam]) -> Pair:
    """A step of each on N_ADAM numbers of its own."""
    def stepping(kind: type[npt.Adam]) -> Run:
        p = npt.Parameter(normal(N_ADAM))
        p.grad = normal(N_ADAM)[::-1].copy()
        adam = kind([p])

        def step() -> list[Array]:
            adam.step()
            return [p.value]

        return step

    return stepping(one), stepping(other)


def fused_norm(size: work.Size) -> Pair:
    """A layer norm's way back to x; numexpr makes one pass where NumPy makes several."""
    import numexpr

    rows, D = size.batch * size.n_tgt, size.d_model
    layer = npt.LayerNorm(D)
    x, dy = normal(rows, D), 2 - normal(rows, D)
    n = centred(x)
    std = np.sqrt(row_mean(n, n) + layer.eps)
    n /= std
    gain = layer.gain.value

    def library() -> list[Array]:
        dn = dy * gain
        dx = dn - row_mean(dn)
        dx -= n * row_mean(dn, n)
        dx /= std
        return [dx]

    def fused() -> list[Array]:
        dn = numexpr.evaluate("dy * gain", {"dy": dy, "gain": gain})
        names = {"dn": dn, "n": n, "std": std, "mean": row_mean(dn), "share": row_mean(dn, n)}
        return [numexpr.evaluate("(dn - mean - n * share) / std", names)]

    return library, fused


def one_sentence() -> Pair:
    """A step of TINY on its batch, and on the first sentence of it."""
    size = work.SIZES["TINY"]
    batch = work.batches(size)[0]

    def stepping(*arrays: Array) -> Run:
        model = model_of(size)
        adam = npt.Adam(model.parameters(), work.LR)

        def step() -> None:
            npt.train_step(model, adam, arrays, None, label_smoothing=work.SMOOTHING)

        return step

    return stepping(*batch), stepping(*(x[:1] for x in batch))


FORMS: dict[str, tuple[str, str, Callable[[], Pair]]] = {
    "precision of Linear": ("float64", "float32", precision),
    "softmax of short rows": ("the largest of each row, np.sum", "npt_lib's", short_softmax),
    "bias gradient": ("dy.sum(axis=0)", "ones @ dy", bias_gradient),
    "ReLU backward": ("np.where(y > 0, dy, 0)", "dy * (y > 0)", relu_backward),
    "embedding gradient, 8,000 tokens": ("np.add.at by rows", "npt_lib.Embedding",
                                         embedding_gradient),
    "dropout": ("float64 uniforms", "npt_lib.Dropout", dropout),
    "np.where": ("signs at random", "signs in order", sorted_signs),
    "Adam, its bias": ("both means divided", "one number", partial(adams, DividedAdam, npt.Adam)),
    "Adam, in place": ("npt_lib.Adam", "values changed in place",
                       partial(adams, npt.Adam, AdamInPlace)),
    "a step of TINY": ("32 sentences", "one", one_sentence),
}
if find_spec("numexpr"):
    FORMS |= {f"layer norm's way back, {name}": ("NumPy", "numexpr",
                                                 partial(fused_norm, work.SIZES[name]))
              for name in ("SMALL", "MEDIUM")}


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
