"""Exercises of chapter 10: training."""

import numpy as np

from npt_lib.book.exercises import Mistake, code, derive, predict
from npt_lib.layers import softmax

rng = np.random.default_rng(10)


def graded(B: int, T: int, V: int, n_pad: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Logits and targets of which about half agree, the last n_pad of the first row padding."""
    logits = rng.standard_normal((B, T, V))
    best = logits.argmax(axis=-1)
    targets = np.where(rng.random((B, T)) < 0.5, best, rng.integers(1, V, (B, T)))
    targets[0, -n_pad:] = 0
    logits[0, -n_pad:, 0] += 9                        # a model that is right about padding
    return logits, targets, 0


def token_accuracy(logits, targets, pad_id):
    real = targets != pad_id
    return float((logits.argmax(axis=-1) == targets)[real].mean())


def padding_counted(logits, targets, pad_id):
    return float((logits.argmax(axis=-1) == targets).mean())


def divided_by_all(logits, targets, pad_id):
    right = (logits.argmax(axis=-1) == targets) & (targets != pad_id)
    return float(right.mean())


def mean_of_rows(logits, targets, pad_id):
    real = targets != pad_id
    right = (logits.argmax(axis=-1) == targets) & real
    return float((right.sum(axis=1) / real.sum(axis=1)).mean())


def adam_step(value, grad, m, u, n, lr):
    m = 0.9 * m + 0.1 * grad
    u = 0.98 * u + 0.02 * grad**2
    mean, square = m / (1 - 0.9**n), u / (1 - 0.98**n)
    return value - lr * mean / (np.sqrt(square) + 1e-9), m, u


def uncorrected(value, grad, m, u, n, lr):
    m, u = 0.9 * m + 0.1 * grad, 0.98 * u + 0.02 * grad**2
    return value - lr * m / (np.sqrt(u) + 1e-9), m, u


def corrected_kept(value, grad, m, u, n, lr):
    new, m, u = adam_step(value, grad, m, u, n, lr)
    return new, m / (1 - 0.9**n), u / (1 - 0.98**n)


def without_root(value, grad, m, u, n, lr):
    _, m, u = adam_step(value, grad, m, u, n, lr)
    return value - lr * m / (1 - 0.9**n) / (u / (1 - 0.98**n) + 1e-9), m, u


def state(n: int, *shape: int) -> tuple:
    value, grad, m = rng.standard_normal((3, *shape))
    return value, grad, 0.1 * m * (n > 1), 0.2 * m**2 * (n > 1), n, 0.003


def clip(grads, limit):
    norm = np.sqrt(sum((g**2).sum() for g in grads))
    return tuple(g * min(1.0, limit / norm) for g in grads)


def one_by_one(grads, limit):
    return tuple(clip([g], limit)[0] for g in grads)


def always_scaled(grads, limit):
    norm = np.sqrt(sum((g**2).sum() for g in grads))
    return tuple(g * (limit / norm) for g in grads)


def entry_by_entry(grads, limit):
    return tuple(np.clip(g, -limit, limit) for g in grads)


def drift(z):
    top = z.max(axis=-1)
    return (np.log(np.exp(z - top[..., None]).sum(axis=-1)) + top) ** 2


EXERCISES = [
    predict(
        "10.1",
        "src is (4, 7), tgt is (4, 10), the target vocabulary has 13 tokens. What is the shape "
        "of the logits in a training step?",
        (4, 9, 13),
        mistakes=[
            Mistake("the decoder reads all of tgt", (4, 10, 13),
                    "After the last token, what is left to predict?"),
            Mistake("one row of logits for each source token", (4, 7, 13),
                    "Which sequence is being written?"),
            Mistake("both the first and the last token dropped", (4, 8, 13),
                    "Is <bos> dropped from what the decoder reads, or from what it must predict?"),
        ],
    ),
    predict(
        "10.2",
        "Beam search of width 4 over 3 sources, with 11 tokens. Which shape have the logits that "
        "model.step returns?",
        (12, 11),
        mistakes=[
            Mistake("one row for each source", (3, 11),
                    "How many unfinished outputs does each source have?"),
            Mistake("an axis of its own for the beams", (3, 4, 11),
                    "Does the model know which of its rows belong to the same source?"),
        ],
    ),
    code(
        "10.3",
        "Write token_accuracy(logits, targets, pad_id): the share of real targets whose logit is "
        "the largest of its row.",
        token_accuracy,
        cases=[graded(3, 7, 11, 4), graded(2, 5, 13, 2)],
        mistakes=[
            Mistake("padding is counted, and counted right", padding_counted,
                    "What does a model have to know to get padding right?"),
            Mistake("the count includes padding", divided_by_all,
                    "Of how many tokens do you take the share?"),
            Mistake("the mean of each row's share", mean_of_rows,
                    "Does a token of a short row count as much as one of a long row?"),
        ],
    ),
    code(
        "10.4",
        "Write adam_step(value, grad, m, u, n, lr): one step of Adam, returning the new value, m "
        "and u. n counts from 1.",
        adam_step,
        cases=[state(1, 3, 5), state(7, 2, 7)],
        outputs=("value", "m", "u"),
        mistakes=[
            Mistake("no bias correction", uncorrected,
                    "How large are m and u after one step, if both start at 0?"),
            Mistake("the corrected means are kept as m and u", corrected_kept,
                    "What would be corrected a second time in the next step?"),
            Mistake("divided by the mean square instead of its root", without_root,
                    "If all gradients were ten times as large, should the step change?"),
        ],
    ),
    code(
        "10.5",
        "Write clip(grads, limit): a tuple of new arrays, scaled so that the norm of all of "
        "them together is at most limit.",
        clip,
        cases=[((3 * rng.standard_normal((3, 5)), rng.standard_normal(7)), 1.0),
               ((0.01 * rng.standard_normal((2, 3)), 0.01 * rng.standard_normal(5)), 1.0)],
        mistakes=[
            Mistake("each array is clipped by its own norm", one_by_one,
                    "Do the arrays keep their sizes relative to each other?"),
            Mistake("small gradients are scaled up", always_scaled,
                    "What should happen when the norm is below the limit?"),
            Mistake("every number is cut off at the limit", entry_by_entry,
                    "Does the gradient still point in the same direction?"),
        ],
    ),
    derive(
        "10.6",
        "Write drift_backward(dy, z): the gradient with respect to z of the square of the "
        "logarithm of the sum of exp(z), along the last axis.",
        drift,
        cases=[(rng.standard_normal((2, 3, 5)),), (1 + rng.standard_normal((2, 7)),)],
        mistakes=[
            Mistake("the slope of the square is missing",
                    lambda dy, z: dy[..., None] * softmax(z)[0],
                    "What is the derivative of a square?"),
            Mistake("the softmax is missing",
                    lambda dy, z: (2 * dy * np.sqrt(drift(z)))[..., None] * np.ones_like(z),
                    "How much does each logit move the logarithm of the sum?"),
        ],
    ),
]
