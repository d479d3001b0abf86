"""Exercises of chapter 7: shapes in a stack, a mean with padding, a stack, shared blocks."""

import numpy as np

from npt_lib.book.exercises import Mistake, derive, mend, predict
from npt_lib.feed_forward import FeedForward
from npt_lib.layers import Linear
from npt_lib.module import Module
from npt_lib.norm import LayerNorm

rng = np.random.default_rng(7)


def mean_of_words(y, ids, masked=True, over="words", backward=None):
    """The right one; the other arguments make the mistakes."""
    real = (ids != 0)[:, :, None]
    words = real.sum(axis=1, keepdims=True)
    n = {"words": np.maximum(words, 1), "plain": words, "length": y.shape[1], "nothing": 1,
         "batch": words.mean()}[over]
    with np.errstate(invalid="ignore", divide="ignore"):
        part = (real if masked else np.ones(real.shape)) / n
        m = (y * part).sum(axis=1)
    back = part if backward is None else backward(real, n)
    return m, lambda dm: back * dm[:, None, :]


def mean_with(**switches):
    return lambda y, ids: mean_of_words(y, ids, **switches)


def padded_mean(y, ids):
    """Its backward belongs to its forward, so a gradient check finds nothing."""
    T = y.shape[1]
    n = (ids != 0).sum(axis=1)[:, None]

    def backward(dm):
        return np.stack([dm / n] * T, axis=1)

    return y.sum(axis=1) / n, backward


def padding_gets(real, n):
    """A backward that gives padding as much as words."""
    return np.ones(real.shape) / n


def in_turn(ways):
    def backward(dy):
        for undo in ways:
            dy = undo(dy)
        return dy
    return backward


def stack_with(change):
    """A stack whose backward goes through change(ways) in turn."""
    def answer(x, blocks):
        ways = []
        for block in blocks:
            x, block_backward = block.forward(x)
            ways.append(block_backward)
        return x, in_turn(change(ways))
    return answer


def run_stack(x, blocks):
    return stack_with(lambda ways: ways[::-1])(x, blocks)


def bound_late(x, blocks):
    """Every function of its list asks for the name way when it is called: the last block's."""
    ways = []
    for block in blocks:
        x, way = block.forward(x)
        ways.append(lambda dy: way(dy))  # noqa: B023 -- the bug to be found

    def backward(dy):
        for undo in reversed(ways):
            dy = undo(dy)
        return dy

    return x, backward


def emptied(x, blocks):
    y, ways = x, []
    for block in blocks:
        y, block_backward = block.forward(y)
        ways.append(block_backward)

    def backward(dy):
        while ways:
            dy = ways.pop()(dy)
        return dy

    return y, backward


def emptied_by_number(x, blocks):
    y, ways = x, []
    for block in blocks:
        y, block_backward = block.forward(y)
        ways.append(block_backward)

    def backward(dy):
        for _ in blocks:
            dy = ways.pop()(dy)
        return dy

    return y, backward


def turned_in_place(x, blocks):
    y, ways = x, []
    for block in blocks:
        y, block_backward = block.forward(y)
        ways.append(block_backward)

    def backward(dy):
        ways.reverse()
        for undo in ways:
            dy = undo(dy)
        return dy

    return y, backward


def called_twice(answer, x, blocks):
    """backward's answer to the same dy, the first time and the second."""
    result = answer(x, blocks)
    if not (isinstance(result, tuple) and len(result) == 2 and callable(result[1])):
        return result
    y, backward = result

    def twice(dy):
        first = backward(dy)
        return None if first is None or first is ... else (first, backward(dy))

    return y, twice


def each_from_the_start(x, blocks):
    ways = []
    for block in blocks:
        y, block_backward = block.forward(x)
        ways.append(block_backward)
    return y, in_turn(ways[::-1])


def shared(x, W):
    for _ in range(2):
        x = x + np.tanh(x @ W)
    return x


