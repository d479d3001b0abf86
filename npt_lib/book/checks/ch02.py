"""Exercises of chapter 2: attention and its masks."""

import numpy as np

from npt_lib.book.exercises import Mistake, code, derive, mend, predict
from npt_lib.dot_product_attention import attention, causal_mask, padding_mask

rng = np.random.default_rng(2)


def qkv(*lead: int) -> tuple[np.ndarray, ...]:
    """Five queries, seven keys of width 3 (and 11 for the values), behind these axes."""
    return tuple(rng.standard_normal((*lead, *size)) for size in ((5, 3), (7, 3), (7, 11)))


some = rng.random((2, 5, 7)) < 0.6
some[0, 0], some[1, 2] = False, False                   # two queries that may attend to nothing
few = (np.array([[2.0, 0, 0, 0], [0, 2, 0, 0], [0, 0, 2, 0]]),
       np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]),
       np.array([[1.0, 2], [3, 4], [5, 8], [7, 6], [9, 10]]),
       np.array([[1, 0, 0, 0, 1], [0, 1, 1, 0, 0], [0, 0, 0, 0, 0]], bool))
huge = (1000 * few[0], *few[1:])
broken = qkv(2)
broken[0][0, 1, 0] = np.nan                              # what comes of it must be NaN, too


def scored(q, k):
    return q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])


def spare(scores, mask, rest=1.0):
    """Softmax with one more score, 0, whose weight goes to nothing; rest is how often."""
    largest = np.maximum(np.where(mask, scores, 0).max(axis=-1, keepdims=True), 0)
    e = np.exp(np.where(mask, scores, -1e30) - largest) * mask
    return e / (rest * np.exp(-largest) + e.sum(axis=-1, keepdims=True))


def attend(q, k, v, mask):
    return spare(scored(q, k), mask) @ v


def scaled_by(divisor):
    """Attention whose scores are divided by something else than sqrt(d_k)."""
    return lambda q, k, v, mask: spare(q @ k.swapaxes(-1, -2) / divisor(q, k), mask) @ v


def unshifted(q, k, v, mask):
    with np.errstate(over="ignore", invalid="ignore"):
        e = np.exp(scored(q, k)) * mask
        return e / (1 + e.sum(axis=-1, keepdims=True)) @ v


def late_one(q, k, v, mask):
    scores = np.where(mask, scored(q, k), -1e30)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True)) * mask
    return e / (1 + e.sum(axis=-1, keepdims=True)) @ v


def over_queries(q, k, v, mask):
    return spare(scored(q, k).swapaxes(-1, -2), mask.swapaxes(-1, -2)).swapaxes(-1, -2) @ v


def zeroed_scores(q, k, v, mask):
    return spare(scored(q, k) * mask, np.ones_like(mask)) @ v


def window_mask(ids, width):
    n = ids.shape[1]
    steps_back = np.arange(n)[:, None] - np.arange(n)
    return padding_mask(ids) & (steps_back >= 0) & (steps_back < width)


def window(near, ids, width, real=padding_mask):
    n = ids.shape[1]
    return real(ids) & near(np.arange(n)[:, None] - np.arange(n), width)


def backwards(back, width):
    return (back >= 0) & (back < width)


def forwards(back, width):
    return (back <= 0) & (-back < width)


def for_queries(ids):
    return padding_mask(ids).swapaxes(-1, -2)


def square_share(s):
    return s**2 / (s**2).sum(axis=-1, keepdims=True)


def total(s):
    return (s**2).sum(axis=-1, keepdims=True)


ids = np.array([[4, 5, 6, 7, 8, 9, 3], [4, 5, 6, 8, 0, 0, 0], [4, 9, 0, 0, 0, 0, 0]])
scores = rng.standard_normal((2, 3, 5))

