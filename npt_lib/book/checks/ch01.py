"""Exercises of chapter 1: two paths, shapes, log-sum-exp, a bug in a gain's gradient, centring."""

import numpy as np

from npt_lib.book.exercises import Mistake, code, mend, predict

level = np.array([[0.0, 0.0], [3.0, 3.0]])
tall = np.array([[1000.0, 1001.0, 999.0], [-1000.0, -1002.0, -1001.0]])
square = np.array([[1.0, 2.0], [3.0, 4.0]])
flat = np.array([[1.0, 0.0, 2.0], [3.0, 1.0, 0.0]])
stacked = np.arange(12.0).reshape(2, 3, 2)


def logsumexp(x):
    largest = x.max(axis=-1, keepdims=True)
    return np.log(np.exp(x - largest).sum(axis=-1)) + largest[..., 0]


def plain_logsumexp(x):
    return np.log(np.exp(x).sum(axis=-1))


def shifted_logsumexp(x):
    return logsumexp(x - x.max(axis=-1, keepdims=True))


def one_maximum(x):
    return np.log(np.exp(x - x.max()).sum(axis=-1)) + x.max()


def largest_removed_again(x):
    return logsumexp(x) - 2 * x.max(axis=-1)


def scale(x, gain):
    def backward(dy):
        return dy * gain, (dy * x).sum(axis=tuple(range(x.ndim - 1)))

    return x * gain, backward


def with_dgain(dgain):
    """scale, with another gradient of the gain: dgain(dy, x)."""
    def mistaken(x, gain):
        return x * gain, lambda dy: (dy * gain, dgain(dy, x))

    return mistaken


def dx_of_one(x, gain):
    return x * gain, lambda dy: (dy, scale(x, gain)[1](dy)[1])


summed_along_rows = with_dgain(lambda dy, x: (dy * x).sum(axis=-1))


def with_dx(dx):
    """centre, y = x minus the mean of its row, with this gradient: dx(dy, x)."""
    def centred(x):
        return x - x.mean(axis=-1, keepdims=True), lambda dy: dx(dy, x)

    return centred


centre = with_dx(lambda dy, x: dy - dy.mean(axis=-1, keepdims=True))


