"""Training: numbers by hand, runs that go on bit for bit, and Ctrl-C that loses nothing."""

import functools
import math
import os
import select
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import small

import npt_lib as npt
from npt_lib.parallel.data_parallel import DataParallel
from npt_lib.parallel.threads import blas_controller
from npt_lib.training import SilentBar, progress_bar, trim

SRC, TGT = small.pairs(np.random.default_rng(0), 10)


def parameter(value, grad):
    p = npt.Parameter(np.array(value))
    p.grad = None if grad is None else np.array(grad)
    return p


@pytest.fixture(autouse=True)
def heard():
    """Ctrl-C raises, as in a terminal: a process in the background may be deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# Optimizers, by hand.

def test_sgd_steps_down_the_gradient():
    p = parameter([1.0, 2.0], [10.0, -4.0])
    npt.SGD([p], lr=0.1).step()
    np.testing.assert_allclose(p.value, [0.0, 2.4])


def test_momentum_adds_a_part_of_the_last_velocity():
    p = parameter([0.0], [1.0])
    sgd = npt.SGD([p], lr=1.0, momentum=0.5)
    places = []
    for _ in range(4):
        sgd.step()
        places.append(float(p.value[0]))
    np.testing.assert_allclose(places, [-1.0, -2.5, -4.25, -6.125])


def test_adams_first_step_is_the_learning_rate_whatever_the_gradients_size():
    p = parameter([1.0, 1.0, 1.0], [1e-4, -3.0, 1e5])
    npt.Adam([p], lr=0.01).step()
    np.testing.assert_allclose(p.value, [0.99, 1.01, 0.99], rtol=1e-6)


def test_adams_steps_by_hand():
    """Two steps, every number of the algorithm written out."""
    p = parameter([0.5], [2.0])
    adam = npt.Adam([p], lr=0.1, betas=(0.9, 0.99), eps=1e-8)
    adam.step()
    value = 0.5 - 0.1 * 2.0 / (2.0 + 1e-8)
    np.testing.assert_allclose(p.value, [value], rtol=1e-12)
    p.grad = np.array([-1.0])
    adam.step()
    mean = (0.9 * 0.1 * 2.0 + 0.1 * -1.0) / (1 - 0.9**2)
    square = (0.99 * 0.01 * 4.0 + 0.01 * 1.0) / (1 - 0.99**2)
    np.testing.assert_allclose(p.value, [value - 0.1 * mean / (math.sqrt(square) + 1e-8)],
                               rtol=1e-12)
    assert adam.n_steps == 2


def test_a_constant_gradient_keeps_steps_at_the_learning_rate():
    """Only with the bias corrected: without, the first steps would be 10 and 7 times too short."""
    p = parameter([0.0], [0.3])
    adam = npt.Adam([p], lr=0.01)
    for i in range(1, 50):
        adam.step()
        assert p.value[0] == pytest.approx(-0.01 * i, rel=1e-6)


@pytest.mark.parametrize("shape, kept", [((2, 3), 0.995), ((3,), 1.0), ((), 1.0)])
def test_weight_decay_shrinks_matrices_only_and_apart_from_the_gradient(shape, kept):
    p = parameter(np.full(shape, 2.0), np.zeros(shape))
    npt.Adam([p], lr=0.01, weight_decay=0.5).step()
    np.testing.assert_allclose(p.value, np.full(shape, 2.0 * kept), rtol=1e-12)


@pytest.mark.parametrize("make", [lambda ps: npt.SGD(ps, 0.1, 0.9), npt.Adam], ids=["SGD", "Adam"])
def test_a_parameter_without_gradient_stays_and_the_old_array_too(make):
    still, moved = parameter([1.0], None), parameter([1.0], [1.0])
    before = moved.value
    make({"still": still, "moved": moved}).step()
    assert still.value == 1.0 and moved.value != 1.0 and before == 1.0


@pytest.mark.parametrize("make", [lambda ps: npt.SGD(ps, 0.1, 0.9), npt.Adam], ids=["SGD", "Adam"])
def test_one_step_may_have_a_learning_rate_of_its_own(make):
    p, q = parameter([1.0], [1.0]), parameter([1.0], [1.0])
    one, other = make([p]), make([q])
    one.step(0.0)
    assert p.value == 1.0
    one.step(0.5)
    other.step(0.25), other.step(0.5)
    assert p.value != q.value
    np.testing.assert_allclose(p.value - q.value, 0.25, rtol=1e-6)
    assert one.lr == other.lr


@pytest.mark.parametrize("make", [lambda ps: npt.SGD(ps, 0.1, 0.9), npt.Adam], ids=["SGD", "Adam"])
def test_an_optimizers_state_is_a_copy_and_goes_into_another(make):
    rng = np.random.default_rng(0)
    p, q = parameter([1.0, 2.0], None), parameter([1.0, 2.0], None)
    one, other = make([p]), make([q])
    for _ in range(3):
        p.grad = rng.standard_normal(2)
        one.step()
    state = one.state_dict()
    other.load_state_dict(state)
    q.value = p.value
    for value in state.values():
        value += 7
    p.grad = q.grad = rng.standard_normal(2)
    one.step()
    other.step()
    np.testing.assert_array_equal(p.value, q.value)


@pytest.mark.parametrize("max_norm, scale", [(13.0, 1.0), (20.0, 1.0), (6.5, 0.5), (1.3, 0.1)])
def test_clipping_scales_all_gradients_together(max_norm, scale):
    grads = [[3.0, 4.0], [[12.0]], None]
    ps = [parameter(np.zeros(np.shape(g) if g else 1), g) for g in grads]
    before = [p.grad for p in ps]
    assert npt.clip_gradients(ps, max_norm) == pytest.approx(13.0)
    for p, grad, old in zip(ps, grads, before, strict=True):
        if grad is None:
            assert p.grad is None
        else:
            np.testing.assert_allclose(p.grad, np.multiply(grad, scale))
            np.testing.assert_array_equal(old, grad)             # never in place


# Schedules.

def test_noam_rises_and_falls_as_in_the_paper():
    assert npt.noam(1, 512, 4000) == pytest.approx(512**-0.5 * 4000**-1.5)
    assert npt.noam(4000, 512, 4000) == pytest.approx(512**-0.5 * 4000**-0.5)
    assert npt.noam(16000, 512, 4000) == pytest.approx(npt.noam(4000, 512, 4000) / 2)
    rates = [npt.noam(step, 64, 100) for step in range(1, 400)]
    assert int(np.argmax(rates)) + 1 == 100
    np.testing.assert_allclose(np.diff(rates[:100]), rates[0])   # a straight rise


def test_warmup_cosine_rises_to_its_peak_and_falls_to_zero():
    rates = [npt.warmup_cosine(step, 0.3, 10, 110) for step in range(1, 130)]
    np.testing.assert_allclose(rates[:10], 0.03 * np.arange(1, 11))
    assert rates[59] == pytest.approx(0.15) and max(rates) == rates[9] == pytest.approx(0.3)
    assert rates[34] == pytest.approx(0.15 * (1 + math.sqrt(0.5)))
    assert (np.diff(rates[9:110]) < 0).all()
    assert rates[109:] == [0.0] * 20
    assert npt.warmup_cosine(1, 0.3, 0, 10) == pytest.approx(0.15 * (1 + math.cos(0.1 * math.pi)))


# Batches.

def numbered(n):
    """Rows that can be told apart: the first source id is the row's number."""
    src = np.zeros((n, 9), int)
    src[:, 0], src[:, 1:4] = np.arange(n), 1
    tgt = np.zeros((n, 8), int)
    tgt[:, :2] = np.arange(n)[:, None]
    return src + 0, tgt


