"""Several threads: the same list, the same gradients, whatever a layer does; and BLAS as before."""

import importlib
import threading

import numpy as np
import pytest
import small

import npt_lib as npt
from npt_lib.parallel.data_parallel import DataParallel
from npt_lib.parallel.threads import each, threads

threadpoolctl = pytest.importorskip("threadpoolctl")
LONG_WAIT = 60                        # seconds: a deadlock becomes a failure
SRC, TGT = small.pairs(np.random.default_rng(0), 7)


def here():
    return threading.get_ident()


def blas_threads():
    (blas,) = [x for x in threadpoolctl.threadpool_info() if x["user_api"] == "blas"]
    return blas["num_threads"]


# each: the same list, made by several.

def test_results_stand_in_the_order_of_the_items_whoever_is_done_first():
    """The first item is finished last: it waits for the last, on another thread."""
    last = threading.Event()

    def work(i, name):
        if i == 0:
            assert last.wait(LONG_WAIT)
        if i == 9:
            last.set()
        return i, name

    with threads(2):
        assert each(work, range(10), "abcdefghij") == list(enumerate("abcdefghij"))


@pytest.mark.parametrize("n", [2, 3, 5])
def test_n_threads_work_at_once_and_no_more(n):
    meeting = threading.Barrier(n)
    before = threading.active_count()
    with threads(n):
        found = each(lambda i: (i < n and meeting.wait(LONG_WAIT), here())[1], range(4 * n))
        assert len(set(found)) == n
        assert len(each(lambda i: i, range(3))) == 3          # once more, with the same threads
        assert threading.active_count() == before + n
    assert threading.active_count() == before


@pytest.mark.parametrize("items", [0, 1, 2, 7])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_each_is_a_loop(items, n):
    with threads(n):
        assert each(lambda a, b: a * b, range(items), range(1, 100)) == [
            a * (a + 1) for a in range(items)]
        assert each(lambda: 1) == []


def in_order():
    """Where each item is worked on, and in what order."""
    order = []
    found = each(lambda i: (order.append(i), here())[1], range(6))
    return order == list(range(6)) and set(found) == {here()}


def test_without_threads_the_items_are_done_in_order_on_the_one_that_asks():
    assert in_order()
    for n in (1, 2):
        with threads(n):
            assert in_order() == (n == 1)
            with threads(1):
                assert in_order()
        assert in_order()


def test_parts_within_a_part_are_done_in_order_and_wait_for_nobody():
    meeting = threading.Barrier(2)

    def work(i):
        if i < 2:
            meeting.wait(LONG_WAIT)               # both threads are at work
        return here(), each(lambda j: (here(), i, j), range(3))

    with threads(2):
        for i, (ident, inside) in enumerate(each(work, range(5))):
            assert inside == [(ident, i, j) for j in range(3)]


def test_threads_within_threads_are_the_inner_ones():
    with threads(3), threads(2):
        meeting = threading.Barrier(2)
        found = each(lambda i: (meeting.wait(LONG_WAIT) if i < 2 else 0, here())[1], range(12))
        assert len(set(found)) == 2


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_is_raised_when_nobody_is_at_work_any_more(error):
    meeting, done, before = threading.Barrier(2), [], threading.active_count()

    def work(i):
        if i < 2:
            meeting.wait(LONG_WAIT)
        if i == 0:
            raise error("item 0")
        done.append(i)

    with threads(2), pytest.raises(error, match="item 0"):
        each(work, range(7))
    assert sorted(done) == list(range(1, 7))
    assert threading.active_count() == before and in_order()


def test_what_numpy_does_about_errors_holds_on_all_threads():
    def overflow(i):
        return np.float32(1e38) * np.float32(1e38)

    with threads(2), np.errstate(over="raise"), pytest.raises(FloatingPointError):
        each(overflow, range(4))


# BLAS: on one thread for each of ours, and afterwards as it was.

@pytest.fixture
def two_for_blas():
    with threadpoolctl.threadpool_limits(2, "blas"):
        if blas_threads() != 2:
            pytest.skip("BLAS cannot be told how many threads to use")
        yield


def test_blas_has_one_thread_for_each_of_ours(two_for_blas):
    with threads(2):
        assert each(lambda i: blas_threads(), range(5)) == [1] * 5
    assert blas_threads() == 2
    with threads(1):
        assert each(lambda i: blas_threads(), range(2)) == [2, 2]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_blas_is_as_before_after_an_error(two_for_blas, error):
    def work(i):
        raise error

    with pytest.raises(error), threads(2):
        each(work, range(3))
    assert blas_threads() == 2