def shared_backward(dy, x, W, residual=True, count=(1, 1), same=None, slope=True, turned=True):
    """The right one; the switches make the mistakes."""
    back = W.T if turned else W
    t1 = np.tanh(x @ W)
    h = x + t1
    t2 = np.tanh(h @ W)
    a, b = (t1, t2) if same is None else ((t1, t1) if same == 1 else (t2, t2))
    du2 = dy * (1 - b * b) if slope else dy
    dh = residual * dy + du2 @ back
    du1 = dh * (1 - a * a) if slope else dh
    return residual * dh + du1 @ back, count[0] * (x.T @ du1) + count[1] * (h.T @ du2)


def with_switch(**switches):
    return lambda dy, x, W: shared_backward(dy, x, W, **switches)


def module(made):
    """In float64, and no parameter at a convenient value such as 0 or 1."""
    made = made.astype(np.float64)
    for parameter in made.parameters().values():
        parameter.value = rng.uniform(-1, 1.5, parameter.shape)
    return made


y = rng.standard_normal((4, 5, 3))
ids = np.array([[4, 5, 6, 7, 8], [4, 5, 0, 0, 0], [0, 0, 0, 0, 0], [4, 5, 6, 0, 0]])
BLOCKS = [module(FeedForward(5, 7, rng)), module(LayerNorm(5)), module(Linear(5, 5, rng))]
X, W = rng.standard_normal((3, 5)), 0.5 * rng.standard_normal((5, 5))


class Times(Module):
    """x @ matrix, with numbers for paper."""

    def __init__(self, matrix):
        self.matrix = matrix

    def forward(self, x):
        matrix = np.array(self.matrix, float)
        return x @ matrix, lambda dy: dy @ matrix.T

    def __repr__(self):
        return f"@ {self.matrix}".replace(", ", ",")


SMALL = [Times([[1, 1], [0, 1]]), Times([[2, 0], [0, 1]])]

