"""Cross-entropy: how surprised the model was by the right answers. Chapter 10."""

from typing import Any

import numpy as np

from npt_lib.layers import row_sum
from npt_lib.module import Array, Backward
from npt_lib.require import as_ids, check_count, check_floats, check_ids, check_share


def cross_entropy(
    logits: Array,
    targets: Array,
    pad_id: int | None = None,
    label_smoothing: float = 0.0,
) -> tuple[float, Backward]:
    """The mean of -log p(target) over all targets that are not padding.

    logits is (..., V), targets (...) holds ids. Label smoothing e asks for 1 - e on the target
    and spreads e evenly over all V tokens.
    Backward: called with dloss, 1.0 if left out; returns dlogits = dloss * (p - wanted) / count,
    0 at padding. Built in chapter 10.
    """
    targets, real = _check(logits, targets, pad_id)
    V, e = logits.shape[-1], check_share("label_smoothing", label_smoothing)
    count = max(int(real.sum()), 1)                           # all padding: a loss of 0
    z, ids = logits[real], targets[real]                      # (N, V), (N,): real tokens only
    here = (np.arange(len(ids)), ids)
    z -= z.max(axis=-1, keepdims=True, initial=-np.inf)
    wanted = (1 - e) * z[here]                                # (N,): what the targets ask for
    if e:
        wanted += (e / V) * row_sum(z)[:, 0]
    p = np.exp(z, out=z)
    total = row_sum(p)                                        # (N, 1)
    loss = float((np.log(total[:, 0]) - wanted).sum(dtype=np.float64)) / count
    np.divide(p, total, out=p)                                # (N, V): the probabilities

    def backward(dloss: float = 1.0) -> Array:
        if np.ndim(dloss):
            raise ValueError(f"dloss must be one number, got shape {np.shape(dloss)}.")
        drows = p - p.dtype.type(e / V)
        drows[here] -= 1 - e
        drows *= dloss / count
        dlogits = np.zeros_like(logits)
        dlogits[real] = drows
        return dlogits

    return loss, backward


def _check(logits: Array, targets: Any, pad_id: int | None) -> tuple[Array, Array]:
    """The targets as an array of ids, one for each row of logits, and which are no padding."""
    check_floats("cross_entropy", logits)
    targets = as_ids("target", targets)
    if logits.shape[:-1] != targets.shape or logits.shape[-1] < 1:
        raise ValueError(f"logits (..., V) and targets (...) must agree, "
                         f"got {logits.shape} and {targets.shape}.")
    if pad_id is not None:
        check_count("pad_id", pad_id, -1)
    real = np.full(targets.shape, True) if pad_id is None else targets != pad_id
    check_ids("target", targets[real], logits.shape[-1])      # what pads need not be a token
    return targets, real
