"""Exercises of chapter 15: many machines."""

import numpy as np

from npt_lib.book.exercises import Mistake, code, derive, mend, predict

rng = np.random.default_rng(15)


def combine(gradients, counts):
    has = counts > 0
    return counts[has] @ gradients[has] / counts.sum()


def clip_sum(parts, max_norm):
    total = parts.sum(axis=0)
    return total * min(1.0, max_norm / np.linalg.norm(total))


def sum_clipped(parts, max_norm):
    norms = np.linalg.norm(parts, axis=1, keepdims=True)
    return (parts * np.minimum(1.0, max_norm / norms)).sum(axis=0)


def clip_both(parts, max_norm):
    return clip_sum(sum_clipped(parts, max_norm)[None], max_norm)


def always_scaled(parts, max_norm):
    total = parts.sum(axis=0)
    return total * max_norm / np.linalg.norm(total)


def each_number(parts, max_norm):
    return np.clip(parts.sum(axis=0), -max_norm, max_norm)


def clip_mean(parts, max_norm):
    return clip_sum(parts / len(parts), max_norm)


def survivors(losses, n):
    order = [i for i in np.argsort(losses, kind="stable") if not np.isnan(losses[i])]
    return [int(i) for i in order[:n]]


def nan_as_well(losses, n):
    return [int(i) for i in np.argsort(losses, kind="stable")[:n]]


def nan_first(losses, n):
    return [int(i) for i in np.argsort(np.nan_to_num(losses), kind="stable")[:n]]


def worst(losses, n):
    return [int(i) for i in np.argsort(-np.asarray(losses), kind="stable")
            if not np.isnan(losses[i])][:n]


def by_number(losses, n):
    return sorted(survivors(losses, n))


def mean_for_all(x, w):
    return np.tile(w @ x / w.sum(), (len(x), 1))


def grads(dy, x, w):
    told, W = dy.sum(axis=0), w.sum()
    return np.outer(w, told) / W, (x - w @ x / W) @ told / W


nan = np.nan
parts = np.array([[3.0, 0.0], [0.0, 4.0]])
losses = np.array([2.5, nan, 1.5, 0.5, 3.0])