@pytest.mark.parametrize("by_length", [False, True])
@pytest.mark.parametrize("n, size", [(12, 4), (10, 4), (7, 7), (5, 8), (3, 1)])
def test_every_row_comes_once_before_any_comes_twice(n, size, by_length):
    src, tgt = numbered(n)
    batches = npt.Batches((src, tgt), size, np.random.default_rng(0), -1, by_length)
    rows = np.concatenate([next(batches)[0][:, 0] for _ in range(6 * n)])
    assert len(rows) == 6 * n * min(n, size)
    passes = rows[: len(rows) // n * n].reshape(-1, n)
    for one in passes:
        assert sorted(one) == list(range(n))
    if n > 4:
        assert len({tuple(one) for one in passes}) > 3           # a new order each time


def test_sources_and_targets_stay_together_and_are_cut_to_the_longest_row():
    src, tgt = np.zeros((6, 9), int), np.zeros((6, 8), int)
    for i in range(6):
        src[i, :i + 1], tgt[i, :i + 2] = i + 1, i + 1
    batches = npt.Batches((src, tgt), 2, np.random.default_rng(3), 0)
    widths = set()
    for s, t in (next(batches) for _ in range(30)):
        np.testing.assert_array_equal(s[:, 0], t[:, 0])
        assert s.shape == (2, s.max()) and t.shape == (2, t.max() + 1)
        widths.add(s.shape[1])
    assert len(widths) >= 4


def ragged(n):
    """Rows of random lengths from 1 to 20, the targets one longer; a row's number fills it."""
    lengths = np.random.default_rng(1).integers(1, 21, n)
    places, numbers = np.arange(21), np.arange(1, n + 1)[:, None]
    return numbers * (places < lengths[:, None]), numbers * (places <= lengths[:, None])


def test_batches_by_length_hold_little_padding():
    """At random, half of what is computed is padding."""
    src, tgt = ragged(1280)
    share = {}
    for by_length in (False, True):
        batches = npt.Batches((src, tgt), 32, np.random.default_rng(0), 0, by_length)
        found = [s for s, _ in (next(batches) for _ in range(80))]
        share[by_length] = sum((s == 0).sum() for s in found) / sum(s.size for s in found)
    assert share[True] < 0.03 < 0.4 < share[False]


@pytest.mark.parametrize("n", [320, 333])
def test_batches_by_length_come_in_random_order_with_their_targets(n):
    src, tgt = ragged(n)
    batches = npt.Batches((src, tgt), 32, np.random.default_rng(0), 0, by_length=True)
    passes = [[next(batches) for _ in range(10)] for _ in range(4)]
    widths = [[s.shape[1] for s, _ in one] for one in passes]
    assert len({tuple(one) for one in widths}) == 4 and all(sorted(w) != w for w in widths)
    assert len({frozenset(s[:, 0].tolist()) for one in passes for s, _ in one}) == 40
    for s, t in (batch for one in passes for batch in one):
        np.testing.assert_array_equal(s[:, 0], t[:, 0])
        assert len(np.unique(s[:, 0])) > 16


@pytest.mark.parametrize("ids, width", [
    ([[1, 0, 2, 0, 0], [3, 0, 0, 0, 0]], 3), ([[0, 0, 0], [0, 0, 0]], 2), ([[4, 5]], 2), ([[4]], 1),
])
def test_trim_drops_columns_of_padding_at_the_end_of_ids_only(ids, width):
    floats, labels = np.zeros((len(ids), 9)), np.zeros(len(ids), int)
    found, features, same = trim((np.array(ids), floats, labels), 0)
    np.testing.assert_array_equal(found, np.array(ids)[:, :width])
    assert features is floats and same is labels


@pytest.mark.parametrize("by_length", [False, True])
def test_batches_go_on_from_a_state(by_length):
    src, tgt = numbered(10)
    one = npt.Batches((src, tgt), 4, np.random.default_rng(0), 0, by_length=by_length)
    for _ in range(3):
        next(one)
    state = one.state_dict()
    other = npt.Batches((src, tgt), 4, np.random.default_rng(99), 0, by_length=by_length)
    next(other)
    other.load_state_dict(state)
    for _ in range(7):
        np.testing.assert_array_equal(next(one)[0], next(other)[0])


# One step, and the numbers of an evaluation, by hand.

def test_a_step_shifts_the_target_and_ignores_padding():
    """The decoder reads all but the last token, and is asked for all but the first."""
    model = small.transformer().astype(np.float64)
    logits = model(SRC, TGT[:, :-1])
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    surprises = [-math.log(p[i, j, TGT[i, j + 1]]) for i in range(10) for j in range(5)
                 if TGT[i, j + 1] != 0]
    assert len(surprises) < 50
    loss = npt.train_step(model, npt.SGD(model.parameters(), 0.1), (SRC, TGT), None)
    assert loss == pytest.approx(np.mean(surprises), rel=1e-10)


def test_a_step_is_forward_backward_clip_and_step():
    one, same = (small.transformer().astype(np.float64) for _ in range(2))
    npt.train_step(one, npt.SGD(one.parameters(), 0.1), (SRC, TGT), np.random.default_rng(3),
                   lr=0.5, max_norm=0.25, label_smoothing=0.1)
    logits, backward = same.forward(SRC, TGT[:, :-1], np.random.default_rng(3))
    _, loss_backward = npt.cross_entropy(logits, TGT[:, 1:], 0, 0.1)
    backward(loss_backward())
    norm = math.sqrt(sum((p.grad**2).sum() for p in same.parameters().values()))
    assert norm > 0.25
    for (name, p), q in zip(same.parameters().items(), one.parameters().values(), strict=True):
        np.testing.assert_allclose(q.value, p.value - 0.5 * p.grad * 0.25 / norm, rtol=1e-9,
                                   atol=1e-12, err_msg=name)


def test_steps_start_from_fresh_gradients():
    model = small.transformer()
    for p in model.parameters().values():
        p.grad = np.full(p.shape, 1e6, np.float32)
    same = small.transformer()
    for m in (model, same):
        npt.train_step(m, npt.SGD(m.parameters(), 0.1), (SRC, TGT), None)
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, same.state_dict()[name])


