"""Exercises of chapter 13: long attention."""

from dataclasses import replace

import numpy as np

from npt_lib.book.exercises import Mistake, code, derive, mend, predict

rng = np.random.default_rng(13)


def join(a, b):
    top = max(a[0], b[0])
    return (top, *(x * np.exp(a[0] - top) + y * np.exp(b[0] - top) for x, y in zip(a[1:], b[1:])))


def unshrunk(a, b):
    return max(a[0], b[0]), a[1] + b[1], a[2] + b[2]


def first_alone(a, b):
    top = max(a[0], b[0])
    return (top, *(x * np.exp(a[0] - top) + y for x, y in zip(a[1:], b[1:])))


def mix_unshrunk(a, b):
    top, total, _ = join(a, b)
    return top, total, a[2] + b[2]


def upside_down(a, b):
    top = max(a[0], b[0])
    return (top, *(x * np.exp(top - a[0]) + y * np.exp(top - b[0]) for x, y in zip(a[1:], b[1:])))


def part(scores, *values):
    """A part of a row of scores, read at once."""
    scores, values = np.array(scores, float), np.array(values, float)
    e = np.exp(scores - scores.max())
    return float(scores.max()), float(e.sum()), e @ values


def meet(top, total, mix, s, v):
    higher = max(top, s.max())
    shrink, e = np.exp(top - higher), np.exp(s - higher)
    return higher, total * shrink + e.sum(), mix * shrink + e @ v


def by_the_old(top, total, mix, s, v):
    higher = max(top, s.max())
    shrink, e = np.exp(top - higher), np.exp(s - top)
    return higher, total * shrink + e.sum(), mix * shrink + e @ v


def forgetful(top, total, mix, s, v):
    higher = max(top, s.max())
    shrink, e = np.exp(top - higher), np.exp(s - higher)
    return higher, total * shrink + e.sum(), mix + e @ v


def swapped(top, total, mix, s, v):
    higher = max(top, s.max())
    shrink, e = np.exp(higher - top), np.exp(s - higher)
    return higher, total * shrink + e.sum(), mix * shrink + e @ v


def both_shrunk(top, total, mix, s, v):
    higher = max(top, s.max())
    shrink, e = np.exp(top - higher), np.exp(s - higher)
    return higher, (total + e.sum()) * shrink, (mix + e @ v) * shrink


def of_the_tile(top, total, mix, s, v):
    higher = s.max()
    shrink, e = np.exp(top - higher), np.exp(s - higher)
    return higher, total * shrink + e.sum(), mix * shrink + e @ v


def sees(rows, keys, width):
    back = np.array(rows)[:, None] - np.array(keys)
    return (back >= 0) & (back < width)


def far(rows, keys):
    return np.array(rows)[:, None] - np.array(keys)


def log_total(s):
    return np.log(np.exp(s).sum(axis=-1))


def weights(s):
    e = np.exp(s)
    return e / e.sum(axis=-1, keepdims=True)


tile = np.array([1.0, 3.0]), np.array([[1.0, 0.0], [0.0, 2.0]])
more = rng.standard_normal(3), rng.standard_normal((3, 2))