def test_two_users_at_once_give_blas_back_when_the_last_is_done(two_for_blas):
    """The first to enter is the first to leave: each by itself would restore what it found."""
    entered, finish = threading.Event(), threading.Event()

    def other():
        with threads(2):
            entered.set()
            assert finish.wait(LONG_WAIT)

    first = threads(2)
    first.__enter__()
    thread = threading.Thread(target=other)
    thread.start()
    assert entered.wait(LONG_WAIT)
    first.__exit__(None, None, None)
    between = blas_threads()
    finish.set()
    thread.join(LONG_WAIT)
    assert between == 1 and blas_threads() == 2


# DataParallel: what the model computes for a whole batch.

def gradients(model, batch=(SRC, TGT), rng=None):
    loss, backward = model.loss(batch, rng, label_smoothing=0.1)
    backward()
    return loss, {name: p.grad for name, p in model.parameters().items()}


def assert_same_gradients(one, other):
    assert one[0] == pytest.approx(other[0], rel=1e-12)
    assert one[1].keys() == other[1].keys()
    for name, grad in one[1].items():
        np.testing.assert_allclose(grad, other[1][name], rtol=1e-9, atol=1e-15, err_msg=name)


def model64(**style):
    return small.transformer(**style).astype(np.float64)


@pytest.mark.parametrize("style", small.STYLES)
@pytest.mark.parametrize("n", [2, 3, 9])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_parts_add_up_to_the_batch(style, n, n_threads):
    own, model = (model64(**small.STYLES[style]) for _ in range(2))
    with threads(n_threads):
        assert_same_gradients(gradients(DataParallel(model, n)), gradients(own))


def test_a_second_backward_adds_to_the_gradients_there():
    model, own = DataParallel(model64(), 3), model64()
    for m in (model, own):
        gradients(m)
    assert_same_gradients(gradients(model), gradients(own))


def test_copies_look_at_the_models_values_also_when_it_has_moved():
    model = small.transformer()
    both = DataParallel(model, 2)
    for p in model.parameters().values():
        p.value = p.value + 1
    both.loss((SRC, TGT))
    for copy in both.copies:
        for p, q in zip(model.parameters().values(), copy.parameters().values(), strict=True):
            assert q.value is p.value and q.grad is None


def test_tied_embeddings_are_one_parameter_in_every_copy():
    both = DataParallel(model64(tie_embeddings=True), 3)
    for copy in both.copies:
        assert copy.unembed.table is copy.tgt_embed.tokens.table


def test_nothing_that_a_layer_handed_out_is_written_to():
    """One array for two parameters, and kept by the layer: it stays as it was."""
    handed_out = []

    class Twins(npt.Module):
        def __init__(self):
            self.a, self.b = npt.Parameter(np.ones(3)), npt.Parameter(np.ones(3))

        def n_targets(self, batch):
            return len(batch[0])

        def loss(self, batch, rng=None):
            (x,) = batch

            def backward(dloss=1.0):
                g = dloss * x.mean(axis=0)
                handed_out.append((g, g.copy()))
                self.a.add_grad(g)
                self.b.add_grad(g)

            return float(np.mean(x @ (self.a.value + self.b.value))), backward

    x, model = np.random.default_rng(0).standard_normal((7, 3)), Twins()
    with threads(2):
        both = DataParallel(model, 2)
        for _ in range(2):
            _, backward = both.loss((x,))
            backward()
    for p in (model.a, model.b):
        np.testing.assert_allclose(p.grad, 2 * x.mean(axis=0), rtol=1e-12)
    for g, before in handed_out:
        np.testing.assert_array_equal(g, before)


@pytest.mark.parametrize("batch", [SRC, (SRC, TGT[:3]), [SRC, TGT], ()])
def test_a_batch_that_cannot_be_cut_is_refused(batch):
    with pytest.raises(ValueError, match="batches that are tuples of arrays with one first axis"):
        DataParallel(small.transformer(), 2).loss(batch)


def test_attention_in_tiles_uses_the_threads_that_are_there(monkeypatch):
    attention = importlib.import_module("npt_lib.dot_product_attention")
    monkeypatch.setattr(attention, "LONG", 0)
    q, k, v = np.random.default_rng(0).standard_normal((3, 4, 6, 5))
    y, backward = npt.attention(q, k, v)
    with threads(2):
        again, backward2 = npt.attention(q, k, v)
        np.testing.assert_array_equal(again, y)
        for a, b in zip(backward(y), backward2(y), strict=True):
            np.testing.assert_array_equal(a, b)
