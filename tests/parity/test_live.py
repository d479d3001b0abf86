"""Beside PyTorch over random configurations: what the fixtures' few sizes might hide.

Every seed draws sizes, heads, masks, norms, activation, positions, tying and padding.
"""

import numpy as np
import pytest
import torch
import twins
from cases import Case
from parity_runs import (
    OPTIMIZERS,
    Training,
    beyond,
    draw,
    ours,
    train_ours,
    without_key_biases,
)
from torch.nn import functional as F

import npt_lib as npt


def seeds(n):
    return pytest.mark.parametrize("seed", range(n))


def random_config(rng):
    n_heads, pad_id = int(rng.integers(1, 5)), int(rng.choice([0, 3]))
    return npt.Config(
        n_src_vocab=int(rng.integers(5, 40)), n_tgt_vocab=int(rng.integers(5, 40)),
        d_model=n_heads * int(rng.integers(4, 17)), n_heads=n_heads,
        d_ff=int(rng.integers(1, 100)), n_layers=int(rng.integers(1, 4)), max_len=20,
        pad_id=pad_id, pre_norm=bool(rng.integers(2)), tie_embeddings=bool(rng.integers(2)),
        activation=str(rng.choice(["relu", "gelu"])),
        positions=str(rng.choice(["sinusoidal", "learned"])),
    )


def random_ids(rng, n_rows, n_vocab, pad_id):
    """Ids, the first row full, the others padded after a length of their own, which may be 0."""
    ids = rng.integers(4, n_vocab, (n_rows, int(rng.integers(2, 19))))
    lengths = rng.integers(0, ids.shape[1] + 1, (n_rows, 1))
    lengths[0] = ids.shape[1]
    return np.where(np.arange(ids.shape[1]) < lengths, ids, pad_id)


def batch(rng, config, n_rows):
    src = random_ids(rng, n_rows, config.n_src_vocab, config.pad_id)
    tgt = random_ids(rng, n_rows, config.n_tgt_vocab, config.pad_id)
    return src, np.hstack([np.full((n_rows, 1), config.bos_id), tgt])


def random_mask(rng, *shape):
    """A boolean mask that broadcasts to the shape; some rows may be hidden throughout."""
    shape = [n if i in (0, len(shape) - 1) or rng.integers(2) else 1 for i, n in enumerate(shape)]
    return rng.random(shape) < rng.uniform(0.2, 1)


def assert_agree(case, seed):
    """As for the fixtures, but a gradient that happens to be tiny or 0 is measured by the rest."""
    given = draw(case, seed)
    expected = twins.theirs(case, given)
    for dtype, limit, floor in ((np.float64, 1e-9, 1e-6), (np.float32, 1e-5, 1e-2)):
        assert beyond(limit, ours(case, given, dtype), expected, floor) == {}


@seeds(30)
def test_whole_model(seed):
    rng = np.random.default_rng(seed)
    config = random_config(rng)
    ids = batch(rng, config, int(rng.integers(1, 6)))
    assert_agree(Case(str(config), "Transformer", lambda _: ids,
                      lambda rng: npt.Transformer(config, rng)), seed)


@seeds(20)
def test_attention_under_any_mask(seed):
    rng = np.random.default_rng(seed)
    B, H, T, S = (int(n) for n in rng.integers(1, 7, 4))
    D = H * int(rng.integers(1, 9))
    own, other = random_mask(rng, B, H, T, T), random_mask(rng, B, H, T, S)
    x, memory = rng.standard_normal((B, T, D)), rng.standard_normal((B, S, D))
    assert_agree(Case("", "SelfAttention", lambda _: (x, own),
                      lambda rng: npt.SelfAttention(D, H, rng)), seed)
    assert_agree(Case("", "CrossAttention", lambda _: (x, memory, other),
                      lambda rng: npt.CrossAttention(D, H, rng)), seed)


@seeds(10)
def test_layer_norm(seed):
    rng = np.random.default_rng(seed)
    D, eps = int(rng.integers(3, 50)), 10 ** rng.uniform(-8, -2)
    x = rng.standard_normal((4, 3, D)) * 10 ** rng.uniform(-2, 2) + rng.standard_normal()
    assert_agree(Case("", "LayerNorm", lambda _: (x,), lambda rng: npt.LayerNorm(D, eps)), seed)


@seeds(10)
def test_cross_entropy(seed):
    rng = np.random.default_rng(seed)
    V, pad_id, smoothing = int(rng.integers(5, 30)), int(rng.choice([0, 3])), rng.uniform(0, 0.9)
    targets = random_ids(rng, 4, V, pad_id)
    logits = rng.standard_normal((*targets.shape, V)) * 10 ** rng.uniform(-2, 2)
    loss, backward = npt.cross_entropy(logits, targets, pad_id, smoothing)
    x = torch.tensor(logits, requires_grad=True)
    expected = twins.cross_entropy(x, torch.tensor(targets), ignore_index=pad_id,
                                   label_smoothing=smoothing)
    expected.backward()
    np.testing.assert_allclose(loss, expected.item(), rtol=1e-12)
    np.testing.assert_allclose(backward(), x.grad.numpy(), rtol=1e-9, atol=1e-15)


def test_a_batch_of_padding_alone():
    """A mean over nothing: PyTorch says NaN, we say 0, as a training run would wish."""
    logits, targets = np.ones((3, 5)), np.zeros(3, int)
    assert F.cross_entropy(torch.tensor(logits), torch.tensor(targets), ignore_index=0).isnan()
    loss, backward = npt.cross_entropy(logits, targets, pad_id=0)
    assert loss == 0 and not backward().any()


@seeds(12)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_five_training_steps(seed, optimizer):
    rng = np.random.default_rng(seed)
    config = random_config(rng)
    training = Training("", config, optimizer, lr=0.1 if optimizer == "sgd" else 0.003)
    src, tgt = batch(rng, config, 4)
    given = {"src": np.stack([src] * 5), "tgt": np.stack([tgt] * 5),
             "rates": rng.uniform(0.1, 1, 5) * training.lr,
             **training.build(rng).astype(np.float64).state_dict()}
    expected = twins.train_theirs(training, given)
    del expected["norms"]
    result = without_key_biases(train_ours(training, given))
    assert beyond(1e-9, result, without_key_biases(expected)) == {}
