"""Exercises of chapter 2: attention."""

import numpy as np

from npt_lib.attention import attention, causal_mask, padding_mask
from npt_lib.exercises import Mistake, code, derive, predict
from npt_lib.layers import softmax

rng = np.random.default_rng(2)


def qkv(*lead: int) -> tuple[np.ndarray, ...]:
    """Five queries, seven keys of width 3 (and 11 for the values), behind these axes."""
    return tuple(rng.standard_normal((*lead, *size)) for size in ((5, 3), (7, 3), (7, 11)))


some = rng.random((2, 5, 7)) < 0.6
some[0, 0], some[1, 2] = False, False                   # two queries that may attend to nothing


def attend(q, k, v, mask):
    y, _ = attention(q, k, v, mask)
    return y


def scored(q, k, divisor):
    return q @ k.swapaxes(-1, -2) / divisor


def scaled_by(divisor):
    """Attention whose scores are divided by something else than sqrt(d_k)."""
    return lambda q, k, v, mask: softmax(scored(q, k, divisor(q, k)), mask)[0] @ v


def over_queries(q, k, v, mask):
    scores = np.where(mask, scored(q, k, np.sqrt(q.shape[-1])), -1e30)
    return softmax(scores.swapaxes(-1, -2))[0].swapaxes(-1, -2) * mask @ v


def mask_after(q, k, v, mask):
    return softmax(scored(q, k, np.sqrt(q.shape[-1])))[0] * mask @ v


def with_infinity(q, k, v, mask):
    with np.errstate(invalid="ignore"):
        hidden = np.where(mask, scored(q, k, np.sqrt(q.shape[-1])), -np.inf)
        return softmax(hidden)[0] @ v


def evenly_when_blocked(q, k, v, mask):
    return softmax(np.where(mask, scored(q, k, np.sqrt(q.shape[-1])), -1e9))[0] @ v


def zeroed_scores(q, k, v, mask):
    return softmax(scored(q, k, np.sqrt(q.shape[-1])) * mask)[0] @ v


def window_mask(ids, width):
    n = ids.shape[1]
    steps_back = np.arange(n)[:, None] - np.arange(n)
    return padding_mask(ids) & (steps_back >= 0) & (steps_back < width)


def window(near, ids, width, real=padding_mask):
    n = ids.shape[1]
    return real(ids) & near(np.arange(n)[:, None] - np.arange(n), width)


def square_share(s):
    return s**2 / (s**2).sum(axis=-1, keepdims=True)


def total(s):
    return (s**2).sum(axis=-1, keepdims=True)


ids = np.array([[4, 5, 6, 7, 8, 9, 3], [4, 5, 6, 8, 0, 0, 0], [4, 9, 0, 0, 0, 0, 0]])
scores = rng.standard_normal((2, 3, 5))

