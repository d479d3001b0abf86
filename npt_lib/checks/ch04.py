"""Exercises of chapter 4: the feed-forward network and its bends."""

import numpy as np

from npt_lib.exercises import Mistake, code, derive, predict

rng = np.random.default_rng(4)
x = rng.standard_normal((2, 3, 5))
h, g = rng.standard_normal((2, 2, 5, 7))


def leaky(forward, factor):
    """A leaky ReLU of these two: forward(x, slope), and what dy is multiplied by."""
    def leaky_relu(x, slope):
        return forward(x, slope), lambda dy: dy * factor(dy, x, slope)

    return leaky_relu


def bent(x, slope):
    return np.where(x > 0, x, slope * x)


def gate(dh, dg):
    """ReLU(h) times g, with these gradients: dh(dy, h, g) and dg(dy, h, g)."""
    def gated(h, g):
        return np.maximum(h, 0) * g, lambda dy: (dh(dy, h, g), dg(dy, h, g))

    return gated


def right_dh(dy, h, g):
    return dy * g * (h > 0)


def right_dg(dy, h, g):
    return dy * np.maximum(h, 0)


def sigma(x):
    return 1 / (1 + np.exp(-x))


EXERCISES = [
    predict(
        "4.1",
        "ffn is FeedForward(6, 24, rng), x is (2, 5, 6). After one backward,\n"
        "which shape has ffn.up.W.grad?",
        (6, 24),
        mistakes=[
            Mistake("a gradient for every word", (2, 5, 6, 24),
                    "How many copies of W are there, and what happens to gradients that meet?"),
            Mistake("the layer down, or W turned round", (24, 6),
                    "Which of the two axes of up.W meets the width of x?"),
            Mistake("that is the gradient of the hidden units", (2, 5, 24),
                    "Which shape must a gradient always have?"),
            Mistake("that is the gradient of x", (2, 5, 6),
                    "Which shape must a gradient always have?"),
        ],
    ),
    predict(
        "4.2",
        "h = ffn.up(x), with the same ffn and x. Which shape has\n"
        "(h > 0).any(axis=(0, 1))?",
        (24,),
        mistakes=[
            Mistake("one answer for each word, about all its units", (2, 5),
                    "Which axes does axis=(0, 1) collapse, and which is left?"),
            Mistake("nothing is collapsed", (2, 5, 24),
                    "What does any() do with the axes that it is given?"),
            Mistake("the width of the model", (6,),
                    "Is h the input of ffn.up, or its output?"),
            Mistake("the collapsed axes are kept", (1, 1, 24),
                    "Which option of any() would keep an axis with length 1?"),
        ],
    ),
    code(
        "4.3",
        "Write leaky_relu(x, slope): x where x > 0, slope * x elsewhere, with\n"
        "its backward under it. backward(dy) returns dx.",
        leaky(bent, lambda dy, x, slope: np.where(x > 0, 1, slope)),
        cases=[(x, 0.1), (x[0], 3.0)],
        mistakes=[
            Mistake("the backward is that of ReLU", leaky(bent, lambda dy, x, slope: x > 0),
                    "What is the slope of the function left of 0?"),
            Mistake("the sign is asked of dy", leaky(
                        bent, lambda dy, x, slope: np.where(dy > 0, 1, slope)),
                    "Which array decided, on the way forward, what happens to an entry?"),
            Mistake("the larger of x and slope * x", leaky(
                        lambda x, slope: np.maximum(x, slope * x),
                        lambda dy, x, slope: np.where(x > 0, 1, slope)),
                    "Which of x and 3 * x is larger when x is negative?"),
            Mistake("the backward lets everything through", leaky(
                        bent, lambda dy, x, slope: 1.0),
                    "By how much does the output change when a negative x grows by 1?"),
        ],
    ),
    code(
        "4.4",
        "Write gated(h, g): y = ReLU(h) * g with its backward under it.\n"
        "backward(dy) returns dh, dg.",
        gate(right_dh, right_dg),
        cases=[(h, g), (h[0], 2 * g[1])],
        mistakes=[
            Mistake("the sign is asked of y, not of h",
                    gate(lambda dy, h, g: dy * g * (np.maximum(h, 0) * g > 0), right_dg),
                    "Where h is positive and g is negative, what sign has y?"),
            Mistake("dh forgets where ReLU was flat", gate(lambda dy, h, g: dy * g, right_dg),
                    "Where h is negative, does y change when h does?"),
            Mistake("dh forgets the gate", gate(lambda dy, h, g: dy * (h > 0), right_dg),
                    "In y = ReLU(h) * g, by what is a change of ReLU(h) multiplied?"),
            Mistake("dg forgets the ReLU", gate(right_dh, lambda dy, h, g: dy * h),
                    "Which number did g multiply on the way forward?"),
        ],
    ),
    derive(
        "4.5",
        "Write swish_backward(dy, x): the gradient with respect to x of\n"
        "y = x / (1 + exp(-x)).",
        lambda x: x * sigma(x),
        cases=[(x,), (3 * rng.standard_normal((3, 7)),)],
        mistakes=[
            Mistake("x is taken for a constant",
                    lambda dy, x: dy * x * sigma(x) * (1 - sigma(x)),
                    "x stands in both factors. Which rule is there for a product?"),
            Mistake("sigma is taken for a constant", lambda dy, x: dy * sigma(x),
                    "When x grows, does sigma(x) stay as it is?"),
            Mistake("the product of the two derivatives",
                    lambda dy, x: dy * sigma(x) * (1 - sigma(x)),
                    "Is the derivative of a product the product of the derivatives?"),
            Mistake("the slope of sigma has the wrong sign",
                    lambda dy, x: dy * (sigma(x) - x * sigma(x) * (1 - sigma(x))),
                    "Does sigma rise or fall as x grows?"),
        ],
    ),
]
