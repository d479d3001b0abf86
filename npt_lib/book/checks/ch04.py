"""Exercises of chapter 4: the feed-forward network and its bends."""

import numpy as np

from npt_lib.book.exercises import Mistake, code, derive, mend, predict

rng = np.random.default_rng(4)
h = np.array([[1.0, -2, 3], [4, -5, -6]])
g = np.array([[2.0, 3, -1], [-5, -2, 4]])


def leaky(forward, factor):
    """A leaky ReLU of these two: forward(h, slope), and what dy is multiplied by."""
    def leaky_relu(h, slope):
        return forward(h, slope), lambda dy: dy * factor(dy, h, slope)

    return leaky_relu


def bent(h, slope):
    return np.where(h > 0, h, slope * h)


def gate(dh, dg):
    """ReLU(h) times g, with these gradients: dh(dy, h, g) and dg(dy, h, g)."""
    def gated(h, g):
        return np.maximum(h, 0) * g, lambda dy: (dh(dy, h, g), dg(dy, h, g))

    return gated


def by_sign_of_y(dy, h, g):
    return dy * g * (np.maximum(h, 0) * g > 0)


def right_dh(dy, h, g):
    return dy * g * (h > 0)


def right_dg(dy, h, g):
    return dy * np.maximum(h, 0)


def sigma(h):
    return 1 / (1 + np.exp(-h))


EXERCISES = [
    predict(
        "4.1",
        "ffn is FeedForward(6, 24, rng), x is (2, 5, 6). After one backward,\n"
        "what is the shape of ffn.up.W.grad?",
        (6, 24),
        mistakes=[
            Mistake("a gradient for every word", (2, 5, 6, 24),
                    "How many words share one up.W, and what happens to their gradients?"),
            Mistake("that is the shape of down.W, or of up.W transposed", (24, 6),
                    "Which of the two axes of up.W meets the width of x?"),
            Mistake("that is the gradient of the hidden units", (2, 5, 24),
                    "A gradient has the shape of its array. Which array is asked for here?"),
            Mistake("that is the gradient of x", (2, 5, 6),
                    "A gradient has the shape of its array. Which array is asked for here?"),
        ],
    ),
    predict(
        "4.2",
        "x is (2, -1), W1 is [[1, -1, 0], [1, 2, -3]], b1 is (1, 0, 0), W2 is\n"
        "the column (1, 5, 2), b2 is -10, and the bend is ReLU. Which number\n"
        "comes out?",
        -2,
        mistakes=[
            Mistake("the bend is forgotten", -22,
                    "What does ReLU make of a unit that is negative?"),
            Mistake("b2 is forgotten", 8,
                    "What does the layer down add to the sum of the units?"),
            Mistake("b1 is forgotten", -3,
                    "What is added to a unit before the bend?"),
            Mistake("the output is bent as well", 0,
                    "Is there an activation after the layer down?"),
            Mistake("the sign is dropped where ReLU gives 0", 18,
                    "Is ReLU of -4 the number 4?"),
        ],
    ),
    code(
        "4.3",
        "Write leaky_relu(h, slope): y is h where h > 0, slope * h elsewhere.\n"
        "Return y, backward, as relu does.",
        leaky(bent, lambda dy, h, slope: np.where(h > 0, 1, slope)),
        cases=[(h, 0.5), (h, -0.5), (h, 3.0)],
        mistakes=[
            Mistake("the backward is that of ReLU", leaky(bent, lambda dy, h, slope: h > 0),
                    "What is the slope of the function left of 0?"),
            Mistake("dy is forgotten",
                    lambda h, slope: (bent(h, slope), lambda dy: np.where(h > 0, 1, slope)),
                    "By the chain rule, what happens to the slope and dy?"),
            Mistake("the sign is asked of y, not of h", leaky(
                        bent, lambda dy, h, slope: np.where(bent(h, slope) > 0, 1, slope)),
                    "With a slope of -0.5, what sign does y have where h is -2?"),
            Mistake("the sign is asked of dy", leaky(
                        bent, lambda dy, h, slope: np.where(dy > 0, 1, slope)),
                    "On the way forward, whose sign decides which slope an entry gets?"),
            Mistake("y is the larger of h and slope * h", leaky(
                        lambda h, slope: np.maximum(h, slope * h),
                        lambda dy, h, slope: np.where(h > 0, 1, slope)),
                    "Which of h and 3 * h is larger when h is negative?"),
            Mistake("the backward lets everything through", leaky(
                        bent, lambda dy, h, slope: 1.0),
                    "By how much does the output change when a negative h grows by 1?"),
        ],
    ),
    mend(
        "4.4",
        "Mend gated(h, g): y = ReLU(h) * g, where backward(dy) returns dh, dg.",
        gate(by_sign_of_y, right_dg),
        gate(right_dh, right_dg),
        cases=[(h, g), (2 * h[:1], -g[1:])],
        mistakes=[
            Mistake("dh forgets where ReLU was flat", gate(lambda dy, h, g: dy * g, right_dg),
                    "Where h is negative, does y change when h does?"),
            Mistake("dh forgets g", gate(lambda dy, h, g: dy * (h > 0), right_dg),
                    "In y = ReLU(h) * g, by what is a change of ReLU(h) multiplied?"),
            Mistake("the sign is asked of g", gate(lambda dy, h, g: dy * g * (g > 0), right_dg),
                    "Which of the two, h or g, goes through ReLU?"),
            Mistake("dg forgets the ReLU", gate(right_dh, lambda dy, h, g: dy * h),
                    "Which number did g multiply on the way forward?"),
            Mistake("the two gradients are exchanged", gate(right_dg, right_dh),
                    "In which order are h and g given, and in which order do dh and dg come back?"),
            Mistake("dy is forgotten", gate(lambda dy, h, g: g * (h > 0),
                                            lambda dy, h, g: np.maximum(h, 0)),
                    "By the chain rule, what happens to the slope and dy?"),
        ],
    ),
    derive(
        "4.5",
        "Write swish_backward(dy, h): the gradient with respect to h of\n"
        "y = h / (1 + exp(-h)).",
        lambda h: h * sigma(h),
        cases=[(np.array([[-2.0, -1, 0], [0.5, 1, 2]]),), (3 * rng.standard_normal((2, 5)),)],
        mistakes=[
            Mistake("dy is forgotten",
                    lambda dy, h: sigma(h) + h * sigma(h) * (1 - sigma(h)),
                    "By the chain rule, what happens to the slope and dy?"),
            Mistake("h is taken for a constant",
                    lambda dy, h: dy * h * sigma(h) * (1 - sigma(h)),
                    "h stands in both factors. Which rule is there for a product?"),
            Mistake("sigma is taken for a constant", lambda dy, h: dy * sigma(h),
                    "When h grows, does sigma(h) stay as it is?"),
            Mistake("the product of the two derivatives",
                    lambda dy, h: dy * sigma(h) * (1 - sigma(h)),
                    "Is the derivative of a product the product of the derivatives?"),
            Mistake("the slope of sigma has the wrong sign",
                    lambda dy, h: dy * (sigma(h) - h * sigma(h) * (1 - sigma(h))),
                    "Does sigma rise or fall as h grows?"),
        ],
    ),
]
