"""The fast forms beside the plain ones: softmax, flat steps, memory.

Each does what something slower and simpler does; here both run, and must agree.
"""

import importlib
import math
import os
import platform
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import small
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import npt_lib as npt
from npt_lib.layers import softmax_gradient
from npt_lib.optim import stretches
from npt_lib.parallel.threads import threads

some = settings(max_examples=120, deadline=None)
seeds = st.integers(0, 2**31)


def module(name):
    return importlib.import_module(f"npt_lib.{name}")


SRC, TGT = small.pairs(np.random.default_rng(0), 7)


# Softmax in two ways: scores that exp takes as they are, and those that are shifted first.

@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_softmax_takes_every_float(dtype, size):
    mask = np.array([[True, True, False], [False, False, False]])
    w, _ = npt.softmax(np.array([[0, 0, 9], [1, 2, 3]]).astype(dtype) * dtype(size), mask)
    assert w.dtype == dtype
    np.testing.assert_array_equal(w, [[0.5, 0.5, 0], [0, 0, 0]])


def exact_softmax(x, mask):
    """In long double, shifted, and a masked entry is left out."""
    x = x.astype(np.longdouble)
    x = np.where(mask, x, -np.inf)
    top = x.max(axis=-1, keepdims=True)
    e = np.exp(x - np.where(np.isfinite(top), top, 0))
    return (e / np.maximum(e.sum(axis=-1, keepdims=True), 1e-300)).astype(float)


EXP_LIMIT = {np.dtype("f4"): 44.36, np.dtype("f8"): 354.89}     # half the largest that exp takes


def is_tame(x):
    return bool(np.abs(x).max() < EXP_LIMIT[x.dtype])


@given(seed=seeds, dtype=st.sampled_from([np.float32, np.float64]), masked=st.booleans(),
       part=st.sampled_from([0.1, 0.5, 0.99, 0.9999, 1.0001, 1.01, 1.5, 4.0]))
