"""Small models and data that several tests share."""

import numpy as np

import npt_lib as npt
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


def directed_errors(forward, inputs, parameters, n=4):
    """``gradient_errors`` of a whole model, along n random directions of each array.

    Entry by entry would take long. A direction moves all entries of an array at once, so a wrong
    one shows in each; by the chain rule its gradient is the array's gradient times the direction.
    """
    rng, inputs = np.random.default_rng(0), [np.array(x) for x in inputs]
    floats = {f"input {i}": x for i, x in enumerate(inputs) if x.dtype.kind == "f"}
    arrays = floats | {name: p.value for name, p in parameters.items()}
    starts = {name: x.copy() for name, x in arrays.items()}
    ways = {name: rng.standard_normal((n, *x.shape)) / np.sqrt(x.size)
            for name, x in arrays.items()}

    def moved(*steps):                                   # steps: for each array one, (n,)
        for (name, x), step in zip(arrays.items(), steps, strict=True):
            x[...] = starts[name] + np.tensordot(step, ways[name], axes=1)
        y, backward = forward(*inputs)

        def moved_backward(dy):
            for p in parameters.values():
                p.grad = None
            dxs = backward(dy)
            dxs = dxs if isinstance(dxs, tuple) else () if dxs is None else (dxs,)
            grads = dict(zip(floats, dxs, strict=True))
            grads |= {name: p.grad for name, p in parameters.items()}
            return tuple(np.tensordot(ways[name], grads[name], axes=x.ndim)
                         for name, x in arrays.items())

        return y, moved_backward

    errors = npt.gradient_errors(moved, [np.zeros(n) for _ in arrays])
    return dict(zip(arrays, errors.values(), strict=True))


def loss_errors(loss, parameters):
    """The same of ``loss() -> (number, backward)``, for its parameters."""
    def forward():
        number, backward = loss()

        def parameters_only(dloss):
            backward()

        return number, parameters_only

    return directed_errors(forward, [], parameters)