EXERCISES = [
    predict(
        "7.1",
        "ids is (3, 7). Five blocks with four heads and D = 12 read it. What is the shape of "
        "np.stack(list(attention_maps(backward).values()))?",
        (5, 3, 4, 7, 7),
        mistakes=[
            Mistake("one block's weights", (3, 4, 7, 7),
                    "attention_maps has one entry for each block. How many are stacked?"),
            Mistake("the heads are gone", (5, 3, 7, 7), "Do all heads share one table of weights?"),
            Mistake("the sentences are gone", (5, 4, 7, 7),
                    "Do the three sentences share one table of weights?"),
            Mistake("vectors in the place of weights", (5, 3, 7, 12),
                    "A weight is one number. To which query does it belong, and to what else?"),
            Mistake("heads come before sentences", (5, 4, 3, 7, 7),
                    "B sentences, H heads: which of these two axes comes first in the scores?"),
        ],
    ),
    predict(
        "7.2",
        "mask = padding_mask(ids) for ids (3, 7); y is (3, 7, 12). Which shape must the mask "
        "have to set the rows of padding in y to 0, when y is multiplied by it?",
        (3, 7, 1),
        mistakes=[
            Mistake("without an axis for the width", (3, 7),
                    "Shapes line up from the right. Which axis of y would the 7 meet?"),
            Mistake("as attention wants it", (3, 1, 1, 7),
                    "How many axes does y have, and which of them runs over words?"),
            Mistake("that hides columns, not rows", (3, 1, 7), "Which axis of y runs over words?"),
            Mistake("a number for each entry, where one for each word is enough", (3, 7, 12),
                    "padding_mask(ids) holds 21 numbers, and you only rearrange its axes. Where "
                    "would the others come from?"),
        ],
    ),
    mend(
        "7.3",
        "Mend mean_of_words(y, ids) and its backward: the mean of y (B, T, D) over the places "
        "whose id is not 0; zeros where there is none.",
        padded_mean,
        mean_of_words,
        cases=[(np.array([[[2.0, 4], [4, 0], [9, 9]], [[6, 3], [9, 9], [9, 9]]]),
                np.array([[4, 5, 0], [6, 0, 0]])),
               (y, ids), (3 * y[:2] + 1, ids[:2])],
        outputs=("m", "dy"),
        mistakes=[
            Mistake("padding is part of the mean", mean_with(masked=False, over="length"),
                    "If a sentence gets one more row of padding, should its mean move?"),
            Mistake("the sum is divided by the padded length", mean_with(over="length"),
                    "How many rows were left to be added up, once padding was out?"),
            Mistake("the words are added up, and not divided", mean_with(over="nothing"),
                    "What is the mean of five equal vectors?"),
            Mistake("padding is still added, though not counted", mean_with(masked=False),
                    "The rows of padding are not zero. What keeps them out of your sum?"),
            Mistake("padding has left the forward, but backward is still the old one",
                    mean_with(over="plain", backward=padding_gets),
                    "If a number in a row of padding rises by 1, by how much does m rise?"),
            Mistake("a sentence without words is divided by its 0 words", mean_with(over="plain"),
                    "What is 0 divided by 0, and what should come out for no words?"),
            Mistake("all sentences are divided by the same count", mean_with(over="batch"),
                    "Do all sentences have the same number of words?"),
            Mistake("backward gives padding a gradient",
                    mean_with(backward=padding_gets),
                    "If a number in a row of padding rises by 1, by how much does m rise?"),
            Mistake("backward forgets the division",
                    mean_with(backward=lambda real, n: real),
                    "If one word of five rises by 1, by how much does the mean rise?"),
        ],
    ),
    mend(
        "7.4",
        "Mend run_stack(x, blocks): its y is right, its dx is not. backward must work as often as "
        "it is called.",
        bound_late,
        run_stack,
        cases=[(np.array([[1.0, 2]]), SMALL), (X, BLOCKS), (2 * X + 1, BLOCKS[:2])],
        outputs=("y", "dx", "dx of a second call"),
        call=called_twice,
        mistakes=[
            Mistake("the way back starts at the first block", stack_with(lambda ways: ways),
                    "dy is the gradient of the output of which block?"),
            Mistake("only the last block is undone", stack_with(lambda ways: ways[-1:]),
                    "The last block returns the gradient of what it has read. Is that x?"),
            Mistake("the first call of backward empties the list", emptied,
                    "What does a second call of backward find in the list?"),
            Mistake("the first call of backward empties the list", emptied_by_number,
                    "What does a second call of backward find in the list?"),
            Mistake("each call of backward turns the list round", turned_in_place,
                    "In which order does a second call of backward find the list?"),
            Mistake("every block reads x", each_from_the_start,
                    "What should the second block read?"),
        ],
    ),
    derive(
        "7.5",
        "Write shared_backward(dy, x, W), which returns dx, dW, for y = f(f(x)) with "
        "f(x) = x + tanh(x @ W).",
        shared,
        cases=[(np.zeros((1, 2)), np.array([[0.0, 1], [2, 0]])), (X, W),
               (0.5 * X[:2], W.T.copy())],
        mistakes=[
            Mistake("W was used twice, and only the second use is counted",
                    with_switch(count=(0, 1)),
                    "In how many blocks is W used, and how many gradients do you add up?"),
            Mistake("W was used twice, and only the first use is counted",
                    with_switch(count=(1, 0)),
                    "In how many blocks is W used, and how many gradients do you add up?"),
            Mistake("the residuals are forgotten", with_switch(residual=False),
                    "How often does f use its x?"),
            Mistake("both slopes are taken in the first block", with_switch(same=1),
                    "The slope of a tanh is taken at what it has read. What has the "
                    "second one read?"),
            Mistake("both slopes are taken in the second block", with_switch(same=2),
                    "The slope of a tanh is taken at what it has read. What has the "
                    "first one read?"),
            Mistake("W stands where its transpose belongs", with_switch(turned=False),
                    "An entry of xW sums over the rows of W. Over what does an entry of dx sum?"),
            Mistake("the slope of tanh is missing", with_switch(slope=False),
                    "If u rises a little, by how much does tanh u rise?"),
        ],
    ),
]