@some
def test_both_ways_give_the_same_weights(seed, dtype, masked, part):
    """Scores up to a part of the limit, on both sides of it."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (3, 5))
    x = (x / np.abs(x).max() * part * EXP_LIMIT[np.dtype(dtype)]).astype(dtype)
    mask = rng.random(x.shape) < 0.7 if masked else np.ones(x.shape, bool)
    assert is_tame(x) == (part < 1)
    w, backward = npt.softmax(x, mask if masked else None)
    wild = np.vstack([x, np.full((1, 5), 3 * part * EXP_LIMIT[np.dtype(dtype)], dtype)])
    wild[-1, 0] = -wild[-1, 0] * 100
    shifted = npt.softmax(wild, np.vstack([mask, mask[:1]]) if masked else None)[0][:-1]
    assert not is_tame(wild)
    rtol, atol = (5e-5, 1e-35) if dtype == np.float32 else (1e-12, 1e-290)
    for found in (w, shifted):
        assert found.dtype == dtype and not found[~mask].any()
        np.testing.assert_allclose(found, exact_softmax(x, mask), rtol=rtol, atol=atol)
    np.testing.assert_array_equal(backward(x), softmax_gradient(w, x))


@given(seed=seeds, n=st.integers(1, 40), masked=st.booleans())
@some
def test_a_row_does_not_see_the_others_by_a_bit(seed, n, masked):
    rng = np.random.default_rng(seed)
    x, other = rng.standard_normal((2, 2, 9, n), np.float32) * 10
    assume(is_tame(x) and is_tame(other))
    mask = rng.random((2, 9, n)) < 0.7 if masked else None
    mixed = x.copy()
    rows = rng.random((2, 9)) < 0.5
    mixed[rows] = other[rows]
    found, wanted = npt.softmax(mixed, mask)[0], npt.softmax(x, mask)[0]
    np.testing.assert_array_equal(found[~rows], wanted[~rows])


HUGE = [("f4", 3.4e38), ("f8", 1.7e308)]


@pytest.mark.parametrize("dtype, huge", HUGE)
@pytest.mark.parametrize("open_, hidden", [
    ([0.0, 1.0], 0.0), ([0.0, 1.0], 1.0), ([0.0, 1.0], -1.0), ([1.0, 1.0], 1.0),
    ([-1.0, -1.0], 0.0), ([-1.0, -1.0], 1.0), ([-1.0, -1.0], -1.0), ([-0.5, -1.0], -0.2),
    ([-0.1, 0.1], 1.0),
])
@pytest.mark.filterwarnings("ignore:overflow")
def test_scores_as_large_as_they_get(dtype, huge, open_, hidden):
    """Two entries that count and one that does not, as parts of the largest number."""
    x = (np.array([*open_, hidden]) * huge).astype(dtype)
    mask = np.array([True, True, False])
    w = npt.softmax(x, mask)[0]
    np.testing.assert_array_equal(w, np.array([*exact_softmax(x[:2], mask[:2]), 0], dtype))


@pytest.mark.parametrize("dtype, huge", HUGE)
@pytest.mark.parametrize("scores", [[0, 0, 0], [1, -1, 1], [-1, -1, -1], [0.1, -0.1, 0.6]])
@pytest.mark.filterwarnings("ignore:overflow")
def test_a_row_hidden_throughout_is_zeros_in_both_ways(dtype, huge, scores):
    """Alone, beside tame rows, and beside a wild one."""
    hidden = (np.array(scores) * huge).astype(dtype)
    x = np.stack([hidden, np.ones(3, dtype), hidden])
    mask = np.array([[False], [True], [False]])
    for rows, open_ in ((x, mask), (x[:1], mask[:1]), (x / huge, mask)):
        w = npt.softmax(rows.astype(dtype), np.broadcast_to(open_, rows.shape))[0]
        np.testing.assert_allclose(w, open_ / 3 * np.ones(3), rtol=1e-3)
        assert not w[~open_[:, 0]].any()


@pytest.mark.filterwarnings("error")
def test_wild_scores_beside_hidden_ones_raise_no_warning():
    x = np.array([[90.0, -500.0, 3.0], [1e30, 0.0, -1e30]], np.float32)
    w = npt.softmax(x, np.array([[False, True, True], [True, True, False]]))[0]
    np.testing.assert_array_equal(w, [[0, 0, 1], [1, 0, 0]])


def test_minus_infinity_in_a_row():
    """A weight of 0 beside a number; nothing to choose from without a mask is NaN; hidden, 0."""
    gone = -np.inf
    np.testing.assert_array_equal(npt.softmax(np.array([[gone, 2.0], [0.0, 0.0]]))[0],
                                  [[0, 1], [0.5, 0.5]])
    with pytest.warns(RuntimeWarning, match="invalid"):
        w = npt.softmax(np.array([[gone, gone], [1.0, gone]]))[0]
    assert np.isnan(w[0]).all()
    np.testing.assert_array_equal(w[1], [1, 0])
    hidden = npt.softmax(np.array([[gone, gone], [gone, 3.0]]), np.array([[False], [True]]))[0]
    np.testing.assert_array_equal(hidden, [[0, 0], [0, 1]])


# Flat optimizers: as one parameter at a time.

SHAPES = [(2,), (3, 1), (), (4, 5), (1,), (2, 2, 3), (7,), (8,), (3,)]
WITHOUT = [{4}, {0, 3, 8}, set(), {1, 2, 5, 6}]      # those without a gradient, step after step


def parameters(dtype, rng):
    found = [npt.Parameter(rng.standard_normal(shape).astype(dtype)) for shape in SHAPES]
    for p in found:
        p.value.flags.writeable = False
    return found


def set_gradients(found, step):
    rng = np.random.default_rng(step)
    for i, p in enumerate(found):
        grad = rng.standard_normal(p.shape).astype(p.value.dtype)
        p.grad = None if i in WITHOUT[step % 4] else np.asarray(grad)
        if p.grad is not None:
            p.grad.flags.writeable = False


class PlainSGD:
    """One parameter at a time, as chapter 10 says it."""

    def __init__(self, found, lr, momentum):
        self.parameters, self.lr, self.momentum = found, lr, momentum
        self.velocity = [np.zeros_like(p.value) for p in found]

    def step(self):
        for i, p in enumerate(self.parameters):
            if p.grad is not None:
                self.velocity[i] = self.momentum * self.velocity[i] + p.grad
                p.value = p.value - self.lr * self.velocity[i]


class PlainAdam:
    """One parameter at a time, as the papers say it."""

    def __init__(self, found, lr, betas, eps, weight_decay):
        self.parameters, self.lr, self.betas, self.eps = found, lr, betas, eps
        self.weight_decay, self.n_steps = weight_decay, 0
        self.m = [np.zeros_like(p.value) for p in found]
        self.v = [np.zeros_like(p.value) for p in found]

    def step(self):
        self.n_steps += 1
        b1, b2 = self.betas
        for i, p in enumerate(self.parameters):
            if p.grad is None:
                continue
            self.m[i] = b1 * self.m[i] + (1 - b1) * p.grad
            self.v[i] = b2 * self.v[i] + (1 - b2) * p.grad**2
            m, v = self.m[i] / (1 - b1**self.n_steps), self.v[i] / (1 - b2**self.n_steps)
            decay = self.weight_decay if p.value.ndim > 1 else 0.0
            p.value = p.value - self.lr * (m / (np.sqrt(v) + self.eps) + decay * p.value)


OPTIMIZERS = {
    "SGD": (npt.SGD, PlainSGD, {"lr": 0.1, "momentum": 0.9}),
    "Adam": (npt.Adam, PlainAdam, {"lr": 0.01, "betas": (0.9, 0.99), "eps": 1e-9,
                                   "weight_decay": 0.0}),
    "AdamW": (npt.Adam, PlainAdam, {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-6,
                                    "weight_decay": 0.3}),
}
by_optimizer = pytest.mark.parametrize("name", OPTIMIZERS)


@pytest.fixture(params=[1, 7, 12, 1 << 16])
def stretch(request, monkeypatch):
    """Numbers moved together: one, fewer than some parameters have, more than all of them."""
    monkeypatch.setattr(module("optim"), "STRETCH", request.param)
    return request.param


@by_optimizer
@pytest.mark.parametrize("dtype, rtol", [(np.float64, 1e-12), (np.float32, 3e-5)])
def test_many_parameters_at_once_move_as_one_at_a_time(name, dtype, rtol, stretch):
    make, plain, options = OPTIMIZERS[name]
    found, wanted = (parameters(dtype, np.random.default_rng(0)) for _ in range(2))
    fast, slow = make(found, **options), plain(wanted, **options)
    for step in range(9):
        set_gradients(found, step)
        set_gradients(wanted, step)
        fast.step()
        slow.step()
        for i, (p, q) in enumerate(zip(found, wanted, strict=True)):
            assert p.value.dtype == dtype and p.shape == SHAPES[i]
            np.testing.assert_allclose(p.value, q.value, rtol=rtol, atol=rtol, err_msg=str(i))


@by_optimizer
def test_a_step_changes_no_array_that_was_handed_out(name, stretch):
    make, _, options = OPTIMIZERS[name]
    found = parameters(np.float64, np.random.default_rng(0))
    optimizer = make(found, **options)
    handed_out = []
    for step in range(4):
        set_gradients(found, step)
        still = {i: found[i].value for i in WITHOUT[step]}
        handed_out += [(x, x.copy()) for p in found for x in (p.value, p.grad) if x is not None]
        optimizer.step()
        assert all(found[i].value is value for i, value in still.items())
    for x, before in handed_out:
        np.testing.assert_array_equal(x, before)
    values = [p.value for p in found]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(values) for b in values[:i])


def test_a_backward_from_before_a_step_is_that_of_its_own_forward():
    rng = np.random.default_rng(0)
    layer, x, dy = npt.Linear(3, 4, rng), rng.standard_normal((5, 3)), rng.standard_normal((5, 4))
    optimizer = npt.SGD(layer.parameters(), lr=1.0)
    for _ in range(3):
        W = layer.W.value.copy()
        _, backward = layer.forward(x)
        layer.W.grad, layer.b.grad = np.ones((3, 4), np.float32), np.ones(4, np.float32)
        optimizer.step()
        np.testing.assert_array_equal(backward(dy), dy @ W.T)
        layer.zero_grad()


@by_optimizer
def test_a_state_goes_into_another_optimizer_of_other_stretches(name, monkeypatch):
    make, _, options = OPTIMIZERS[name]
    one, other = (parameters(np.float64, np.random.default_rng(0)) for _ in range(2))
    first, second = make(one, **options), make(other, **options)
    for step in range(3):
        set_gradients(one, step)
        first.step()
    second.load_state_dict(first.state_dict())
    for p, q in zip(one, other, strict=True):
        q.value = p.value
    set_gradients(one, 3)
    set_gradients(other, 3)
    first.step()
    monkeypatch.setattr(module("optim"), "STRETCH", 7)
    second.step()
    for p, q in zip(one, other, strict=True):
        np.testing.assert_array_equal(p.value, q.value)
    for key, value in first.state_dict().items():
        np.testing.assert_array_equal(value, second.state_dict()[key])


@pytest.mark.parametrize("n", [2, 3])
def test_adam_on_threads_is_adam_to_the_bit(n, stretch):
    make, _, options = OPTIMIZERS["AdamW"]
    one, other = (parameters(np.float32, np.random.default_rng(0)) for _ in range(2))
    alone, together = make(one, **options), make(other, **options)
    for step in range(5):
        set_gradients(one, step)
        set_gradients(other, step)
        alone.step()
        with threads(n):
            together.step()
    for p, q in zip(one, other, strict=True):
        np.testing.assert_array_equal(p.value, q.value)
    for key, value in alone.state_dict().items():
        np.testing.assert_array_equal(value, together.state_dict()[key])


def test_stretches_are_neighbours_with_gradients_in_their_places(stretch):
    found = parameters(np.float64, np.random.default_rng(0))
    ends = np.cumsum([p.value.size for p in found])
    places = {id(p): (end - p.value.size, end) for p, end in zip(found, ends, strict=True)}
    for step in range(4):
        set_gradients(found, step)
        seen = []
        for place, together in stretches(found):
            assert places[id(together[0])][0] == place.start
            assert places[id(together[-1])][1] == place.stop
            assert place.stop - place.start == sum(p.value.size for p in together)
            assert len(together) == 1 or place.stop - place.start <= stretch
            seen += together
        assert [id(p) for p in seen] == [id(p) for p in found if p.grad is not None]


# Memory that is kept.

GLIBC = platform.libc_ver()[0] == "glibc" and sys.platform == "linux"
ROUNDS = """
import ctypes, resource
import numpy as np
from npt_lib.parallel.memory import keep_memory, reuse_memory

ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)            # no huge pages: faults count single ones
{before}