EXERCISES = [
    predict(
        "2.1",
        "The output is one number.",
        5,
        mistakes=[
            Mistake("that is the value of the longest key", 4,
                    "At which angle does the query meet that key, and what is their dot product?"),
            Mistake("a score of 0 is taken for a weight of 0", 0,
                    "Softmax takes the exponential of each score first. What is exp(0)?"),
            Mistake("each value counts whole", 15,
                    "What do the weights of one query add up to?"),
        ],
    ),
    predict(
        "2.2",
        "The shape is a tuple.",
        (2, 8, 5, 7),
        mistakes=[
            Mistake("the windows alone, without the sentences", (8, 5, 7),
                    "Can one mask hold for sentences whose padding differs?"),
            Mistake("the padding mask alone", (2, 1, 1, 7),
                    "What becomes of an axis of length 1 beside one of length 8 or 5?"),
            Mistake("one mask for all heads", (2, 1, 5, 7),
                    "Which axis of windows stands below the first axis of length 1?"),
            Mistake("no axis for the heads", (2, 5, 7),
                    "How many axes has padding_mask(ids)? Line the two up from the right."),
            Mistake("the heads before the sentences", (8, 2, 5, 7),
                    "Line the two up from the right. Which axis of the padding mask has nothing "
                    "under it, and where does it stand?"),
            Mistake("a query for every key", (2, 8, 7, 7),
                    "How many queries are there?"),
        ],
    ),
    code(
        "2.3",
        "Write attend_or_not(q, k, v, mask): the y of masked attention with 1 more in "
        "softmax's denominator. A score of 1000 must not overflow; a NaN in a score that counts "
        "must show in the output.",
        attend,
        cases=[few, huge, (*qkv(2), some), (*qkv(), some[0]), (*qkv(2, 4), some[:, None]),
               (*broken, some)],
        mistakes=[
            Mistake("softmax as it was, without the 1",
                    lambda q, k, v, mask: attention(q, k, v, mask)[0],
                    "If no key fits and all scores are -5, what do softmax's weights add up to?"),
            Mistake("the largest score is not subtracted", unshifted,
                    "What is exp(1000) in float64?"),
            Mistake("the largest score is subtracted from the scores, but not from the 1", late_one,
                    "The 1 is exp(0): the exponential of a score 0. What becomes of it when the "
                    "largest score is subtracted from every score?"),
            Mistake("the 1 is counted once for every key",
                    lambda q, k, v, mask: spare(scored(q, k), mask, k.shape[-2]) @ v,
                    "Is the 1 inside the sum or beside it?"),
            Mistake("the scores are not divided by sqrt(d_k)", scaled_by(lambda q, k: 1.0),
                    "What happens to the spread of the scores as d_k grows?"),
            Mistake("the scores are divided by d_k, not by its root",
                    scaled_by(lambda q, k: q.shape[-1]),
                    "A dot product's variance grows like d_k. How does its typical size grow?"),
            Mistake("the scores are divided by the root of the number of queries",
                    scaled_by(lambda q, k: np.sqrt(q.shape[-2])),
                    "Over which axis does the dot product sum?"),
            Mistake("the mask is not used",
                    lambda q, k, v, mask: attend(q, k, v, np.ones_like(mask)),
                    "Which weight should a hidden key get?"),
            Mistake("softmax over the queries", over_queries,
                    "Whose weights share one denominator: those that one query gives, or those "
                    "that one key gets?"),
            Mistake("the mask comes after softmax",
                    lambda q, k, v, mask: spare(scored(q, k), np.ones_like(mask)) * mask @ v,
                    "Do hidden keys still count in the denominator?"),
            Mistake("the mask is read the other way round",
                    lambda q, k, v, mask: attend(q, k, v, ~mask),
                    "Does True mean that the query may look, or that it may not?"),
            Mistake("a NaN that comes in leaves as 0",
                    lambda q, k, v, mask: np.nan_to_num(attend(q, k, v, mask)),
                    "If a bug put one NaN into q, how would anybody notice?"),
            Mistake("hidden scores are set to 0", zeroed_scores,
                    "What is exp(0), and which weight does a key with the score 0 get?"),
        ],
    ),
    mend(
        "2.4",
        "Mend window_mask(ids, width): boolean, (B, 1, T, S), True where a position may "
        "attend to itself and the width - 1 positions before it, but never to padding (id 0), "
        "wherever it stands.",
        lambda ids, width: window(forwards, ids, width, for_queries),
        window_mask,
        cases=[(np.array([[0, 5, 6, 7]]), 2), (ids, 3), (ids, 2), (ids[:2, :5], 4)],
        mistakes=[
            Mistake("the window opens towards the future",
                    lambda ids, width: window(forwards, ids, width),
                    "Row i belongs to query i. On which side of the diagonal are earlier keys?"),
            Mistake("padding is hidden as a query, not as a key",
                    lambda ids, width: window(backwards, ids, width, for_queries),
                    "Which axis of the scores belongs to those that are looked at?"),
            Mistake("padding is hidden as a key, and as a query too",
                    lambda ids, width: window(backwards, ids, width,
                                              lambda ids: padding_mask(ids) & for_queries(ids)),
                    "The task hides padding from the others. Does it say that padding itself may "
                    "not look?"),
            Mistake("a word may not attend to itself",
                    lambda ids, width: window(lambda back, w: (back > 0) & (back < w), ids, width),
                    "How many steps back is the word itself?"),
            Mistake("the width words before a word, without the word itself",
                    lambda ids, width: window(lambda back, w: (back > 0) & (back <= w), ids, width),
                    "How many steps back is the word itself?"),
            Mistake("True means hidden", lambda ids, width: ~window_mask(ids, width),
                    "In this book, does True mean that a word may attend, or that it may not?"),
            Mistake("the window holds width words besides the word itself",
                    lambda ids, width: window_mask(ids, width + 1),
                    "With width 1, which keys may a word attend to?"),
            Mistake("the window opens to both sides",
                    lambda ids, width: window(lambda back, w: abs(back) < w, ids, width),
                    "May a word see what follows it?"),
            Mistake("padding may be attended to",
                    lambda ids, width: window(backwards, ids, width,
                                              lambda ids: np.ones((len(ids), 1, 1, 1), bool)),
                    "Which columns of the shortest sentence are padding? What should they hold?"),
            Mistake("the causal mask without a window",
                    lambda ids, width: padding_mask(ids) & causal_mask(ids.shape[1]),
                    "How many keys may the last word of a long sentence attend to?"),
            Mistake("no axis for the heads", lambda ids, width: window_mask(ids, width)[:, 0],
                    "Which four axes do the scores have?"),
        ],
        tells_where=False,
    ),
    derive(
        "2.5",
        "Write square_share_backward(dy, s): the gradient with respect to s of "
        "y = s**2 / sum of s**2, along the last axis.",
        square_share,
        cases=[(np.array([[1.0, 2.0, 2.0]]),), (scores,)],
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
            Mistake("dy is left out", lambda dy, s: 2 * s / total(s) * (
                    1 - square_share(s).sum(-1, keepdims=True)),
                    "dy says how much the loss grows with each y. Where does it enter?"),
            Mistake("the factor 2 of the square is missing",
                    lambda dy, s: s / total(s) * (
                        dy - (dy * square_share(s)).sum(-1, keepdims=True)),
                    "What is the derivative of s**2?"),
        ],
    ),
]
