"""Any model trains, is saved and goes on: models as a reader would write them, by public names."""

from dataclasses import dataclass

import numpy as np
import pytest
from readers_models import Classifier, LanguageModel
from small import loss_errors
from test_exchanged_parts import MODERN, SIZES, class_batch, language_batch, pair_batch

import npt_lib as npt


@dataclass(frozen=True)
class Sizes:
    """A reader's own sizes; what has dropout draws random numbers."""

    n_in: int = 3
    n_hidden: int = 7
    noise: float = 0.0


class Regression(npt.Module):
    """Two linear layers and a squared error: no attention, no ids, and not all options."""

    def __init__(self, config, rng):
        self.config = config
        self.hidden = npt.Linear(config.n_in, config.n_hidden, rng)
        self.out = npt.Linear(config.n_hidden, 1, rng)

    def forward(self, x):
        h, hidden_backward = self.hidden.forward(x)
        h, gelu_backward = npt.gelu(h)
        y, out_backward = self.out.forward(h)
        return y[:, 0], lambda dy: hidden_backward(gelu_backward(out_backward(dy[:, None])))

    def loss(self, batch, rng):
        x, wanted = batch
        y, backward = self.forward(x)
        return ((y - wanted) ** 2).mean(), lambda: backward(2 * (y - wanted) / len(y))

    def n_targets(self, batch):
        return len(batch[0])

    def scores(self, batch):
        x, wanted = batch
        return {"close": np.abs(self(x) - wanted) < 0.1}


class OddLayer(npt.Module):
    """Keeps the contract in ways that no layer of the library does.

    y = x * drawn + a + b: parameters in a dict, one gradient array for two of them, random numbers
    by a method of its own, and a value that is read only on the way back.
    """

    def __init__(self, config):
        self.noise = config.noise
        self.terms = {"a": npt.Parameter(np.zeros(config.n_in, np.float32)),
                      "deeper": [{"b": npt.Parameter(np.full(config.n_in, 0.5, np.float32))}]}
        self.scale = npt.Parameter(np.ones(config.n_in, np.float32))

    def forward(self, x, rng=None):
        drawn = np.ones(x.shape, x.dtype)
        if rng is not None and self.noise:
            drawn = rng.normal(1.0, self.noise, x.shape).astype(x.dtype)
        a, b = self.terms["a"], self.terms["deeper"][0]["b"]

        def backward(dy):
            g = dy.sum(axis=0)
            a.add_grad(g)
            b.add_grad(g)
            self.scale.add_grad((dy * x * drawn).sum(axis=0))
            return dy * drawn * self.scale.value

        return x * drawn * self.scale.value + a.value + b.value, backward


class Odd(Regression):
    """The regression, with the odd layer in front."""

    def __init__(self, config, rng):
        super().__init__(config, rng)
        self.front = OddLayer(config)

    def loss(self, batch, rng):
        x, wanted = batch
        x, front_backward = self.front.forward(x, rng)
        y, backward = self.forward(x)

        def loss_backward(dloss=1.0):
            front_backward(backward(dloss * 2 * (y - wanted) / len(y)))

        return ((y - wanted) ** 2).mean(), loss_backward


def regression_batch(rng, n=5):
    x = rng.standard_normal((n, 3))
    return x, np.sin(x[:, 0]) + x[:, 1] * x[:, 2]


MODELS = {
    "a regression": (Regression, Sizes(), regression_batch),
    "an odd layer": (Odd, Sizes(), regression_batch),
    "an odd layer that draws": (Odd, Sizes(noise=0.3), regression_batch),
    "a language model": (LanguageModel, SIZES, language_batch),
    "a classifier": (Classifier, MODERN, class_batch),
    "an encoder-decoder of other parts": (npt.Transformer, MODERN, pair_batch),
}
every = pytest.mark.parametrize("kind, config, batch", MODELS.values(), ids=list(MODELS))