EXERCISES = [
    predict(
        "13.1",
        "For one head, 100 queries and 300 keys are read in tiles of 32 queries and 64 keys. What "
        "is the shape of the scores in the very last tile?",
        (4, 44),
        mistakes=[
            Mistake("the shape of a whole tile", (32, 64),
                    "Is 100 a multiple of 32, and is 300 a multiple of 64?"),
            Mistake("keys by queries", (44, 4), "Which axis of the scores counts the queries?"),
            Mistake("the rest of the queries with a whole tile of keys", (4, 64),
                    "How many keys are left after four whole tiles?"),
            Mistake("the rest of the keys with a whole tile of queries", (32, 44),
                    "How many queries are left after three whole tiles?"),
        ],
    ),
    predict(
        "13.2",
        "A model has four blocks, all with Window(16). Take the logits of one place. How far back "
        "may the farthest token lie that can still change them?",
        60,
        mistakes=[
            Mistake("each block reaches as many positions back as its window is wide", 64,
                    "How far back is the farthest of the 16 positions, if the nearest is 0 back?"),
            Mistake("one block alone", 15,
                    "The last block looks at places that earlier blocks have worked on. What had "
                    "the farthest of them seen by then?"),
            Mistake("the width of one window", 16,
                    "The last block looks at places that earlier blocks have worked on. What had "
                    "the farthest of them seen by then?"),
            Mistake("the place itself is counted as a step", 61,
                    "How far back from itself does a place lie?"),
        ],
    ),
    code(
        "13.3",
        "Write join(a, b): two parts of one row of scores, each (largest, total, mix), as the "
        "same three of both parts together.",
        join,
        cases=[(part([2, 1], [1, 0], [0, 1]), part([4], [1, 1])),
               (part([5], [1, 2]), part([3, 3], [0, 1], [2, 0])),
               (part([1, 0, 2], [1, 0], [0, 1], [1, 1]), part([-1, 2.5], [3, 0], [0, 3]))],
        mistakes=[
            Mistake("nothing is shrunk", unshrunk,
                    "Which number did each part take off its scores? May two such sums be added as "
                    "they are?"),
            Mistake("the first part alone is shrunk", first_alone,
                    "What if the first part has the largest score of all?"),
            Mistake("the mix is not shrunk", mix_unshrunk,
                    "Which number was taken off the scores in the mix of a? And in that of b?"),
            Mistake("the factors are upside down", upside_down,
                    "Can exp(score - largest) become larger when a larger score is found?"),
        ],
    ),
    mend(
        "13.4",
        "Mend meet_one(top, total, mix, s, v): what is known of one query after a tile with "
        "scores s and values v. Its answers are right as long as top is already the largest score "
        "of the row.",
        by_the_old,
        meet,
        cases=[(2.0, 1.5, np.array([1.0, 0.5]), *tile), (4.0, 1.0, np.array([2.0, 1.0]), *tile),
               (-0.5, 2.0, np.array([0.3, 0.4]), *more)],
        mistakes=[
            Mistake("the mix is not shrunk", forgetful,
                    "Which number was taken off the scores in the old mix?"),
            Mistake("the factor is upside down", swapped,
                    "A larger score was found. Do the old terms get larger or smaller?"),
            Mistake("the new terms are shrunk, too", both_shrunk,
                    "Which maximum has already been taken off the new scores?"),
            Mistake("the largest of this tile alone", of_the_tile,
                    "What if an earlier tile had a far larger score? How large is your factor "
                    "then?"),
        ],
        tells_where=False,
    ),
    code(
        "13.5",
        "Write sees(rows, keys, width): for the positions of a tile, two ranges, a boolean array "
        "(len(rows), len(keys)): True where a causal window of this width lets the query see the "
        "key.",
        sees,
        cases=[(range(2, 5), range(0, 4), 2), (range(6, 8), range(3, 6), 3),
               (range(4), range(5), 4)],
        mistakes=[
            Mistake("the window is one too wide", lambda rows, keys, width:
                    (far(rows, keys) >= 0) & (far(rows, keys) <= width),
                    "With width 1, whom does a token see?"),
            Mistake("the future is seen as well", lambda rows, keys, width:
                    np.abs(far(rows, keys)) < width,
                    "May position 2 see position 3?"),
            Mistake("nothing is too far back", lambda rows, keys, width: far(rows, keys) >= 0,
                    "May position 9 see position 0, if the width is 3?"),
            Mistake("the token itself is left out", lambda rows, keys, width:
                    (far(rows, keys) > 0) & (far(rows, keys) <= width),
                    "Is the token itself one of the positions in its window?"),
            Mistake("keys by queries", lambda rows, keys, width: sees(rows, keys, width).T,
                    "Which axis of the answer counts the queries?"),
        ],
    ),
    replace(derive(
        "13.6",
        "Write log_total_backward(dlam, s): the gradient ds of lam = log(sum of exp(s) along the "
        "last axis), with s (T, S) and dlam (T,).",
        log_total,
        cases=[(np.array([[0.0, 1.0, 2.0], [1.0, 1.0, -1.0]]),), (rng.standard_normal((3, 4)),)],
        mistakes=[
            Mistake("dlam is missing", lambda dlam, s: weights(s),
                    "If lam mattered twice as much to the loss, what would happen to ds?"),
            Mistake("not divided by the total", lambda dlam, s: dlam[:, None] * np.exp(s),
                    "lam is log Z, where Z sums exp(s) over a row. What is the slope of log Z "
                    "in Z?"),
            Mistake("1 over the total alone",
                    lambda dlam, s: dlam[:, None] / np.exp(s).sum(axis=-1, keepdims=True)
                    * np.ones_like(s), "Z is a sum of exp(s). What is the derivative of exp(s)?"),
            Mistake("a softmax's gradient", lambda dlam, s:
                    dlam[:, None] * weights(s) * (1 - weights(s)),
                    "A softmax has one output for each score of a row. How many outputs has lam?"),
        ],
    ), arguments=("dlam", "s")),
]
