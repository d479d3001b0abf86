"""Fast forms beside their textbook forms, in turn in one process.

A function makes each pair: two ways to compute the same arrays, on arrays as those of SMALL where
nothing else is said. Some pairs are no choice between two forms: they show what a page claims.
"""

import math
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

import npt_lib as npt
from benchmarks import work
from benchmarks.race import SETTLE
from benchmarks.with_npt import Job, model_of, written
from benchmarks.work import Array
from npt_lib.dot_product_attention import attention_at_once
from npt_lib.layers import row_sum, softmax_in_place
from npt_lib.long_attention import attention_in_tiles
from npt_lib.norm import centred, row_mean
from npt_lib.optim import STRETCH, flat, set_values, stretches
from npt_lib.tasks import number_words

SIZE = work.SIZES["SMALL"]
D, F, ROWS = SIZE.d_model, SIZE.d_ff, SIZE.batch * SIZE.n_tgt
N_ADAM = 8_000_000              # numbers that Adam moves: their arrays fit no cache
N_BATCHES = 20                  # in a pass over numbers in words
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


def np_sum(x: Array) -> Array:
    return x.sum(axis=-1, keepdims=True)


def softmax_over_itself(scores: Array, total: Callable[[Array], Array] = np_sum) -> list[Array]:
    w = scores - scores.max(axis=-1, keepdims=True)
    np.exp(w, out=w)
    w /= total(w)
    return [w]


def large_softmax() -> Pair:
    scores = normal(8, SIZE.n_heads, 256, 256)

    def line_by_line() -> list[Array]:
        shifted = scores - scores.max(axis=-1, keepdims=True)
        e = np.exp(shifted)
        return [e / e.sum(axis=-1, keepdims=True)]

    return line_by_line, lambda: softmax_over_itself(scores)


def short_softmax() -> Pair:
    scores = normal(SIZE.batch, SIZE.n_heads, SIZE.n_tgt, SIZE.n_src)
    return lambda: softmax_over_itself(scores), lambda: [softmax_in_place(scores.copy())]


def softmax_step() -> Pair:
    """One of short_softmax's two changes: the shift that is left out, with the new sum in both."""
    scores = normal(SIZE.batch, SIZE.n_heads, SIZE.n_tgt, SIZE.n_src)
    return (lambda: softmax_over_itself(scores, row_sum),
            lambda: [softmax_in_place(scores.copy())])


def softmax_sum() -> Pair:
    """The other one: how it adds up, with the shift throughout."""
    scores = normal(SIZE.batch, SIZE.n_heads, SIZE.n_tgt, SIZE.n_src)
    return lambda: softmax_over_itself(scores), lambda: softmax_over_itself(scores, row_sum)


def bias_gradient() -> Pair:
    dy = normal(ROWS, F)
    return lambda: [dy.sum(axis=0)], lambda: [np.ones(ROWS, dy.dtype) @ dy]


def layer_norm() -> Pair:
    layer, x, dy = npt.LayerNorm(D), normal(ROWS, D), 2 - normal(ROWS, D)
    gain, bias = layer.gain.value, layer.bias.value

    def textbook() -> list[Array]:
        std = np.sqrt(x.var(axis=-1, keepdims=True) + layer.eps)
        n = (x - x.mean(axis=-1, keepdims=True)) / std
        dn = dy * gain
        dx = dn - dn.mean(axis=-1, keepdims=True) - n * (dn * n).mean(axis=-1, keepdims=True)
        return [n * gain + bias, dx / std, (dy * n).sum(axis=0), dy.sum(axis=0)]

    return textbook, lambda: way_and_back(layer, x, dy)


def norm_means() -> Pair:
    """A layer norm whose four means are NumPy's, or products: that alone is changed."""
    x, dy, eps = normal(ROWS, D), 2 - normal(ROWS, D), 1e-5
    gain, bias = 2 - normal(D), normal(D)

    def norm(mean: Callable[[Array], Array]) -> list[Array]:
        n = x - mean(x)
        std = np.sqrt(mean(n * n) + eps)
        n = n / std
        dn = dy * gain
        dx = (dn - mean(dn) - n * mean(dn * n)) / std
        return [n * gain + bias, dx, (dy * n).sum(axis=0), dy.sum(axis=0)]

    return lambda: norm(lambda a: a.mean(axis=-1, keepdims=True)), lambda: norm(row_mean)