def cast(arrays, dtype):
    return tuple(x.astype(dtype) if x.dtype.kind == "f" else x for x in arrays)


class Run:
    """All that a run needs, in float32 or float64."""

    def __init__(self, kind, config, batch, seed=0, dtype=np.float32, draws=True):
        self.model = kind(config, np.random.default_rng(seed)).astype(dtype)
        self.optimizer = npt.Adam(self.model.parameters(), 3e-3)
        self.rng = np.random.default_rng(seed) if draws else None
        self.data = cast(batch(np.random.default_rng(1), 60), dtype)
        self.batches = npt.Batches(self.data, 8, np.random.default_rng(seed + 1))

    def train(self, n_steps, **options):
        return npt.train(self.model, self.optimizer, self.batches, self.rng, n_steps,
                         validation=self.data, every=5, **options)


def assert_same_model(one, other, **tolerance):
    a, b = one.state_dict(), other.state_dict()
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype
        np.testing.assert_allclose(a[name], b[name], err_msg=name, **tolerance)


@every
def test_the_loss_has_the_right_gradients(kind, config, batch):
    run = Run(kind, config, batch, dtype=np.float64)

    errors = loss_errors(lambda: run.model.loss(run.data, np.random.default_rng(1)),
                         run.model.parameters())
    assert errors and max(errors.values()) < 1e-6


@every
def test_it_learns_and_is_evaluated(kind, config, batch):
    run = Run(kind, config, batch)
    history = run.train(60)
    first, *_, last = history.evaluations
    assert last.loss < first.loss and all(p.value.dtype == np.float32
                                          for p in run.model.parameters().values())
    assert last == npt.evaluate(run.model, run.data, batch_size=7, step=60) or (
        last.loss == pytest.approx(npt.evaluate(run.model, run.data, 7).loss, rel=1e-5))
    assert set(last.scores) == set(run.model.scores(run.data) if hasattr(run.model, "scores")
                                   else {})


@every
def test_one_thread_and_two_train_to_the_same_values(kind, config, batch):
    pytest.importorskip("threadpoolctl")
    one, two = (Run(kind, config, batch, dtype=np.float64, draws=False) for _ in range(2))
    first, second = one.train(12), two.train(12, n_threads=2)
    np.testing.assert_allclose(first.loss, second.loss, rtol=1e-9)
    assert_same_model(one.model, two.model, rtol=1e-7, atol=1e-10)


@every
@pytest.mark.parametrize("n_threads", [1, 2])
def test_it_is_saved_loaded_and_goes_on_to_the_bit(tmp_path, kind, config, batch, n_threads):
    pytest.importorskip("threadpoolctl")
    path, options = tmp_path / "run.npz", {"n_threads": n_threads}
    whole, first, rest = (Run(kind, config, batch, seed) for seed in (0, 0, 50))
    whole.train(15, **options)
    first.train(7, path=path, **options)
    again = npt.load(path)
    assert type(again) is kind and again.config == config
    assert_same_model(again, first.model, rtol=0)
    assert npt.evaluate(again, first.data) == npt.evaluate(first.model, first.data)
    rest.train(15, path=path, resume=True, **options)
    assert_same_model(rest.model, whole.model, rtol=0)


def test_a_model_without_an_option_says_so():
    run = Run(Regression, Sizes(), regression_batch)
    with pytest.raises(ValueError, match=r"Regression.loss\(batch, rng, label_smoothing\): got an"):
        run.train(3, label_smoothing=0.1)


def test_the_score_is_the_mean_over_all_rows():
    run = Run(Regression, Sizes(), regression_batch)
    x, wanted = run.data
    close = np.abs(run.model(x) - wanted) < 0.1
    for batch_size in (1, 7, 60):
        found = npt.evaluate(run.model, run.data, batch_size)
        assert found.scores == {"close": pytest.approx(close.mean())}
        assert found.loss == pytest.approx(((run.model(x) - wanted) ** 2).mean(), rel=1e-5)