EXERCISES = [
    predict(
        "2.1",
        "q is (2, 4, 5, 8), k is (2, 4, 7, 8), v is (2, 4, 7, 3). What is the shape of the output?",
        (2, 4, 5, 3),
        mistakes=[
            Mistake("that is the shape of the weights", (2, 4, 5, 7),
                    "What do the weights multiply, and which axis does that sum over?"),
            Mistake("one row for each key", (2, 4, 7, 3),
                    "Who asks, and so who gets an answer?"),
            Mistake("the width of the queries", (2, 4, 5, 8),
                    "What is mixed: queries, keys or values?"),
        ],
    ),
    predict(
        "2.2",
        "ids is (2, 7). What is the shape of padding_mask(ids) & causal_mask(7)?",
        (2, 1, 7, 7),
        mistakes=[
            Mistake("no axis for the heads", (2, 7, 7),
                    "Which axes does padding_mask put between B and S?"),
            Mistake("that is the padding mask alone", (2, 1, 1, 7),
                    "What becomes of an axis of length 1 beside one of length 7?"),
            Mistake("that is the causal mask alone", (7, 7),
                    "Can one mask hold for sentences whose padding differs?"),
        ],
    ),
    code(
        "2.3",
        "Write attend(q, k, v, mask): the mixture for every query, where a query that may attend "
        "to nothing gets zeros.",
        attend,
        cases=[(*qkv(2), some), (*qkv(), some[0]),
               (*qkv(2, 4), some[:, None])],
        mistakes=[
            Mistake("the scores are not divided by sqrt(d_k)", scaled_by(lambda q, k: 1.0),
                    "What happens to the spread of the scores as d_k grows?"),
            Mistake("the scores are divided by d_k, not by its root",
                    scaled_by(lambda q, k: q.shape[-1]),
                    "By which number does the standard deviation of the scores grow with d_k?"),
            Mistake("the scores are divided by the root of the number of queries",
                    scaled_by(lambda q, k: np.sqrt(q.shape[-2])),
                    "Over which axis does the dot product sum?"),
            Mistake("softmax over the queries", over_queries,
                    "Whose weights must add up to 1: those that one query gives, or those that "
                    "one key gets?"),
            Mistake("the mask comes after softmax", mask_after,
                    "After masking, does each row still add up to 1?"),
            Mistake("the mask is read the other way round",
                    lambda q, k, v, mask: attend(q, k, v, ~mask),
                    "Does True mean that the query may look, or that it may not?"),
            Mistake("a row of -inf goes through softmax", with_infinity,
                    "What is -inf minus -inf?"),
            Mistake("a query that may attend to nothing takes the mean of all values",
                    evenly_when_blocked,
                    "In a row where all scores are the same, how large are the weights?"),
            Mistake("hidden scores are set to 0", zeroed_scores,
                    "Which weight does a score of 0 get: is exp(0) nothing?"),
        ],
    ),
    code(
        "2.4",
        "Write window_mask(ids, width): boolean, (B, 1, T, S), True where a word may attend to "
        "itself and the width - 1 words before it, but never to padding (id 0).",
        window_mask,
        cases=[(ids, 3), (ids, 2), (ids[:2, :5], 4)],
        mistakes=[
            Mistake("True means hidden", lambda ids, width: ~window_mask(ids, width),
                    "In npt_lib's masks, what does True allow?"),
            Mistake("the window holds width words besides the word itself",
                    lambda ids, width: window_mask(ids, width + 1),
                    "With width 1, which keys may a word attend to?"),
            Mistake("the window opens to both sides",
                    lambda ids, width: window(lambda n, w: abs(n) < w, ids, width),
                    "May a word see what follows it?"),
            Mistake("the window opens towards the future",
                    lambda ids, width: window(lambda n, w: (n <= 0) & (-n < w), ids, width),
                    "Rows are queries: on which side of the diagonal are the keys before them?"),
            Mistake("padding may be attended to",
                    lambda ids, width: window(lambda n, w: (n >= 0) & (n < w), ids, width,
                                              lambda ids: np.ones((len(ids), 1, 1, 1), bool)),
                    "What do the last columns look like for the shortest sentence?"),
            Mistake("padding is hidden as a query, not as a key",
                    lambda ids, width: window(lambda n, w: (n >= 0) & (n < w), ids, width,
                                              lambda ids: padding_mask(ids).swapaxes(-1, -2)),
                    "Which axis of the scores belongs to those that are looked at?"),
            Mistake("the causal mask without a window",
                    lambda ids, width: padding_mask(ids) & causal_mask(ids.shape[1]),
                    "How many keys may the last word of a long sentence attend to?"),
            Mistake("no axis for the heads", lambda ids, width: window_mask(ids, width)[:, 0],
                    "Which four axes do the scores have?"),
        ],
    ),
    derive(
        "2.5",
        "Write square_share_backward(dy, s): the gradient with respect to s of "
        "y = s**2 / sum of s**2, along the last axis.",
        square_share,
        cases=[(scores,), (2 * scores[0] + 1,)],
        mistakes=[
            Mistake("softmax's gradient", lambda dy, s: square_share(s) * (
                    dy - (dy * square_share(s)).sum(-1, keepdims=True)),
                    "What is the derivative of s**2, and what was that of exp(s)?"),
            Mistake("each output depends on its own score only",
                    lambda dy, s: dy * 2 * s / total(s) * (1 - square_share(s)),
                    "Which other outputs change when one score does?"),
            Mistake("the sum in the denominator is held fixed",
                    lambda dy, s: dy * 2 * s / total(s),
                    "Does the denominator depend on s?"),
            Mistake("the factor 2 of the square is missing",
                    lambda dy, s: s / total(s) * (
                        dy - (dy * square_share(s)).sum(-1, keepdims=True)),
                    "What is the derivative of s**2?"),
        ],
    ),
]
