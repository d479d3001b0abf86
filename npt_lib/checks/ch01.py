"""Exercises of chapter 1: shapes, log-sum-exp, a gain for each column, centring."""

import numpy as np

from npt_lib.exercises import Mistake, code, derive, predict

rng = np.random.default_rng(1)
x = rng.standard_normal((2, 3, 5))
tall = np.array([[1000.0, 1001.0, 999.0], [-1000.0, -1002.0, -1001.0]])


def logsumexp(x):
    largest = x.max(axis=-1, keepdims=True)
    return np.log(np.exp(x - largest).sum(axis=-1)) + largest[..., 0]


def plain_logsumexp(x):
    return np.log(np.exp(x).sum(axis=-1))


def shifted_logsumexp(x):
    return logsumexp(x - x.max(axis=-1, keepdims=True))


def one_maximum(x):
    return np.log(np.exp(x - x.max()).sum(axis=-1)) + x.max()


def scale(x, gain):
    def backward(dy):
        return dy * gain, (dy * x).sum(axis=tuple(range(x.ndim - 1)))

    return x * gain, backward


def with_dgain(dgain):
    """scale, with another gradient of the gain: dgain(dy, x)."""
    def mistaken(x, gain):
        return x * gain, lambda dy: (dy * gain, dgain(dy, x))

    return mistaken


def centre(x):
    return x - x.mean(axis=-1, keepdims=True)


EXERCISES = [
    predict(
        "1.1",
        "x is (2, 3, 4) and W is (4, 5). Which shape has\n"
        "(x @ W).sum(axis=1, keepdims=True)?",
        (2, 1, 5),
        mistakes=[
            Mistake("the axis that was summed is gone", (2, 5),
                    "What does keepdims do to the axis that is summed?"),
            Mistake("the last axis is summed", (2, 3, 1),
                    "x @ W has three axes. Which of them is number 1, counted from 0?"),
            Mistake("the sum over the axis before the product", (2, 1, 4),
                    "Which axis of x does @ use up, and which axis of W takes its place?"),
        ],
    ),
    predict(
        "1.2",
        "table is (11, 4) and ids is (2, 3). Which shape has\n"
        "table[ids].swapaxes(0, 1)?",
        (3, 2, 4),
        mistakes=[
            Mistake("the axes are not swapped", (2, 3, 4),
                    "Which two axes does swapaxes(0, 1) exchange?"),
            Mistake("the rows of ids joined in one axis", (4, 6),
                    "ids has two axes. What becomes of them when it is an index?"),
            Mistake("every axis turned round", (4, 3, 2),
                    "swapaxes names two axes. What happens to the third?"),
            Mistake("one number for each id", (3, 2),
                    "What does one id pick from the table: a number or a row?"),
        ],
    ),
    code(
        "1.3",
        "Write logsumexp(x): the logarithm of the sum of exp(x), along the\n"
        "last axis: (..., S) to (...), right for scores of any size.",
        logsumexp,
        cases=[(x,), (tall,)],
        mistakes=[
            Mistake("nothing keeps the exponential from overflowing", plain_logsumexp,
                    "What is exp(1000) in float64, and what did softmax do about it?"),
            Mistake("what was subtracted is not added back", shifted_logsumexp,
                    "log(exp(-m) * total) = -m + log(total): where did the -m go?"),
            Mistake("one maximum for the whole array", one_maximum,
                    "What becomes of a row that lies 2000 below the largest number?"),
        ],
    ),
    code(
        "1.4",
        "Write scale(x, gain): y = x * gain with its backward under it.\n"
        "x is (..., D), gain is (D,); backward(dy) returns dx, dgain.",
        scale,
        cases=[(x, rng.standard_normal(5)), (rng.standard_normal((3, 7)), rng.standard_normal(7))],
        mistakes=[
            Mistake("the gradient of gain is not added up", with_dgain(lambda dy, x: dy * x),
                    "Which shape must dgain have, and which outputs does one gain touch?"),
            Mistake("the gradient of gain is summed along the last axis",
                    with_dgain(lambda dy, x: (dy * x).sum(axis=-1)),
                    "Along which axes was gain repeated by broadcasting?"),
            Mistake("the gradient of gain is a mean",
                    with_dgain(lambda dy, x: (dy * x).reshape(-1, x.shape[-1]).mean(axis=0)),
                    "Two outputs each pull at one number: is the pull their sum or their mean?"),
            Mistake("the gradient of gain forgets x",
                    with_dgain(lambda dy, x: dy.reshape(-1, x.shape[-1]).sum(axis=0)),
                    "In y = x * gain, how much does y change when gain changes by 1?"),
        ],
    ),
    derive(
        "1.5",
        "Write centre_backward(dy, x): the gradient with respect to x of\n"
        "y = x - x.mean(axis=-1, keepdims=True).",
        centre,
        cases=[(x,), (rng.standard_normal((3, 7)),)],
        mistakes=[
            Mistake("the mean is taken for a constant", lambda dy, x: dy,
                    "When one entry of x grows, what happens to the mean of its row?"),
            Mistake("the sum of dy instead of its mean",
                    lambda dy, x: dy - dy.sum(axis=-1, keepdims=True),
                    "By how much does the mean grow when one of D entries grows by 1?"),
            Mistake("the mean over the whole array", lambda dy, x: dy - dy.mean(),
                    "Does an entry touch the outputs of any row but its own?"),
            Mistake("x centred again, instead of dy",
                    lambda dy, x: dy * (x - x.mean(axis=-1, keepdims=True)),
                    "Is y linear in x? Can its gradient then still hold x?"),
        ],
    ),
]
