"""Cross-entropy: how surprised the model was by the right answers. Chapter 10."""

import numpy as np

from npt_lib.layers import softmax_in_place
from npt_lib.module import Array, Backward
from npt_lib.require import check_floats, check_ids


def cross_entropy(
    logits: Array,
    targets: Array,
    pad_id: int | None = None,
    label_smoothing: float = 0.0,
) -> tuple[float, Backward]:
    """The mean of -log p(target) over all targets that are not padding.

    logits is (..., V), targets (...) holds ids. Label smoothing e asks for 1 - e on the target
    and spreads e evenly over all V tokens.
    Backward: called without an argument, returns dlogits = (p - wanted) / count; 0 at padding.
    Built in chapter 10.
    """
    targets = _check(logits, targets, label_smoothing)
    V, e = logits.shape[-1], label_smoothing
    real = np.ones(targets.shape, bool) if pad_id is None else targets != pad_id
    count = max(int(real.sum()), 1)                           # all padding: a loss of 0
    rows, ids = logits[real], targets[real]                   # (N, V), (N,): real tokens only
    here = (np.arange(len(ids)), ids)
    shifted = rows - rows.max(axis=-1, keepdims=True, initial=-np.inf)
    log_sum = np.log(np.exp(shifted).sum(axis=-1))            # (N,)
    surprise = log_sum - (1 - e) * shifted[here]
    if e:
        surprise = surprise - e * shifted.mean(axis=-1)
    loss = float(surprise.sum(dtype=np.float64)) / count

    def backward(dloss: float = 1.0) -> Array:
        drows = softmax_in_place(shifted.copy())              # (N, V): the probabilities
        drows -= e / V
        drows[here] -= 1 - e
        dlogits = np.zeros_like(logits)
        dlogits[real] = drows * (dloss / count)
        return dlogits

    return loss, backward


def _check(logits: Array, targets: Array, label_smoothing: float) -> Array:
    check_floats("cross_entropy", logits)
    if logits.shape[:-1] != np.shape(targets) or logits.shape[-1] < 1:
        raise ValueError(f"logits (..., V) and targets (...) must agree, "
                         f"got {logits.shape} and {targets.shape}.")
    if not 0 <= label_smoothing < 1:
        raise ValueError(f"label_smoothing must be at least 0 and below 1, got {label_smoothing}.")
    return check_ids("target", targets, logits.shape[-1])
