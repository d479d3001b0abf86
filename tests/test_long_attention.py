"""Attention in tiles beside attention at once, under any mask and any pattern."""

import importlib
import tracemalloc
from dataclasses import dataclass

import numpy as np
import pytest
import small
from hypothesis import given, settings
from hypothesis import strategies as st

import npt_lib as npt
from npt_lib.dot_product_attention import attention_at_once
from npt_lib.long_attention import _plan, causal_view, pattern_table
from npt_lib.multi_head_attention import KVCache
from npt_lib.parallel.threads import threads
from npt_lib.pattern_attention import WindowCache

some = settings(max_examples=150, deadline=None)
seeds = st.integers(0, 2**31)
sides = st.tuples(st.integers(1, 8), st.integers(1, 8))
counts = st.integers(1, 6)
patterns = st.one_of(
    st.none(), st.just(npt.Causal()), st.builds(npt.Window, counts, st.booleans()),
    st.builds(npt.BlockSparse, counts, counts, counts, st.booleans()),
)


def module(name):
    return importlib.import_module(f"npt_lib.{name}")


@st.composite
def inputs(draw, dtypes=(np.float32, np.float64)):
    """q, k, v with any leading axes, and a mask that broadcasts, or none."""
    lead = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    T, S, K, K2 = draw(st.integers(0, 7)), *(draw(st.integers(1, 7)) for _ in range(3))
    rng = np.random.default_rng(draw(seeds))
    dtype, size = draw(st.sampled_from(dtypes)), draw(st.sampled_from([1.0, 1.0, 30.0]))
    q, k, v = (rng.standard_normal((*lead, *shape)).astype(dtype)
               for shape in ((T, K), (S, K), (S, K2)))
    if draw(st.booleans()):
        return q * dtype(size), k, v, None
    shape = [1 if draw(st.booleans()) else n for n in (*lead, T, S)]
    n_axes = draw(st.sampled_from([0, 1, 2, len(shape)]))           # others would be ambiguous
    mask = rng.random(shape[len(shape) - n_axes:]) < 0.5
    return q * dtype(size), k, v, np.asarray(mask)


def seen_one_by_one(pattern, T, S):
    """What the patterns' docstrings say, a pair of positions at a time."""
    def sees(i, j):
        if pattern is None:
            return True
        if getattr(pattern, "causal", True) and j > i:
            return False
        if isinstance(pattern, npt.Window):
            return abs(i - j) < pattern.width
        if isinstance(pattern, npt.BlockSparse):
            mine, other = i // pattern.size, j // pattern.size
            return abs(mine - other) < pattern.near or other % pattern.every == 0
        return True

    pairs = [[sees(S - T + t, s) for s in range(S)] for t in range(T)]
    return np.array(pairs, bool).reshape(T, S)


def results(attend, *given, **options):
    y, backward = attend(*given, **options)
    return (y, *backward(np.random.default_rng(0).standard_normal(y.shape).astype(y.dtype)))


@given(given_=inputs(), pattern=patterns, tile=sides)
@some
def test_attention_in_tiles_is_attention(given_, pattern, tile):
    q, k, v, mask = given_
    table = seen_one_by_one(pattern, q.shape[-2], k.shape[-2])
    wanted = results(attention_at_once, q, k, v, table if mask is None else table & mask)
    found = results(npt.attention_in_tiles, q, k, v, mask, pattern, tile)
    tolerance = 3e-4 if q.dtype == np.float32 else 1e-12
    least = tolerance * max(1, np.abs(q).max(initial=0))
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype == q.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=least)


@given(pattern=patterns, T=st.integers(0, 12), S=st.integers(1, 12))
@some
def test_a_pattern_says_of_a_table_what_it_says_of_each_pair(pattern, T, S):
    np.testing.assert_array_equal(pattern_table(pattern, T, S), seen_one_by_one(pattern, T, S))


