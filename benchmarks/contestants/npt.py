"""npt_lib as it is shipped, by its public names."""

from itertools import cycle

import npt_lib as npt
import numpy as np

from benchmarks.contestants import Job, Kinds
from benchmarks.sizes import MAX_LEN, Size, batches

SMOOTHING, LR = 0.1, 1e-3


def model_of(size: Size, dropout: float = 0.0, weights: str | None = None) -> npt.Transformer:
    """A model of this size, at the weights of a file if there is one."""
    config = npt.Config(size.n_vocab, size.n_vocab, size.d_model, size.n_heads, size.d_ff,
                        size.n_layers, dropout, MAX_LEN)
    model = npt.Transformer(config, np.random.default_rng(0))
    if weights:
        with np.load(weights) as arrays:
            model.load_state_dict(arrays)
    return model


def training(size: Size, weights: str, dropout: float = 0.0, variant: str = "") -> Job:
    """n steps of train, with its default settings; the losses."""
    model = model_of(size, dropout, weights)
    optimizer = npt.Adam(model.parameters(), LR)
    data = cycle(batches(size))
    rng = np.random.default_rng(1) if dropout else None

    def job(n: int) -> list[float]:
        return npt.train(model, optimizer, data, rng, n, label_smoothing=SMOOTHING).loss

    return job


KINDS: Kinds = {"train": training}