def faults(n, megabytes):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [np.ones(megabytes << 20, np.uint8) for _ in range(n)]
    del arrays
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults({n}, {megabytes})
print(faults({n}, {megabytes}))
"""


def second_round(before, n, megabytes):
    """Pages that the system hands out when the same arrays are made a second time."""
    quiet = {k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES" and "MALLOC" not in k}
    script = ROUNDS.format(before=before, n=n, megabytes=megabytes)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          check=True, env={**quiet, "NUMPY_MADVISE_HUGEPAGE": "0"})
    return int(done.stdout)


@pytest.mark.skipif(not GLIBC, reason="memory is handed back by glibc alone")
@pytest.mark.parametrize("way, n, megabytes", [
    ("assert keep_memory() is True", 6, 20), ("assert keep_memory() is True", 40, 3),
    ("assert reuse_memory() is None", 15, 3), ("assert reuse_memory() is None", 3, 15),
])
def test_freed_memory_is_there_for_the_next_arrays(way, n, megabytes):
    fetched = second_round("", n, megabytes)
    kept = second_round(way, n, megabytes)
    assert kept < fetched / 10, (kept, fetched)


@pytest.mark.skipif(not GLIBC, reason="memory is handed back by glibc alone")
def test_memory_that_is_only_reused_has_a_bound_and_kept_memory_none():
    """120 MB in arrays of 20: more than the hint is good for."""
    reused = second_round("reuse_memory()", 6, 20)
    kept = second_round("reuse_memory(); keep_memory()", 6, 20)
    assert kept < reused / 10, (kept, reused)


def unwanted(*args):
    raise AssertionError("touched")


@pytest.mark.parametrize("system", ["darwin", "win32", "emscripten"])
def test_elsewhere_nothing_is_kept_and_nothing_touched(monkeypatch, system):
    memory = module("parallel.memory")
    monkeypatch.setattr(memory, "sys", SimpleNamespace(platform=system))
    monkeypatch.setattr(memory, "ctypes", SimpleNamespace(CDLL=unwanted))
    assert npt.keep_memory() is False


@pytest.mark.parametrize("library, kept", [
    (SimpleNamespace(), False),                                  # no glibc
    (SimpleNamespace(mallopt=lambda name, value: 0), False),     # it refuses
    (SimpleNamespace(mallopt=lambda name, value: int(name == -3)), False),
    (SimpleNamespace(mallopt=lambda name, value: 1), True),
])
def test_keeping_says_whether_it_could_be_arranged(monkeypatch, library, kept):
    memory = module("parallel.memory")
    monkeypatch.setattr(memory, "sys", SimpleNamespace(platform="linux"))
    monkeypatch.setattr(memory, "ctypes", SimpleNamespace(CDLL=lambda name: library))
    assert npt.keep_memory() is kept


# The loss and the embedding.

@given(seed=seeds, v=st.integers(1, 9), smoothing=st.sampled_from([0.0, 0.1, 0.9]),
       scale=st.sampled_from([0.1, 3.0, 30.0]), pad_id=st.sampled_from([None, 0]))
@some
def test_the_loss_in_float32_is_that_in_float64(seed, v, smoothing, scale, pad_id):
    rng = np.random.default_rng(seed)
    logits = (rng.standard_normal((3, 4, v)) * scale).astype(np.float32)
    targets = rng.integers(0, v, (3, 4))
    loss, backward = npt.cross_entropy(logits, targets, pad_id, smoothing)
    z = logits.astype(np.float64)
    logp = z - z.max(-1, keepdims=True)
    logp = logp - np.log(np.exp(logp).sum(-1, keepdims=True))
    wanted = np.full(z.shape, smoothing / v) + (1 - smoothing) * np.eye(v)[targets]
    real = np.ones((3, 4)) if pad_id is None else (targets != pad_id) * 1.0
    count = max(real.sum(), 1)
    exact = -((wanted * logp).sum(-1) * real).sum() / count
    dexact = (np.exp(logp) - wanted) * real[..., None] / count
    assert loss == pytest.approx(exact, rel=1e-6, abs=1e-6)
    found = backward()
    assert found.dtype == np.float32 and type(loss) is float
    np.testing.assert_allclose(found, dexact, rtol=0, atol=1e-6)
    np.testing.assert_allclose(backward(-2.5), -2.5 * found, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(backward(), found)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_loss_of_nothing_but_padding_is_0_and_so_is_its_gradient(dtype):
    logits = np.random.default_rng(0).standard_normal((2, 3, 5)).astype(dtype)
    for smoothing in (0.0, 0.1):
        loss, backward = npt.cross_entropy(logits, np.full((2, 3), 4), 4, smoothing)
        assert loss == 0.0 and type(loss) is float
        assert backward().dtype == dtype and backward().shape == logits.shape
        assert not backward().any()
    loss, backward = npt.cross_entropy(logits[:0], np.zeros((0, 3), int))
    assert loss == 0.0 and backward().shape == (0, 3, 5)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_with_one_token_to_choose_from_nothing_is_a_surprise(smoothing):
    logits = np.array([[7.0], [-100.0], [0.0]], np.float32)
    loss, backward = npt.cross_entropy(logits, np.zeros(3, int), None, smoothing)
    assert loss == 0.0
    np.testing.assert_allclose(backward(), 0, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_logit_of_minus_infinity_has_no_share_and_as_a_target_an_infinite_loss(dtype):
    logits = np.array([[0.0, -np.inf, 1.0], [0.5, 2.0, -np.inf]], dtype)
    loss, backward = npt.cross_entropy(logits, np.array([2, 0]))
    assert loss == pytest.approx((math.log1p(math.exp(-1)) + math.log1p(math.exp(1.5))) / 2)
    dlogits = backward()
    assert np.isfinite(dlogits).all() and dlogits[0, 1] == dlogits[1, 2] == 0
    np.testing.assert_allclose(dlogits.sum(axis=-1), 0, atol=1e-7)
    loss, backward = npt.cross_entropy(logits, np.array([1, 0]))
    assert loss == np.inf and np.isfinite(backward()).all()


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int16, np.uint64, np.int32])
def test_the_gradient_of_a_table_does_not_depend_on_how_ids_are_stored(kind):
    """The numbers of the table are far more than 255: small integers must not overflow."""
    rng = np.random.default_rng(0)
    table = npt.Embedding(100, 37, rng).astype(np.float64)
    ids = rng.integers(0, 100, (6, 30))
    ids[0, :4] = 99
    y, backward = table.forward(ids.astype(kind))
    dy = rng.standard_normal(y.shape)
    backward(dy)
    wanted = np.zeros((100, 37))
    for place in np.ndindex(ids.shape):
        wanted[ids[place]] += dy[place]
    np.testing.assert_array_equal(y, table.table.value[ids])
    np.testing.assert_allclose(table.table.grad, wanted, rtol=1e-12, atol=1e-13)


def test_the_gradient_of_a_table_from_one_id_and_from_a_strided_dy():
    table = npt.Embedding(5, 3, np.random.default_rng(0)).astype(np.float64)
    _, backward = table.forward(np.array(4))
    backward(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(table.table.grad[4], [1, 2, 3])
    assert not table.table.grad[:4].any()
    table.zero_grad()
    _, backward = table.forward(np.array([[1, 2], [2, 0]]))
    dy = np.arange(24.0).reshape(2, 2, 6)[..., ::2]
    backward(dy)
    np.testing.assert_array_equal(table.table.grad, [dy[1, 1], dy[0, 0], dy[0, 1] + dy[1, 0],
                                                     np.zeros(3), np.zeros(3)])