def test_evaluation_agrees_with_a_count_by_hand():
    """One row at a time; a model trained a little, so that some rows are right and some wrong."""
    task, model = small.copying()
    adam = npt.Adam(model.parameters(), 3e-3)
    npt.train(model, adam, task.batches(32, np.random.default_rng(0)), None, 130)
    src, tgt = task.arrays("test")
    loss, right, tokens, exact = 0.0, 0, 0, 0
    for s, t in zip(src, tgt, strict=True):
        wanted = [int(i) for i in t[1:] if i != 0]
        s = s[s != 0][None]
        logits = model(s, np.array([[1, *wanted[:-1]]]))[0].astype(np.float64)
        p = np.exp(logits - logits.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        loss -= sum(math.log(p[i, token]) for i, token in enumerate(wanted))
        right += sum(int(p[i].argmax()) == token for i, token in enumerate(wanted))
        tokens += len(wanted)
        written = [int(i) for i in npt.greedy(model, s, tgt.shape[1] - 1)[0] if i != 0]
        exact += written == wanted
    for batch_size in (1, 7, 256):
        found = npt.evaluate(model, (src, tgt), batch_size, step=5)
        assert found.step == 5
        assert found.loss == pytest.approx(loss / tokens, rel=1e-4)
        assert found.scores == pytest.approx(
            {"token_accuracy": right / tokens, "exact_match": exact / len(src)}, abs=1e-12)
    assert 0 < exact < len(src) and right < tokens               # otherwise it has seen nothing


def test_padding_that_a_model_would_write_counts_for_nothing():
    """A model that finds padding likeliest everywhere has no token right."""
    model = small.transformer()
    table, norm = model.unembed.table.value, model.decoder.blocks[-1].norm3
    norm.bias.value = np.full(8, 50, np.float32)
    table[0] = np.abs(table).max()
    assert not model(SRC, TGT[:, :-1]).argmax(axis=-1).any()
    assert (TGT[:, 1:] == 0).any()
    assert npt.evaluate(model, (SRC, TGT)).scores["token_accuracy"] == 0.0


def test_evaluation_has_no_dropout_and_touches_no_gradient():
    model = small.transformer(dropout=0.9)
    one, again = (npt.evaluate(model, (SRC, TGT)) for _ in range(2))
    assert one == again
    assert all(p.grad is None for p in model.parameters().values())


# The loop.

OPTIMIZERS = {"Adam": lambda m: npt.Adam(m.parameters(), 2e-3, weight_decay=0.01),
              "SGD": lambda m: npt.SGD(m.parameters(), 0.05, momentum=0.9)}


class Run:
    """All that a run needs, fresh from a seed; and all of it that must come out the same."""

    def __init__(self, optimizer="Adam", seed=0, shared_rng=False):
        self.model = small.transformer(seed)
        self.optimizer = OPTIMIZERS[optimizer](self.model)
        self.rng = np.random.default_rng(seed + 1)
        order = self.rng if shared_rng else np.random.default_rng(seed + 2)
        self.batches = npt.Batches((SRC, TGT), 4, order, 0)

    def train(self, n_steps, batches=None, **options):
        self.history = npt.train(
            self.model, self.optimizer, batches or self.batches, self.rng, n_steps,
            schedule=lambda step: npt.warmup_cosine(step, 2e-3, 5, 40), validation=(SRC, TGT),
            every=6, **options)
        return self.history

    def snapshot(self):
        states = {**self.model.state_dict(), **self.optimizer.state_dict()}
        states |= {f"batches {k}": v for k, v in self.batches.state_dict().items()}
        return states | {"rng": np.array(str(self.rng.bit_generator.state)),
                         "history": self.history.state_dict()["json"]}


@functools.cache
def whole_run(optimizer="Adam", shared_rng=False):
    """Twenty steps without a stop."""
    run = Run(optimizer, shared_rng=shared_rng)
    run.train(20)
    return run


def n_saved(path):
    """The number of steps that a run's file tells of."""
    history = npt.History()
    with np.load(path) as file:
        history.load_state_dict({"json": file["history/json"]})
    return len(history.loss)


def same_bits(one, other):
    one, other = one.snapshot(), other.snapshot()
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_a_history_has_a_number_for_each_step_and_evaluations_now_and_then():
    run = Run()
    history = run.train(20)
    assert len(history.loss) == len(history.lr) == 20
    assert history.lr == [npt.warmup_cosine(step, 2e-3, 5, 40) for step in range(1, 21)]
    assert [e.step for e in history.evaluations] == [6, 12, 18, 20]
    assert history.evaluations[-1] == npt.evaluate(run.model, (SRC, TGT), step=20)
    assert history.interrupted is False
    assert np.mean(history.loss[-5:]) < np.mean(history.loss[:5])
    plain = npt.train(run.model, npt.SGD(run.model.parameters(), 0.02), run.batches, None, 3)
    assert plain.lr == [0.02] * 3 and plain.evaluations == []


def test_dropout_acts_in_training_exactly_when_an_rng_is_passed():
    losses = []
    for rng in (None, np.random.default_rng(0), np.random.default_rng(1)):
        model = small.transformer()
        losses.append(npt.train_step(model, npt.SGD(model.parameters(), 1.0), (SRC, TGT), rng))
    assert len(set(losses)) == 3
    plain = npt.cross_entropy(small.transformer()(SRC, TGT[:, :-1]), TGT[:, 1:], 0)[0]
    assert losses[0] == pytest.approx(plain)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("shared_rng", [False, True])
def test_two_runs_from_one_seed_are_the_same(optimizer, shared_rng):
    one, other = Run(optimizer, shared_rng=shared_rng), Run(optimizer, shared_rng=shared_rng)
    one.train(8)
    other.train(8)
    same_bits(one, other)


class Stopping:
    """Batches that press Ctrl-C, or raise, when the step with this number begins."""

    def __init__(self, batches, at, act):
        self.batches, self.at, self.act, self.n = batches, at, act, 0

    def __iter__(self):
        return self

    def __next__(self):
        self.n += 1
        if self.n == self.at:
            self.act()
        return next(self.batches)


def press_ctrl_c():
    signal.raise_signal(signal.SIGINT)


def press_in_the_main_thread():
    """As a terminal does: the main thread may be waiting."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    else:
        press_ctrl_c()


class Killed(BaseException):
    """What no handler sees: the process is gone."""


def die():
    raise Killed


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("shared_rng", [False, True])
@pytest.mark.parametrize("stop", [1, 9, 12, 19])
def test_after_ctrl_c_a_run_goes_on_bit_for_bit(tmp_path, optimizer, shared_rng, stop):
    """Stopped in the middle of step ``stop``, that step is finished and saved, and nothing lost."""
    whole = whole_run(optimizer, shared_rng)
    first = Run(optimizer, shared_rng=shared_rng)
    next_batch = npt.Batches.__next__
    calls = []

    def pressing(self):
        calls.append(None)
        if len(calls) == stop:
            press_ctrl_c()
        return next_batch(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(npt.Batches, "__next__", pressing)
        history = first.train(20, path=tmp_path / "run.npz")
    assert history.interrupted and len(history.loss) == stop
    resumed = Run(optimizer, seed=50, shared_rng=shared_rng)     # nothing of the first is left
    history = resumed.train(20, path=tmp_path / "run.npz", resume=True)
    assert not history.interrupted
    same_bits(resumed, whole)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("killed", [7, 13, 18])
def test_a_killed_run_goes_on_bit_for_bit_from_its_last_save(tmp_path, optimizer, killed):
    whole = whole_run(optimizer)
    path, calls, next_batch = tmp_path / "run.npz", [], npt.Batches.__next__

    def dying(self):
        calls.append(None)
        if len(calls) == killed:
            die()
        return next_batch(self)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(npt.Batches, "__next__", dying)
        Run(optimizer).train(20, path=path)
    assert n_saved(path) == (killed - 1) // 6 * 6
    resumed = Run(optimizer, seed=50)
    resumed.train(20, path=path, resume=True)
    same_bits(resumed, whole)


def test_a_finished_run_does_no_more_and_goes_on_to_a_higher_goal(tmp_path):
    path = tmp_path / "run.npz"
    first = Run()
    first.train(12, path=path)
    again = Run(seed=50)
    again.train(12, path=path, resume=True)
    same_bits(again, first)
    longer = Run(seed=50)
    longer.train(20, path=path, resume=True)
    same_bits(longer, whole_run())


def test_without_resume_a_run_starts_again(tmp_path):
    path = tmp_path / "run.npz"
    Run().train(6, path=path)
    fresh, same = Run(seed=1), Run(seed=1)
    fresh.train(6, path=path)
    same.train(6)
    same_bits(fresh, same)
    assert len(same.train(7, path=tmp_path / "none.npz", resume=True).loss) == 7


def test_the_best_checkpoint_has_the_lowest_validation_loss(tmp_path):
    """The learning rate explodes after a while: the best model is not the last."""
    path = tmp_path / "run.npz"
    run = Run()
    history = npt.train(run.model, run.optimizer, run.batches, run.rng, 30,
                        schedule=lambda step: 3e-3 if step <= 15 else 0.5,
                        validation=(SRC, TGT), every=5, path=path)
    losses = [e.loss for e in history.evaluations]
    assert losses.index(min(losses)) == 2 and losses[-1] > 1.2 * min(losses)
    best = npt.evaluate(npt.load(tmp_path / "run.best.npz"), (SRC, TGT))
    assert best.loss == pytest.approx(min(losses), rel=1e-12)
    last = npt.evaluate(npt.load(path), (SRC, TGT))
    assert last.loss == pytest.approx(losses[-1], rel=1e-12)
    assert sorted(os.listdir(tmp_path)) == ["run.best.npz", "run.npz"]


def test_a_resumed_run_keeps_the_best_of_before(tmp_path):
    path, best = tmp_path / "run.npz", tmp_path / "run.best.npz"
    Run().train(12, path=path)
    before = best.read_bytes()
    worse = Run(seed=50)
    npt.train(worse.model, worse.optimizer, worse.batches, worse.rng, 18,
              schedule=lambda step: 5.0, validation=(SRC, TGT), every=6, path=path, resume=True)
    assert best.read_bytes() == before


def test_batches_that_run_out_end_the_run_evaluated_and_saved(tmp_path):
    run, path = Run(), tmp_path / "run.npz"
    batches = [next(run.batches) for _ in range(8)]
    history = run.train(100, batches=batches, path=path)
    assert len(history.loss) == 8 and [e.step for e in history.evaluations] == [6, 8]
    for name, value in npt.load(path).state_dict().items():
        np.testing.assert_array_equal(value, run.model.state_dict()[name])


def test_a_nan_leaves_the_last_checkpoint_and_goes_no_further(tmp_path):
    run, path = Run(), tmp_path / "run.npz"

    def spoil():
        run.model.parameters()["encoder.blocks.1.ffn.down.b"].value[2] = np.nan

    with pytest.raises(ValueError) as caught:
        run.train(20, batches=Stopping(run.batches, 9, spoil), path=path)
    assert str(caught.value) == ("Step 9: The loss is nan: parameter encoder.blocks.1.ffn.down.b "
                                 "holds NaN or infinity.")
    model = npt.load(path)
    assert all(np.isfinite(value).all() for value in model.state_dict().values())
    assert n_saved(path) == 6


# On several threads.

@pytest.fixture
def parts(monkeypatch):
    """The rows of each part of a batch that begins, and the thread that it begins on."""
    begun, loss = [], npt.Transformer.loss

    def noted(self, batch, rng=None, **options):
        if threading.current_thread() is not threading.main_thread():
            begun.append(len(batch[0]))
        return loss(self, batch, rng, **options)

    monkeypatch.setattr(npt.Transformer, "loss", noted)
    return begun


def blas_threads():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    (blas,) = [x for x in threadpoolctl.threadpool_info() if x["user_api"] == "blas"]
    return blas["num_threads"]


def exact_run(optimizer, n_threads, **options):
    """Twenty steps in float64, without dropout."""
    run = Run(optimizer, **options)
    run.model = run.model.astype(np.float64)
    run.optimizer = OPTIMIZERS[optimizer](run.model)
    run.rng = None
    run.train(20, n_threads=n_threads)
    return run


def assert_same_run(one, other):
    np.testing.assert_allclose(one.history.loss, other.history.loss, rtol=1e-9)
    assert one.history.lr == other.history.lr
    for name, value in other.model.state_dict().items():
        np.testing.assert_allclose(one.model.state_dict()[name], value, rtol=1e-9, atol=1e-9,
                                   err_msg=name)
    for mine, its in zip(one.history.evaluations, other.history.evaluations, strict=True):
        assert mine.loss == pytest.approx(its.loss, rel=1e-9)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_does_not_depend_on_the_number_of_threads(parts, optimizer):
    """Four rows in a batch: whole, in two parts, in three of 2, 1 and 1, in four."""
    whole = exact_run(optimizer, 1)
    assert parts == []
    for n, sizes in ((2, [2] * 40), (3, [1] * 40 + [2] * 20), (7, [1] * 80)):
        parts.clear()
        run = exact_run(optimizer, n)
        assert sorted(parts) == sizes
        assert_same_run(run, whole)


def test_each_part_drops_entries_of_its_own():
    """Two equal halves of a batch: their gradients are not the same, and a seed tells them all."""
    def gradients(seed):
        model = small.transformer(dropout=0.5)
        both = DataParallel(model, 2)
        loss, backward = both.loss((np.tile(SRC, (2, 1)), np.tile(TGT, (2, 1))),
                                   np.random.default_rng(seed))
        backward()
        halves = [copy.loss((SRC, TGT), np.random.default_rng(seed))[0] for copy in both.copies]
        assert halves[0] == halves[1] != loss
        return loss, model.unembed.table.grad

    (loss, grad), (again, same), (other, _) = map(gradients, (0, 0, 1))
    assert loss == again != other
    np.testing.assert_array_equal(grad, same)


def pressing_in_a_part(at):
    """Ctrl-C while this part of a batch is computed, on a thread that is not the main one."""
    begun, loss = [], npt.Transformer.loss

    def pressed(self, batch, rng=None, **options):
        if threading.current_thread() is not threading.main_thread():
            begun.append(None)
            if len(begun) == at:
                press_ctrl_c()
        return loss(self, batch, rng, **options)

    return pressed


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("stop", [5, 12])
@pytest.mark.parametrize("part", [0, 1])
def test_on_threads_too_a_run_goes_on_bit_for_bit(parts, tmp_path, monkeypatch, optimizer,
                                                  stop, part):
    whole = Run(optimizer)
    whole.train(20, n_threads=2)
    assert parts == [2] * 40
    first, path, before = Run(optimizer), tmp_path / "run.npz", threading.active_count()
    with monkeypatch.context() as patch:
        patch.setattr(npt.Transformer, "loss", pressing_in_a_part(2 * stop - part))
        history = first.train(20, path=path, n_threads=2)
    assert history.interrupted and len(history.loss) == stop
    assert threading.active_count() == before
    resumed = Run(optimizer, seed=50)
    resumed.train(20, path=path, resume=True, n_threads=2)
    same_bits(resumed, whole)


def test_a_second_ctrl_c_within_a_part_stops_at_once_and_keeps_the_last_checkpoint(
        tmp_path, monkeypatch):
    run, path, blas = Run(), tmp_path / "run.npz", blas_threads()
    before, handler = threading.active_count(), signal.getsignal(signal.SIGINT)
    loss, begun = npt.Transformer.loss, []

    def twice(self, batch, rng=None, **options):
        if threading.current_thread() is not threading.main_thread():
            begun.append(None)
            if len(begun) == 17:
                time.sleep(0.1)           # until the main thread waits: before, it would not wake
                press_in_the_main_thread()
                while signal.getsignal(signal.SIGINT) is not handler:    # the first is heard
                    time.sleep(0.001)
                press_in_the_main_thread()
        return loss(self, batch, rng, **options)

    with pytest.raises(KeyboardInterrupt):
        monkeypatch.setattr(npt.Transformer, "loss", twice)
        run.train(200, path=path, n_threads=2)
    assert threading.active_count() == before and blas_threads() == blas
    assert signal.getsignal(signal.SIGINT) is handler
    monkeypatch.setattr(npt.Transformer, "loss", loss)
    kept = Run(seed=50).train(6, path=path, resume=True)
    assert len(kept.loss) % 6 == 0 and len(kept.loss) >= 6


@pytest.mark.parametrize("before, after", [(2, 1), (1, 2)])
def test_a_run_saved_on_two_threads_goes_on_with_one(tmp_path, before, after):
    path, whole = tmp_path / "run.npz", exact_run("Adam", 2)
    first, second = Run(), Run(seed=50)
    for run in (first, second):
        run.model, run.rng = run.model.astype(np.float64), None
        run.optimizer = OPTIMIZERS["Adam"](run.model)
    first.train(12, path=path, n_threads=before)
    second.train(20, path=path, resume=True, n_threads=after)
    assert_same_run(second, whole)
    assert npt.load(path).parameters().keys() == whole.model.parameters().keys()


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("row", [0, 9])
def test_a_nan_in_one_row_is_reported_on_threads_as_without(parts, n_threads, row):
    run, before, blas = Run(), threading.active_count(), blas_threads()
    src = np.where(SRC == 12, 11, SRC)
    src[row, 0] = 12                                     # one row alone has this id
    run.model.src_embed.tokens.table.value[12] = np.nan
    with pytest.raises(ValueError) as caught:
        run.train(3, batches=[(src, TGT)], n_threads=n_threads)
    assert str(caught.value) == ("Step 1: The loss is nan: parameter src_embed.tokens.table "
                                 "holds NaN or infinity.")
    assert threading.active_count() == before and blas_threads() == blas
    assert parts == [5, 5] * (n_threads - 1)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("row", [0, 9])
def test_a_wrong_id_in_one_row_is_reported_on_threads_as_without(n_threads, row):
    run, before, blas = Run(), threading.active_count(), blas_threads()
    tgt = TGT.copy()
    tgt[row, 1] = small.V
    with pytest.raises(ValueError) as caught:
        run.train(9, batches=[(SRC, TGT), (SRC, tgt), (SRC, TGT)], n_threads=n_threads)
    assert str(caught.value) == "Step 2: target id 11 is outside the vocabulary of 11."
    assert threading.active_count() == before and blas_threads() == blas


def test_a_part_without_targets_is_left_out():
    """Its loss, a mean over nothing, may be anything."""
    empty = np.zeros_like(TGT[:5])
    tgt, losses = np.concatenate([empty, TGT[5:]]), []
    for n in (1, 2):
        model = small.transformer().astype(np.float64)
        both = DataParallel(model, n)
        loss, backward = both.loss((SRC, tgt), None)
        backward()
        losses.append((loss, model.unembed.table.grad))
    assert losses[0][0] == pytest.approx(losses[1][0], rel=1e-12)
    np.testing.assert_allclose(losses[0][1], losses[1][1], rtol=1e-9, atol=1e-15)


def test_without_threadpoolctl_several_threads_are_an_error(monkeypatch):
    blas_controller.cache_clear()
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    run = Run()
    with pytest.raises(ImportError, match="needs threadpoolctl: pip install"):
        run.train(3, n_threads=2)
    run.train(3)


# Ctrl-C.

def test_ctrl_c_finishes_the_step_and_the_handler_comes_back():
    before = signal.getsignal(signal.SIGINT)
    run = Run()
    during = []
    history = run.train(20, batches=Stopping(run.batches, 3, lambda: (
        during.append(signal.getsignal(signal.SIGINT)), press_ctrl_c())))
    assert len(history.loss) == 3 and history.interrupted
    assert during[0] is not before and signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_in_the_last_step_is_a_finished_run():
    run = Run()
    history = run.train(5, batches=Stopping(run.batches, 5, press_ctrl_c))
    assert len(history.loss) == 5 and not history.interrupted
    assert [e.step for e in history.evaluations] == [5]


def test_a_second_ctrl_c_stops_at_once():
    before = signal.getsignal(signal.SIGINT)
    run = Run()

    def twice():
        press_ctrl_c()
        press_ctrl_c()

    with pytest.raises(KeyboardInterrupt):
        run.train(20, batches=Stopping(run.batches, 3, twice))
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("error", [RuntimeError, Killed])
def test_the_handler_comes_back_after_an_error(error):
    before = signal.getsignal(signal.SIGINT)
    run = Run()

    def fail():
        raise error

    with pytest.raises(error):
        run.train(20, batches=Stopping(run.batches, 3, fail))
    assert signal.getsignal(signal.SIGINT) is before


def test_where_ctrl_c_is_ignored_it_stays_ignored():
    """As in a background job: the keyboard is somebody else's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run = Run()
    history = run.train(6, batches=Stopping(run.batches, 3, press_ctrl_c))
    assert len(history.loss) == 6 and signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_training_works_in_another_thread():
    """There signals cannot be handled, and are left alone."""
    run, before = Run(), signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=run.train, args=(3,))
    thread.start()
    thread.join()
    assert len(run.history.loss) == 3 and signal.getsignal(signal.SIGINT) is before


