"""Exercises of chapter 6: layer norm, its gradient mended, two branches with one norm, RMS norm."""

import numpy as np

from npt_lib.book.checks.ch06_cases import (
    EPS,
    adds_to_dy,
    eps_outside,
    layer_norm,
    mean,
    no_eps,
    no_residual,
    norm_with,
    normalised,
    normed_trunk,
    one_after_the_other,
    one_less,
    outside_dx,
    right_dx,
    rms,
    rms_norm,
    two_branches,
    with_backward,
    with_norm,
    without_norm,
)
from npt_lib.book.exercises import Mistake, code, derive, mend, predict
from npt_lib.feed_forward import FeedForward
from npt_lib.layers import Linear
from npt_lib.norm import LayerNorm

rng = np.random.default_rng(6)


def randomised(module):
    """In float64, and no parameter at a convenient value such as 0 or 1."""
    module = module.astype(np.float64)
    for parameter in module.parameters().values():
        parameter.value = rng.uniform(0.5, 1.5, parameter.shape)
    return module


x = rng.standard_normal((2, 3, 5))
SMALL = np.array([[0.0, 0, 2, 2], [1, 3, 5, 7], [-1, 0, 0, 1]])     # for paper: means 1, 4, 0
flat = np.stack([0.003 * x[0], np.full((3, 5), 2.0)])          # small variance, and none
gain, bias = rng.uniform(0.5, 2, 5), rng.standard_normal(5)