def relu_backward() -> Pair:
    y, dy = np.maximum(normal(ROWS, F), 0), 2 - normal(ROWS, F)
    return lambda: [np.where(y > 0, dy, 0)], lambda: [dy * (y > 0)]


def embedding_gradient(n_vocab: int) -> Pair:
    layer, dy = npt.Embedding(n_vocab, D, rng()), normal(ROWS, D)
    ids = rng().integers(n_vocab, size=ROWS)
    _, backward = layer.forward(ids)

    def by_rows() -> list[Array]:
        dtable = np.zeros((n_vocab, D), dy.dtype)
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


def scale() -> Pair:
    """Queries and keys of 256 positions, heads of 32."""
    q, k = normal(8, 8, 256, 32), 2 - normal(8, 8, 32, 256)
    c = np.float32(1 / math.sqrt(32))
    return lambda: [(q @ k) * c], lambda: [(q * c) @ k]


def projections() -> Pair:
    x, W = normal(ROWS, D), 2 - normal(D, 3 * D)
    parts = [np.ascontiguousarray(part) for part in np.split(W, 3, axis=1)]
    return lambda: [x @ part for part in parts], lambda: np.split(x @ W, 3, axis=1)


def tiles(n: int) -> Pair:
    """Attention over n positions, there and back: one table of all weights, or tiles."""
    q, k, v, dy = work.attention_inputs(n)

    def by(attend: Callable[..., Any]) -> list[Array]:
        y, backward = attend(q, k, v)
        return [y, *backward(dy)]

    return lambda: by(attention_at_once), lambda: by(attention_in_tiles)


def small_parameters() -> dict[str, npt.Parameter]:
    """Those of SMALL, each with a gradient."""
    found = model_of(SIZE).parameters()
    for p in found.values():
        p.grad = 2 - normal(*p.shape)
    return found


class OneByOne:
    """Chapter 10's Adam: each parameter by itself."""

    def __init__(self, parameters: dict[str, npt.Parameter]):
        self.parameters, self.n_steps = parameters, 0
        self.mean, self.square = ({name: np.zeros_like(p.value) for name, p in parameters.items()}
                                  for _ in range(2))

    def step(self, lr: float | None = None) -> None:
        self.n_steps += 1
        b1, b2 = work.BETAS
        for name, p in self.parameters.items():
            grad: Any = p.grad
            self.mean[name] = b1 * self.mean[name] + (1 - b1) * grad
            self.square[name] = b2 * self.square[name] + (1 - b2) * grad**2
            mean = self.mean[name] / (1 - b1**self.n_steps)
            size = np.sqrt(self.square[name] / (1 - b2**self.n_steps))
            p.value = p.value - work.LR * mean / (size + work.EPS)


def stepping(adam: OneByOne | npt.Adam) -> Run:
    """A step of it; returns the values."""
    def step() -> list[Array]:
        adam.step()
        return [p.value for p in adam.parameters.values()]

    return step


def textbook_adam() -> Run:
    return stepping(OneByOne(small_parameters()))


def library_adam() -> Run:
    return stepping(npt.Adam(small_parameters(), work.LR, work.BETAS, work.EPS))


def joined_adam() -> Run:
    """The same formulas, for the rows that npt.Adam makes of neighbours."""
    ps, n_steps = [*small_parameters().values()], 0
    rows = [some for _, some in stretches(ps)]
    means, squares = ([np.zeros_like(flat(p.value for p in some)) for some in rows]
                      for _ in range(2))
    b1, b2 = work.BETAS

    def step() -> list[Array]:
        nonlocal n_steps
        n_steps += 1
        for i, some in enumerate(rows):
            grad = flat(p.grad for p in some)           # type: ignore[misc]
            means[i] = b1 * means[i] + (1 - b1) * grad
            squares[i] = b2 * squares[i] + (1 - b2) * grad**2
            mean, square = means[i] / (1 - b1**n_steps), squares[i] / (1 - b2**n_steps)
            change = work.LR * mean / (np.sqrt(square) + work.EPS)
            set_values(some, flat(p.value for p in some) - change)
        return [p.value for p in ps]

    return step


