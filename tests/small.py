"""Small models and data that several tests share."""

import numpy as np

import npt_lib as npt
from npt_lib.gradcheck import relative_error
from npt_lib.tasks import copy_task

N_SRC, V = 13, 11
CONFIG = npt.Config(n_src_vocab=N_SRC, n_tgt_vocab=V, d_model=8, n_heads=2, d_ff=7, n_layers=2,
                    dropout=0.2, max_len=9)

STYLES = {
    "post-norm": {},
    "pre-norm": {"pre_norm": True},
    "tied": {"tie_embeddings": True},
    "learned positions": {"positions": "learned", "activation": "gelu", "pre_norm": True},
}


def config(**options):
    sizes = {name: getattr(CONFIG, name) for name in CONFIG.__dataclass_fields__}
    return npt.Config(**sizes | options)


def transformer(seed=0, spread=0.3, **options):
    """A model with random gains, and weights large enough for its outputs to differ."""
    rng = np.random.default_rng(seed)
    model = npt.Transformer(config(**options), rng)
    for p in model.parameters().values():
        p.value = p.value + np.float32(spread) * rng.standard_normal(p.shape, np.float32)
    return model


def sources(rng, n=5, length=6, n_vocab=N_SRC):
    """Ids (n, length) of every length from 1 up, padded at the end."""
    src = rng.integers(3, n_vocab, (n, length))
    for row, used in zip(src, np.arange(n) % length + 1, strict=True):
        row[used:] = 0
    return src


def pairs(rng, n=5):
    """(src, tgt) with padding; tgt begins with 1 and ends with 2."""
    tgt = np.zeros((n, 6), int)
    for i, row in enumerate(tgt):
        used = i % 4 + 1
        row[0], row[1:used + 1], row[used + 1] = 1, rng.integers(3, V, used), 2
    return sources(rng, n), tgt


def copying(seed=0, n_train=200, n_test=20):
    """Short sequences to copy: a task, and a model of its size."""
    task = copy_task(np.random.default_rng(seed), n_train, n_test, lengths=(2, 4), n_values=6)
    model = npt.Transformer(task.config(d_model=16, n_heads=2, d_ff=32, n_layers=1),
                            np.random.default_rng(seed))
    return task, model


def sampled_errors(loss, parameters, n=16):
    """Gradients of a whole model at n entries of each parameter, where all would take long.

    ``loss() -> (number, backward)``. The entries are drawn; their central differences and the
    gradients there are compared as one vector per parameter.
    """
    for p in parameters.values():
        p.grad = None
    loss()[1]()
    rng, errors = np.random.default_rng(0), {}
    for name, p in parameters.items():
        entries = p.value.reshape(-1)                    # a view: what changes here changes there
        assert np.shares_memory(entries, p.value) and p.value.dtype == np.float64
        drawn = rng.choice(entries.size, min(n, entries.size), replace=False)
        found = [npt.numeric_gradient(lambda: loss()[0], entries[i:i + 1])[0] for i in drawn]
        errors[name] = relative_error(p.grad.reshape(-1)[drawn], np.array(found))
    return errors