@given(given_=inputs((np.float64,)), tile=sides, n=st.integers(2, 3))
@settings(max_examples=25, deadline=None)
def test_on_threads_it_is_the_same_to_the_bit(given_, tile, n):
    alone = results(npt.attention_in_tiles, *given_, tile=tile)
    with threads(n):
        found = results(npt.attention_in_tiles, *given_, tile=tile)
    for a, b in zip(found, alone, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_query_that_sees_nothing_gets_zeros():
    q, k, v = np.random.default_rng(0).standard_normal((3, 2, 5, 4))
    mask = np.ones((5, 5), bool)
    mask[[1, 4]] = False
    y, backward = npt.attention_in_tiles(q, k, v, mask, tile=(2, 3))
    dq, dk, dv = backward(np.ones_like(y))
    assert not y[:, [1, 4]].any() and y[:, [0, 2, 3]].all()
    assert not dq[:, [1, 4]].any() and dq[:, 0].any() and dk.any() and dv.all()
    assert not npt.attention_in_tiles(q, k, v, np.array(False))[0].any()
    y, backward = npt.attention_in_tiles(q, k[:, :2], v[:, :2], None, npt.Causal())
    assert not y[:, :3].any() and y[:, 3:].all()          # more queries than keys
    assert all(np.isfinite(d).all() for d in backward(y))


def test_no_rows_at_all():
    x = np.zeros((0, 6, 4))
    y, backward = npt.attention_in_tiles(x, x, x)
    assert y.shape == x.shape and [d.shape for d in backward(y)] == [x.shape] * 3


def test_scores_of_any_size():
    q, k, v = np.random.default_rng(0).standard_normal((3, 6, 4))
    for size in (1e3, 1e8):
        wanted = results(attention_at_once, q * size, k, v)
        for a, b in zip(results(npt.attention_in_tiles, q * size, k, v, tile=(2, 2)), wanted):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


# What it costs.

def peak(attend, n, **options):
    """The most bytes that n queries and keys need, forwards and backwards."""
    q, k, v = np.random.default_rng(0).standard_normal((3, n, 16), np.float32)
    tracemalloc.start()
    try:
        y, backward = attend(q, k, v, **options)
        backward(y)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_grows_with_the_length_not_with_its_square():
    for attend, low, high in ((npt.attention_in_tiles, 1.0, 2.6), (attention_at_once, 3.5, 4.5)):
        peak(attend, 64)                          # what is made once is there
        assert low <= peak(attend, 2048) / peak(attend, 1024) < high
    assert peak(npt.attention_in_tiles, 2048) < peak(attention_at_once, 2048) / 4


@pytest.mark.parametrize("pattern", [npt.Causal(), npt.Window(64), npt.BlockSparse(32, 8)], ids=str)
def test_memory_of_a_pattern_is_that_of_tiles(pattern):
    peak(npt.attention_in_tiles, 64)
    assert peak(npt.attention_in_tiles, 2048, pattern=pattern) < 2.6e6       # scores: 16.8e6


def test_tiles_in_which_nobody_sees_anybody_are_left_out():
    class Loud(np.ndarray):
        """Counts the products of queries and keys."""
        n = 0

        def __matmul__(self, other):
            Loud.n += 1
            return np.asarray(self) @ np.asarray(other)

    q, k, v = np.random.default_rng(0).standard_normal((3, 40, 4))
    for pattern, wanted in ((npt.Causal(), 10), (npt.Window(10), 7), (npt.Window(11), 7),
                            (npt.Window(12), 9), (npt.BlockSparse(10, 3, 1), 7), (None, 16)):
        Loud.n = 0
        npt.attention_in_tiles(q.view(Loud), k, v, None, pattern, (10, 10))
        assert Loud.n == wanted, pattern
    Loud.n = 0
    npt.attention_in_tiles(q.view(Loud), k, v, npt.causal_mask(40), tile=(10, 10))
    assert Loud.n == 10                           # a mask's tiles, too


def test_so_many_tiles_as_chapter_13_says():
    for pattern, wanted in ((npt.Causal(), 528), (npt.Window(256), 63),
                            (npt.BlockSparse(size=64, every=16), 815)):
        assert sum(len(columns) for _, columns in _plan(8192, 8192, pattern, None)) == wanted


# Where the library uses it.

def test_attention_goes_in_tiles_beyond_so_many_scores(monkeypatch):
    monkeypatch.setattr(module("dot_product_attention"), "LONG", 15)
    x = np.ones((2, 3, 6, 4))
    for T, S, way in ((3, 5, "at_once"), (4, 4, "in_tiles"), (5, 3, "at_once"), (6, 3, "in_tiles")):
        _, backward = npt.attention(x[:, :, :T], x[:, :, :S], x[:, :, :S])
        assert backward.__qualname__.startswith(f"attention_{way}")


SRC, TGT = small.pairs(np.random.default_rng(0), 7)


def there_and_back(model):
    """The loss, every gradient, what dropout has drawn, and the attention maps."""
    rng = np.random.default_rng(3)
    loss, backward = model.loss((SRC, TGT), rng)
    backward()
    maps = npt.attention_maps(model.forward(SRC, TGT[:, :-1], np.random.default_rng(3))[1])
    grads = {name: p.grad for name, p in model.parameters().items()}
    return {"loss": loss, **grads, **maps}, rng.bit_generator.state


@pytest.mark.parametrize("style", small.STYLES)
def test_a_model_is_the_same_in_tiles_and_shows_the_same_weights(monkeypatch, style):
    models = [small.transformer(**small.STYLES[style]).astype(np.float64) for _ in range(2)]
    wanted, state = there_and_back(models[0])
    monkeypatch.setattr(module("dot_product_attention"), "LONG", 0)
    monkeypatch.setattr(module("long_attention"), "TILE", (2, 3))
    with threads(2):
        found, drawn = there_and_back(models[1])
    assert found.keys() == wanted.keys() and drawn == state
    assert sum(name.endswith(("attn", "cross")) for name in found) == 6
    for name, x in found.items():
        np.testing.assert_allclose(x, wanted[name], rtol=1e-9, atol=1e-14, err_msg=name)


def test_weights_of_an_attention_alone():
    q, k, v = np.random.default_rng(0).standard_normal((3, 2, 5, 4))
    for mask in (None, npt.causal_mask(5)):
        for pattern in (None, npt.Window(2)):
            found = npt.attention_maps(npt.attention_in_tiles(q, k, v, mask, pattern, (2, 2))[1])
            table = pattern_table(pattern, 5, 5)
            wanted = attention_at_once(q, k, v, table if mask is None else table & mask)
            wanted = npt.attention_maps(wanted[1])
            assert found.keys() == wanted.keys() == {"attention"}
            np.testing.assert_allclose(found["attention"], wanted["attention"], rtol=1e-12)


@pytest.mark.parametrize("T, S", [(1, 1), (4, 4), (2, 7), (1, 5), (5, 3)])
def test_a_causal_view_is_a_causal_mask_that_takes_no_room(T, S):
    view = causal_view(T, S)
    np.testing.assert_array_equal(view, np.tri(T, S, S - T, dtype=bool))
    assert view.strides == (-1, 1) and not view.flags.writeable      # T + S - 1 numbers


# In a model.

PATTERNS = [npt.Causal(), npt.Window(3), npt.Window(20), npt.BlockSparse(2, 3)]
by_pattern = pytest.mark.parametrize("pattern", PATTERNS, ids=str)


def gpt(pattern, **options):
    config = npt.gpt_config(13, **dict(d_model=16, n_heads=2, d_ff=24, n_layers=2, dropout=0.0,
                                       max_len=20) | options, pattern=pattern)
    return npt.GPT(config, np.random.default_rng(0)).astype(np.float64)


def ids(n_rows=3, n_ids=14):
    return np.random.default_rng(1).integers(3, 13, (n_rows, n_ids))


@by_pattern
@pytest.mark.parametrize("n_read", [1, 7])
def test_written_step_by_step_as_all_at_once(pattern, n_read):
    model, given_ = gpt(pattern), ids()
    state = model.start(given_[:, :n_read], 14 - n_read + 1)
    for n in range(n_read, 15):
        if n == 9:                                # beams change places
            state.select(order := np.array([2, 0, 0]))
            given_ = given_[order]
        logits = model.step(given_[:, n - 1], state)
        np.testing.assert_allclose(logits, model(given_[:, :n])[:, -1], rtol=1e-10, atol=1e-12)


def test_a_window_s_cache_keeps_what_can_be_seen():
    attn = npt.PatternAttention(8, 2, np.random.default_rng(0), npt.Window(4))
    cache = attn.start(2, 30)
    assert isinstance(cache, WindowCache)
    for n in (1, 5, 1, 2):
        attn.step(np.ones((2, n, 8), np.float32), cache)
        assert cache.keys.shape[2] <= 3 and cache.keys.base is None
    assert cache.keys.shape == cache.values.shape == (2, 2, 3, 4) and cache.length == 9
    with pytest.raises(ValueError, match=r"31 tokens, but max_len=30\."):
        attn.step(np.ones((2, 22, 8), np.float32), cache)
    assert type(attn.start(2, 4)) is KVCache


@by_pattern
def test_in_tiles_or_at_once_a_layer_is_the_same(pattern, monkeypatch):
    attn = npt.PatternAttention(8, 2, np.random.default_rng(0), pattern).astype(np.float64)
    x = np.random.default_rng(1).standard_normal((3, 9, 8))
    mask = npt.padding_mask(np.array([[3] * 9, [3] * 6 + [0] * 3, [0] * 9]))
    found = []
    for short in (1 << 16, 0):
        monkeypatch.setattr(module("pattern_attention"), "SHORT", short)
        y, backward = attn.forward(x, mask)
        attn.zero_grad()
        found.append([y, backward(np.cos(y)), attn.qkv.W.grad,
                      npt.attention_maps(backward)["attention"]])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


@by_pattern
def test_saved_and_loaded(pattern, tmp_path):
    model = gpt(pattern)
    npt.save(tmp_path / "model.npz", model)
    other = npt.load(tmp_path / "model.npz")
    assert other.config == model.config and other.config.pattern == pattern
    np.testing.assert_array_equal(other(ids()), model(ids()))


def test_a_window_reaches_as_far_as_its_layers_carry():
    """Two layers of Window(3): a position is reached by those at most 4 before it."""
    model, given_ = gpt(npt.Window(3)), ids(1)
    other = given_.copy()
    other[0, 5] = 3 + (other[0, 5] - 2) % 10
    moved = np.abs(model(given_) - model(other)).max(axis=-1)[0] > 1e-12
    np.testing.assert_array_equal(np.flatnonzero(moved), [5, 6, 7, 8, 9])


def test_a_model_with_a_window_learns():
    model = gpt(npt.Window(3), n_layers=1).astype(np.float32)
    optimizer = npt.Adam(model.parameters(), lr=1e-2)
    rng = np.random.default_rng(0)
    for _ in range(60):
        start = rng.integers(3, 13, (16, 1))
        loss = npt.train_step(model, optimizer, (3 + (start + np.arange(12)) % 10,), rng)
    assert loss < 0.3


# At the door.

X = np.ones((2, 5, 4))


@pytest.mark.parametrize("call, message", [
    (lambda: npt.attention_in_tiles(X, X[..., :3], X),
     "q (..., T, K), k (..., S, K) and v (..., S, K') must agree in K and S, at least 1, "
     "got (2, 5, 4), (2, 5, 3) and (2, 5, 4)."),
    (lambda: npt.attention_in_tiles(X, X, X, np.ones((5, 4), bool)),
     "mask (5, 4) does not broadcast to scores (..., T, S) = (2, 5, 5)."),
    (lambda: npt.attention_in_tiles(X, X, X, None, 3),
     "pattern must have the methods sees, got int."),
    (lambda: npt.attention_in_tiles(X, X, X, None, npt.Causal),
     "pattern must have the methods sees, got type."),
    (lambda: npt.attention_in_tiles(X, X, X, tile=(0, 3)),
     "tile must be a whole number of at least 1, got 0."),
    (lambda: npt.attention_in_tiles(X, X, X, tile=5),
     "tile must be two whole numbers, queries and keys, got 5."),
    (lambda: npt.Window(0), "width must be a whole number of at least 1, got 0."),
    (lambda: npt.Window(3, causal=1), "causal must be True or False, got 1."),
    (lambda: npt.BlockSparse(4, 0), "every must be a whole number of at least 1, got 0."),
    (lambda: npt.PatternAttention(8, 2, np.random.default_rng(0), None),
     "pattern must have the methods sees, got NoneType."),
    (lambda: npt.gpt_config(9, pattern=64), "pattern must have the methods sees, got int."),
    (lambda: npt.modern_config(9, pattern=npt.Causal()),
     "pattern must be None: GroupedAttention has none, GPTConfig's attention has; got Causal()."),
    (lambda: npt.PatternAttention(8, 2, np.random.default_rng(0), npt.Window(2))(X),
     "PatternAttention needs a last axis of 8, got shape (2, 5, 4)."),
])
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value) == message


@dataclass(frozen=True)
class Wrong:
    """A pattern of a reader's own whose table has the wrong shape."""

    def sees(self, rows, keys):
        return np.ones((len(keys), len(rows)), int)


def test_a_pattern_s_table_is_checked():
    with pytest.raises(ValueError, match=r"Wrong\(\).sees must return True, False or a boolean "
                                         r"array \(2, 3\), got int64 \(3, 2\)\."):
        npt.attention_in_tiles(X, X, X, None, Wrong(), (2, 3))