def pair(one: Callable[[], Run], other: Callable[[], Run]) -> Pair:
    return one(), other()


def padding() -> Pair:
    """One pass over numbers in words, which are of many lengths, with a model as SMALL."""
    task = number_words(rng(), N_BATCHES * SIZE.batch, 1)

    def one_pass(by_length: bool) -> Run:
        model = npt.Transformer(task.config(d_model=D, n_heads=SIZE.n_heads, d_ff=F,
                                            n_layers=SIZE.n_layers, dropout=0.0), rng())
        adam = npt.Adam(model.parameters(), work.LR)
        batches = npt.Batches(task.arrays(), SIZE.batch, rng(), by_length=by_length,
                              pad_id=work.PAD)

        def run() -> None:
            for _, batch in zip(range(N_BATCHES), batches, strict=False):
                npt.train_step(model, adam, batch, None, label_smoothing=work.SMOOTHING)

        return run

    return one_pass(by_length=False), one_pass(by_length=True)


def decoding() -> Pair:
    """N_TOKENS of one sequence."""
    model, src = model_of(SIZE), work.batches(SIZE)[0][0][:1]

    def without() -> list[Array]:
        memory, ids = model.encode(src), np.full((1, 1), work.BOS)
        for _ in range(work.N_TOKENS):
            logits = model.decode(ids, memory, src)[:, -1:]
            ids = np.concatenate([ids, logits.argmax(axis=-1)], axis=1)
        return [ids[:, 1:]]

    return without, lambda: [written(model, src)]


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
    def run(kind: type[npt.Adam]) -> Run:
        p = npt.Parameter(normal(N_ADAM))
        p.grad = normal(N_ADAM)[::-1].copy()
        return stepping(kind([p]))

    return run(one), run(other)


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


FORMS: dict[str, tuple[str, str, Callable[[], Pair]]] = {
    "precision of Linear": ("float64", "float32", precision),
    "dropout": ("float64 uniforms", "npt_lib.Dropout", dropout),
    "softmax": ("a new array each line", "in place", large_softmax),
    "softmax of short rows": ("the largest of each row, np.sum", "npt_lib's", short_softmax),
    "softmax of short rows, the shift": ("always", "only where exp could overflow",
                                         softmax_step),
    "softmax of short rows, the sum": ("np.sum", "w @ ones",
                                       softmax_sum),
    "bias gradient": ("dy.sum(axis=0)", "ones @ dy", bias_gradient),
    "layer norm, its means": ("np.mean", "x @ ones", norm_means),
    "layer norm": ("mean and var", "npt_lib.LayerNorm", layer_norm),
    "ReLU backward": ("np.where(y > 0, dy, 0)", "dy * (y > 0)", relu_backward),
    "np.where": ("signs at random", "signs in order", sorted_signs),
    "embedding gradient, vocabulary of 8,000": ("np.add.at by rows", "npt_lib.Embedding",
                                                partial(embedding_gradient, 8000)),
    "embedding gradient, vocabulary of 32": ("np.add.at by rows", "npt_lib.Embedding",
                                             partial(embedding_gradient, 32)),
    "Adam": ("one parameter at a time", "npt_lib.Adam", partial(pair, textbook_adam, library_adam)),
    "Adam, its rows": ("67 arrays", "four rows", partial(pair, textbook_adam, joined_adam)),
    "Adam, its bias": ("both means divided", "one number", partial(adams, DividedAdam, npt.Adam)),
    "Adam, in place": ("npt_lib.Adam", "values changed in place",
                       partial(adams, npt.Adam, AdamInPlace)),
    "padding": ("batches at random", "by_length", padding),
    "decoding": ("without a cache", "with a cache", decoding),
    **{f"attention, {n:,} positions": ("all scores at once", "in tiles", partial(tiles, n))
       for n in (1280, 2048, 4096)},
    "scale of attention": ("on the scores", "on the queries", scale),
    "queries, keys, values": ("three products", "one, split", projections),
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