EXERCISES = [
    predict(
        "15.1",
        "A model of 10 million numbers in float32 learns on 5 machines in a ring. How many "
        "megabytes (millions of bytes) does each machine send for one step?",
        64,
        mistakes=[
            Mistake("the whole gradient, twice", 80,
                    "How many of its chunks does a machine send in one lap?"),
            Mistake("one lap", 32, "After one lap each chunk is complete on one machine. Who still "
                                   "needs it?"),
            Mistake("the whole gradient to each of the others", 160,
                    "To how many machines does a machine of the ring send?"),
            Mistake("the gradient once", 40, "How many chunks does a machine send in all, and how "
                                             "large is one?"),
            Mistake("numbers in place of bytes", 16, "How many bytes does a float32 take?"),
        ],
    ),
    predict(
        "15.2",
        "Process 0 has 1 row with 30 targets, and a mean loss of 2.0. Process 1 has 4 rows with "
        "10 targets in all, and a mean loss of 5.0. What is the loss of the whole batch?",
        2.75,
        mistakes=[
            Mistake("the mean of the means", 3.5, "For how many targets does each process speak?"),
            Mistake("weighted by rows", 4.4, "The loss is a mean. Over what?"),
            Mistake("the sum of the losses", 7.0,
                    "Can the mean over all targets be above both parts' means?"),
            Mistake("the weights exchanged", 4.25, "Which process has more targets?"),
        ],
    ),
    code(
        "15.3",
        "Write combine(gradients, counts): the whole batch's gradient (N,), from the parts' mean "
        "gradients (P, N) and their targets (P,). A part without targets has a row of NaN.",
        combine,
        cases=[(np.array([[0.0, 2.0], [-12.0, 5.0]]), np.array([2, 1])),
               (np.array([[1.0, 0.0, 2.0], [nan, nan, nan], [3.0, -1.0, 5.0]]),
                np.array([1, 0, 4])),
               (np.array([[2.0, 6.0]]), np.array([3]))],
        mistakes=[
            Mistake("the mean of the means", lambda gradients, counts:
                    np.nanmean(gradients, axis=0), "For how many targets does each part speak?"),
            Mistake("the mean of the means, and NaN as well", lambda gradients, counts:
                    gradients.mean(axis=0),
                    "For how many targets does each part speak? And the one with NaN?"),
            Mistake("a part without targets spoils the sum", lambda gradients, counts:
                    counts @ gradients / counts.sum(), "What is 0 times NaN?"),
            Mistake("the sum is not divided", lambda gradients, counts:
                    counts[counts > 0] @ gradients[counts > 0],
                    "The loss is a mean over how many targets?"),
            Mistake("divided by the number of parts", lambda gradients, counts:
                    counts[counts > 0] @ gradients[counts > 0] / len(counts),
                    "The loss is a mean over how many targets?"),
        ],
    ),
    mend(
        "15.4",
        "Mend clipped(parts, max_norm): the gradient (N,) with which all processes step, from "
        "their shares (P, N), which add up to it. Its norm is at most max_norm. On one process "
        "its answers are right.",
        sum_clipped,
        clip_sum,
        cases=[(np.array([[3.0, 4.0]]), 1.0), (parts, 1.0),
               (np.array([[2.0, 0.0, 1.0], [-2.0, 0.5, 0.0]]), 2.0),
               (np.array([[0.1, 0.2], [0.2, 0.2]]), 1.0)],
        mistakes=[
            Mistake("clipped twice", clip_both,
                    "The gradient is short enough now. Does it still point along the shares' sum?"),
            Mistake("small gradients grow", always_scaled,
                    "What should happen to a gradient whose norm is below max_norm?"),
            Mistake("each number is clipped", each_number,
                    "Does the gradient still point the same way?"),
            Mistake("the shares are averaged", clip_mean,
                    "The shares add up to the gradient. How much of it is their mean?"),
        ],
    ),
    code(
        "15.5",
        "Write survivors(losses, n): a list of the places of the n lowest losses, the best first. "
        "A run that has failed has NaN, and never goes on.",
        survivors,
        cases=[(losses, 2), (np.array([nan, 2.0, nan, 1.0, nan]), 3), (np.array([0.2, 0.1]), 1)],
        mistakes=[
            Mistake("failed runs go on where good ones are few", nan_as_well,
                    "argsort puts NaN last. What stands among the first n places if fewer than n "
                    "runs have ended well?"),
            Mistake("failed runs are the best", nan_first,
                    "Which loss does a failed run count with? Is it low or high?"),
            Mistake("the worst go on", worst,
                    "Does a good run end with a high loss, or with a low one?"),
            Mistake("in the order of their places", by_number,
                    "These are the right runs. Which of them should come first?"),
        ],
    ),
    derive(
        "15.6",
        "Write mean_backward(dy, x, w): the gradients dx and dw of y, (P, N). Every row of y is "
        "the mean of the rows of x (P, N), weighted by w (P,): sum of w x, over the sum of w.",
        mean_for_all,
        cases=[(np.array([[1.0, 2.0], [4.0, 0.0], [0.0, 3.0]]), np.array([1.0, 2.0, 1.0])),
               (rng.standard_normal((2, 3)), np.array([0.5, 3.0]))],
        mistakes=[
            Mistake("each machine uses its own row of dy alone", lambda dy, x, w:
                    (w[:, None] * dy / w.sum(), ((x - w @ x / w.sum()) * dy).sum(axis=1)
                     / w.sum()), "In how many rows of y does a row of x take part?"),
            Mistake("the sum of the weights is taken for a constant", lambda dy, x, w:
                    (grads(dy, x, w)[0], x @ dy.sum(axis=0) / w.sum()),
                    "A weight stands in two sums: of w x, and of w. Do you go back through both?"),
            Mistake("not divided by the sum of the weights", lambda dy, x, w:
                    tuple(g * w.sum() for g in grads(dy, x, w)),
                    "If all weights are twice as large, y stays the same. Does your dx?"),
            Mistake("all rows weigh the same", lambda dy, x, w:
                    (np.tile(dy.sum(axis=0) / len(x), (len(x), 1)), grads(dy, x, w)[1]),
                    "Which row of x moves the mean most?"),
        ],
    ),
]