# The progress bar.

SCRIPT = """
import numpy as np, sys
sys.path.insert(0, "tests")
import small, npt_lib as npt
model = small.transformer()
batches = npt.Batches(small.pairs(np.random.default_rng(0)), 4, np.random.default_rng(0), 0)
npt.train(model, npt.Adam(model.parameters()), batches, None, 5)
print("trained")
"""


def environment(**changes):
    quiet = {k: v for k, v in os.environ.items() if k != "TQDM_DISABLE"}
    return {**quiet, **changes}


def in_a_terminal(**changes):
    """What the script shows on a terminal of its own; Windows has none like it."""
    pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=theirs, stderr=theirs,
                          stdin=theirs, env=environment(**changes)) as process:
        os.close(theirs)
        shown = b""
        while select.select([ours], [], [], 60)[0]:
            try:
                more = os.read(ours, 10_000)
            except OSError:                                      # the terminal is closed
                break
            if not more:
                break
            shown += more
        process.wait(60)
    os.close(ours)
    return shown.decode()


def test_a_terminal_shows_a_bar():
    shown = in_a_terminal()
    assert "5/5" in shown and "100%" in shown and "trained" in shown


def test_no_bar_where_nobody_watches_or_when_it_is_unwanted():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True,
                          env=environment(), check=True)
    assert (done.stdout, done.stderr) == ("trained\n", "")
    assert in_a_terminal(TQDM_DISABLE="1").split() == ["trained"]


class Terminal:
    def isatty(self):
        return True

    def write(self, text): ...

    def flush(self): ...


@pytest.mark.parametrize("disable, silent", [(None, False), ("", False), ("0", False), ("1", True),
                                             ("true", True)])
def test_the_bar_starts_where_the_run_stands(monkeypatch, disable, silent):
    monkeypatch.setattr(sys, "stderr", Terminal())
    if disable is None:
        monkeypatch.delenv("TQDM_DISABLE", raising=False)
    else:
        monkeypatch.setenv("TQDM_DISABLE", disable)
    bar = progress_bar(3, 10)
    assert isinstance(bar, SilentBar) == silent
    if not silent:
        assert (bar.n, bar.total) == (3, 10)
    bar.update(1)
    bar.close()


def test_without_tqdm_training_is_silent(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TQDM_DISABLE", "")
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert isinstance(progress_bar(0, 1), SilentBar)