EXERCISES = [
    predict(
        "1.1",
        "a = 3 and b = 2. Then u = a + b, and L = u * a. What is dL/da?",
        8,
        mistakes=[
            Mistake("only the path on which a is a factor of L", 5,
                    "u is 5, but does u stand still when a grows?"),
            Mistake("only the path through u", 3,
                    "In L = u * a, what happens to L when only the factor a grows?"),
            Mistake("the two paths are multiplied", 15,
                    "Each use of a raises L a little. By how much do the two raise it together?"),
            Mistake("the mean of the two paths", 4,
                    "L is 15. When a is 3.001, by how many times 0.001 has L grown?"),
        ],
    ),
    predict(
        "1.2",
        "table is (11, 4), ids is (2, 3), and W is (4, 5). Which shape has\n"
        "(table[ids] @ W).max(axis=1, keepdims=True)?",
        (2, 1, 5),
        mistakes=[
            Mistake("the axis of the maximum is gone", (2, 5),
                    "What does keepdims do with the axis along which the maximum is taken?"),
            Mistake("the maximum along the last axis", (2, 3, 1),
                    "The product has three axes. Which of them is axis 1, if you count from 0?"),
            Mistake("the product with W is left out", (2, 1, 4),
                    "Which axis does @ use up, and which axis of W takes its place?"),
            Mistake("the ids joined in one axis", (6, 1),
                    "ids has two axes. What becomes of them when ids is used as an index?"),
            Mistake("no maximum", (2, 3, 5),
                    "Along axis 1 lie three numbers. How many of them does the maximum leave?"),
        ],
    ),
    code(
        "1.3",
        "Write logsumexp(x): the logarithm of the sum of exp(x), along the\n"
        "last axis: (..., S) to (...), right for scores of any size.",
        logsumexp,
        cases=[(level,), (tall,)],
        mistakes=[
            Mistake("nothing keeps the exponential from overflowing", plain_logsumexp,
                    "What is exp(1000) in float64, and what did softmax do about it?"),
            Mistake("what was subtracted is not added back", shifted_logsumexp,
                    "Subtracting m divides the sum by exp(m). What does that do to its logarithm?"),
            Mistake("what was subtracted is subtracted again", largest_removed_again,
                    "Subtracting m divides the sum by exp(m). Is its logarithm then too large "
                    "or too small?"),
            Mistake("one maximum for the whole array", one_maximum,
                    "A row may lie 2000 below the largest number of all. What is exp(-2000) in "
                    "float64?"),
            Mistake("the last axis is still there", lambda x: logsumexp(x)[..., None],
                    "keepdims helps while you subtract. Which shape is asked for in the end?"),
            Mistake("the sum is not taken", lambda x: x,
                    "log(exp(x)) is x again. What has to happen between the exp and the log?"),
        ],
    ),
    mend(
        "1.4",
        "Mend scale(x, gain): y = x * gain, with its backward under it.\n"
        "x is (..., D), gain is (D,); backward(dy) returns dx, dgain.",
        summed_along_rows,
        scale,
        cases=[(square, np.array([10.0, 100.0])), (flat, np.array([1.0, 2.0, 3.0])),
               (stacked, np.array([10.0, 100.0]))],
        mistakes=[
            Mistake("the sum runs over axis 0 alone",
                    with_dgain(lambda dy, x: (dy * x).sum(axis=0)),
                    "With a batch, x has three axes. Along which of them was gain repeated?"),
            Mistake("the gradient of gain is not added up", with_dgain(lambda dy, x: dy * x),
                    "Which shape must dgain have, and which outputs does one gain touch?"),
            Mistake("everything is added up", with_dgain(lambda dy, x: (dy * x).sum()),
                    "Each gain has a gradient of its own. Which outputs does one gain touch?"),
            Mistake("the gradient of gain is a mean",
                    with_dgain(lambda dy, x: (dy * x).reshape(-1, x.shape[-1]).mean(axis=0)),
                    "Each row's use of a gain raises L a little. By how much do they raise it "
                    "together?"),
            Mistake("the gradient of gain forgets x",
                    with_dgain(lambda dy, x: dy.reshape(-1, x.shape[-1]).sum(axis=0)),
                    "In y = x * gain, how much does y change when gain changes by 1?"),
            Mistake("the gradient of x forgets the gain", dx_of_one,
                    "This half was right. In y = x * gain, what is the slope with respect to x?"),
        ],
    ),
    code(
        "1.5",
        "Write the backward of centre(x): it takes dy and returns dx. Forwards,\n"
        "y = x - x.mean(axis=-1, keepdims=True).",
        centre,
        cases=[(np.array([[1.0, 2.0, 6.0]]),), (flat,)],
        mistakes=[
            Mistake("the mean is taken for a constant", with_dx(lambda dy, x: dy),
                    "When one entry of x grows, what happens to the mean of its row?"),
            Mistake("only the entry's own output",
                    with_dx(lambda dy, x: dy * (1 - 1 / x.shape[-1])),
                    "The mean moves every output of the row. Which of them did you count?"),
            Mistake("the sum of dy instead of its mean",
                    with_dx(lambda dy, x: dy - dy.sum(axis=-1, keepdims=True)),
                    "By how much does the mean grow when one of D entries grows by 1?"),
            Mistake("the mean is added",
                    with_dx(lambda dy, x: dy + dy.mean(axis=-1, keepdims=True)),
                    "When the mean grows, do the outputs grow or shrink?"),
            Mistake("the mean of each column", with_dx(lambda dy, x: dy - dy.mean(axis=0)),
                    "Along which axis was the mean taken on the way forward?"),
            Mistake("the mean of the whole array", with_dx(lambda dy, x: dy - dy.mean()),
                    "Does an entry touch the outputs of any row but its own?"),
            Mistake("dy is multiplied by the centred x",
                    with_dx(lambda dy, x: dy * (x - x.mean(axis=-1, keepdims=True))),
                    "Each y adds up entries of x times fixed numbers. Can its slopes depend on x?"),
        ],
    ),
]
