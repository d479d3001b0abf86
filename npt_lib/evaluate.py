"""How good a model is on pairs that it does not learn from. Chapter 10."""

from dataclasses import dataclass

import numpy as np

from npt_lib.batches import check_pairs, trim
from npt_lib.generate import greedy
from npt_lib.loss import cross_entropy
from npt_lib.module import Array
from npt_lib.require import as_ids
from npt_lib.transformer import Transformer


@dataclass
class Evaluation:
    """How good a model is on pairs it does not learn from."""

    step: int
    loss: float
    token_accuracy: float     # of tokens, each given the right ones before it
    exact_match: float        # of whole rows, written freely by greedy decoding


def evaluate(
    model: Transformer, src: Array, tgt: Array, batch_size: int = 256, step: int = 0
) -> Evaluation:
    """Loss and token accuracy with the right tokens given; exact match without. No dropout."""
    src, tgt = as_ids("source", src), as_ids("target", tgt)
    check_pairs(src, tgt)
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}.")
    pad_id = model.config.pad_id
    loss = right = tokens = exact = 0.0
    for i in range(0, len(src), batch_size):
        s = trim(src[i:i + batch_size], pad_id)
        t = trim(tgt[i:i + batch_size], pad_id, least=2)
        wanted, real = t[:, 1:], t[:, 1:] != pad_id
        logits = model(s, t[:, :-1])
        loss += cross_entropy(logits, wanted, pad_id)[0] * real.sum()
        right += ((logits.argmax(axis=-1) == wanted) & real).sum()
        tokens += real.sum()
        exact += same_rows(greedy(model, s, wanted.shape[1]), wanted, pad_id).sum()
    tokens = max(tokens, 1)
    return Evaluation(step, float(loss / tokens), float(right / tokens), float(exact / len(src)))


def same_rows(written: Array, wanted: Array, pad_id: int = 0) -> Array:
    """Which rows agree in full, (B,); written may be shorter, if all its rows ended early."""
    missing = wanted.shape[1] - written.shape[1]
    padded = np.pad(written, ((0, 0), (0, missing)), constant_values=pad_id)
    return (padded == wanted).all(axis=1)