EXERCISES = [
    predict(
        "6.1",
        "x is (4, 1, 12). What is the shape of x - x.mean(axis=-1), without keepdims?",
        (4, 4, 12),
        mistakes=[
            Mistake("that would be right with keepdims", (4, 1, 12),
                    "What is the shape of the mean? From the right, with which axes of x do its "
                    "axes line up?"),
            Mistake("that is the shape of the mean", (4, 1),
                    "The mean is subtracted from x, whose words have 12 numbers. Where have these "
                    "gone?"),
            Mistake("the mean lines up from the left", (4, 12),
                    "How many axes does x have, and can a difference have fewer?"),
            Mistake("the 4 of the mean has met the wrong axis of x", (4, 12, 12),
                    "From the right, the mean's axes are 1, then 4. Which axis of x does the 4 "
                    "meet?"),
        ],
    ),
    predict(
        "6.2",
        "norm = LayerNorm(12) has run forward and backward on x (4, 7, 12). What is the shape "
        "of norm.gain.grad?",
        (12,),
        mistakes=[
            Mistake("every word keeps a gradient of its own", (4, 7, 12),
                    "The gain was broadcast to every word. What happens to that on the way back?"),
            Mistake("the axes that are summed are kept", (1, 1, 12),
                    "What is the shape of the gain itself? Can its gradient have another?"),
            Mistake("the sum runs over the batch alone", (7, 12),
                    "Does each word of a sentence have a gain of its own, or do they share one?"),
            Mistake("the sum runs over the width", (4, 7, 1),
                    "The gain has one axis. Is it that of the sentences, the words, or the width?"),
        ],
    ),
    code(
        "6.3",
        "Write layer_norm(x, gain, bias): each vector of x (..., D) normalised, then times the "
        "gain, plus the bias, both (D,). eps is 1e-5.",
        layer_norm,
        cases=[(flat, gain, bias), (x, gain, bias), (10 * x[0] + 3, gain, bias)],
        mistakes=[
            Mistake("eps is added after the root", with_norm(eps_outside),
                    "For a variance of 1e-6, what is the root of var + 1e-5, and what is the "
                    "root of var, plus 1e-5?"),
            Mistake("eps is left out", with_norm(no_eps),
                    "What is the variance of a word whose numbers are all the same?"),
            Mistake("the variance's divisor is D - 1", with_norm(one_less),
                    "By what does the formula of the variance divide the sum of squares?"),
            Mistake("the division is by the variance, not by its root",
                    with_norm(lambda x: normalised(x, divisor=lambda v: v)),
                    "If all numbers of a word are ten times as large, how much larger are its "
                    "variance and the root of it?"),
            Mistake("the mean is taken over the words", with_norm(lambda x: normalised(x, -2)),
                    "If a sentence gets longer, should the numbers of a word in it change?"),
            Mistake("the mean is taken over axis 1", with_norm(lambda x: normalised(x, 1)),
                    "Axis 1 is the width of (T, D). Which axis is it of (B, T, D)?"),
            Mistake("the mean is taken over all words and numbers",
                    with_norm(lambda x: normalised(x, None)),
                    "Whose mean is it: one word's, or the whole array's?"),
            Mistake("the mean is not subtracted",
                    with_norm(lambda x: x / np.sqrt(mean((x - mean(x))**2) + EPS)),
                    "What should the mean of each word be after normalising?"),
            Mistake("the bias comes before the gain",
                    lambda x, gain, bias: (normalised(x) + bias) * gain,
                    "In the formula, does the gain multiply the bias?"),
        ],
    ),
    mend(
        "6.4",
        "Mend layer_norm(x, gain, bias): it returns y and a backward, which returns dx alone. "
        "The forward is right.",
        norm_with(outside_dx),
        norm_with(right_dx),
        cases=[(SMALL, np.array([1.0, 2, 3, 4]), np.zeros(4)), (x, gain, bias),
               (10 * x[0] + 3, gain, bias)],
        outputs=("y", "dx"),
        mistakes=[
            Mistake("one of the two means has the gain inside, the other has not",
                    norm_with(lambda dy, n, std, gain: (
                        dy * gain - gain * mean(dy) - n * mean(dy * gain * n)) / std),
                    "Path 2 and path 3 both start from the gradient of the normalised x. What "
                    "is it, given dy?"),
            Mistake("one of the two means has the gain inside, the other has not",
                    norm_with(lambda dy, n, std, gain: (
                        dy * gain - mean(dy * gain) - gain * n * mean(dy * n)) / std),
                    "Path 2 and path 3 both start from the gradient of the normalised x. What "
                    "is it, given dy?"),
            Mistake("the means are those of dy, without the gain",
                    norm_with(lambda dy, n, std, gain: (
                        dy * gain - mean(dy) - n * mean(dy * n)) / std),
                    "The means come from the paths that start at the normalised x. Does dy reach "
                    "it unchanged?"),
            Mistake("the gain is counted twice",
                    norm_with(lambda dy, n, std, gain: gain * right_dx(dy, n, std, gain)),
                    "How often does forward multiply by the gain?"),
            Mistake("the gain is forgotten",
                    norm_with(lambda dy, n, std, gain: right_dx(dy, n, std, 1.0)),
                    "If the gain of a column is 0, how much gradient passes through it?"),
            Mistake("the path through the mean is gone",
                    norm_with(lambda dy, n, std, gain: (
                        dy * gain - n * mean(dy * gain * n)) / std),
                    "If all of x rises by the same amount, does y change? What must dx add up to?"),
        ],
    ),
    code(
        "6.5",
        "Write two_branches(x, norm, f, g) with its backward under it: y = x + f(n) + g(n), where "
        "n = norm(x).",
        two_branches,
        cases=[(x, randomised(LayerNorm(5)), randomised(Linear(5, 5, rng)),
                randomised(Linear(5, 5, rng))),
               (3 * x[0] + 1, randomised(LayerNorm(5)), randomised(FeedForward(5, 7, rng)),
                randomised(Linear(5, 5, rng)))],
        outputs=("y", "dx"),
        mistakes=[
            Mistake("the residual is forgotten in backward",
                    with_backward(lambda dy, norm, f, g: norm(f(dy) + g(dy))),
                    "How often does forward use x, and how many gradients does your backward "
                    "add up for it?"),
            Mistake("the residual is forgotten", no_residual,
                    "To what are the outputs of f and g added?"),
            Mistake("one branch is forgotten on the way back",
                    with_backward(lambda dy, norm, f, g: dy + norm(f(dy))),
                    "How often does forward use the normalised x, and how many gradients does your "
                    "backward add up for it?"),
            Mistake("one branch is forgotten on the way back",
                    with_backward(lambda dy, norm, f, g: dy + norm(g(dy))),
                    "How often does forward use the normalised x, and how many gradients does your "
                    "backward add up for it?"),
            Mistake("the branches stand one after the other", one_after_the_other,
                    "What does g read: the normalised x, or what f returned?"),
            Mistake("the branches are one after the other on the way back",
                    with_backward(lambda dy, norm, f, g: dy + norm(f(g(dy)))),
                    "Has f read what g returned?"),
            Mistake("the norm is missing", without_norm,
                    "What do f and g read: x, or the normalised x?"),
            Mistake("the norm stands on the trunk", normed_trunk,
                    "To what are the outputs of f and g added: x, or the normalised x?"),
            Mistake("the way back skips the norm",
                    with_backward(lambda dy, norm, f, g: dy + f(dy) + g(dy)),
                    "The backward of f returns the gradient of what f has read. Is that x?"),
            Mistake("only one branch goes back through the norm",
                    with_backward(lambda dy, norm, f, g: dy + norm(f(dy)) + g(dy)),
                    "The backward of g returns the gradient of what g has read. Is that x?"),
            Mistake("only one branch goes back through the norm",
                    with_backward(lambda dy, norm, f, g: dy + f(dy) + norm(g(dy))),
                    "The backward of f returns the gradient of what f has read. Is that x?"),
            Mistake("the way back takes the norm first",
                    with_backward(lambda dy, norm, f, g: dy + f(norm(dy)) + g(norm(dy))),
                    "Which ran last in forward, the norm or the branches? Which goes first in "
                    "backward?"),
            Mistake("the residual is counted twice",
                    with_backward(lambda dy, norm, f, g: 2 * dy + norm(f(dy) + g(dy))),
                    "How often does x itself stand in the sum?"),
            Mistake("backward changes the dy that it was given", adds_to_dy,
                    "Whose array is dy, and who may still want to read it?"),
            Mistake("the norm's backward takes the residual as well",
                    with_backward(lambda dy, norm, f, g: norm(dy + f(dy) + g(dy))),
                    "In forward, does the x of the sum pass through the norm?"),
        ],
    ),
    derive(
        "6.6",
        "Write rms_norm_backward(dy, x): the gradient with respect to x of y = x / r along the "
        "last axis, with r = sqrt(mean of x**2, plus 1e-5).",
        rms_norm,
        cases=[(x,), (3 * rng.standard_normal((4, 7)) + 1,)],
        mistakes=[
            Mistake("the direct path alone", lambda dy, x: dy / rms(x),
                    "Does r stay the same when x does not?"),
            Mistake("layer norm's gradient, with the path through the mean",
                    lambda dy, x: (dy - mean(dy) - rms_norm(x) * mean(dy * rms_norm(x))) / rms(x),
                    "Does this forward subtract a mean?"),
            Mistake("a sum in the place of a mean",
                    lambda dy, x: (dy - rms_norm(x) * (dy * rms_norm(x)).sum(-1, keepdims=True))
                    / rms(x),
                    "By how much does the mean of the squares change when one x_i does?"),
            Mistake("x in the place of y in the last term",
                    lambda dy, x: (dy - x * mean(dy * x)) / rms(x),
                    "From x_i to r the slope is x_i / (D r). What is x_i / r by another name?"),
            Mistake("the path through r is added", lambda dy, x:
                    (dy + rms_norm(x) * mean(dy * rms_norm(x))) / rms(x),
                    "When r grows, do the entries of y get larger or smaller?"),
        ],
    ),
]
