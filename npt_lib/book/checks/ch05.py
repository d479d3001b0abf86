"""Exercises of chapter 5: tokens and positions."""

import numpy as np

from npt_lib.book.exercises import Mistake, code, derive, mend, predict

rng = np.random.default_rng(5)

ids = np.array([[8, 4, 6, 5, 7, 3], [8, 4, 6, 8, 3, 0]])
table, places = rng.standard_normal((9, 5)), rng.standard_normal((7, 5))
SMALL = (np.array([[2, 0], [2, 2], [1, 2]]),            # for paper: the root of 4 is 2
         np.array([[1., 2, 0, 3], [0, 1, 4, 1], [5, 0, 1, 2]]),
         np.array([[10., 20, 30, 40], [50, 60, 70, 80], [0, 0, 0, 90]]))


def waves(n, D, exponents=lambda i, D: (i / D, i / D), first=0, columns=(0, 1)):
    """Sines and cosines of place t; exponents gives that of the sine and that of the cosine."""
    P = np.zeros((n, D))
    for t in range(n):
        for i in range(0, D, 2):
            sine, cosine = ((t + first) / 10_000 ** e for e in exponents(i, D))
            P[t, i + columns[0]], P[t, i + columns[1]] = np.sin(sine), np.cos(cosine)
    return P


def by_exponent(exponent):
    return lambda n, D: waves(n, D, lambda i, D: (exponent(i, D),) * 2)


def sines_first(n, D):
    P = waves(n, D)
    return np.concatenate([P[:, 0::2], P[:, 1::2]], axis=1)


def root(table):
    return np.sqrt(table.shape[1])


def scatter(dy, ids, table):
    dtable = np.zeros_like(table)
    np.add.at(dtable, ids, dy)
    return dtable


def scaled_word(ids, table, places):
    return table[ids] * root(table) + places[:ids.shape[1]]


def scaled_sum(ids, table, places):
    return (table[ids] + places[:ids.shape[1]]) * root(table)


def to_table(dy, ids, table):
    return scatter(dy * root(table), ids, table)


def to_places(dy, places):
    dplaces = np.zeros_like(places)
    dplaces[:dy.shape[1]] = dy.sum(axis=0)
    return dplaces


def scaled_places(dy, places):
    return to_places(dy * root(places), places)


def entrance(forward=scaled_word, dtable=to_table, dplaces=to_places):
    """Words and places put together by these three; the defaults are right."""
    def enter(ids, table, places):
        y = forward(ids, table, places)
        return y, lambda dy: (dtable(dy, ids, table), dplaces(dy, places))

    return enter


def buffered(dy, ids, table):
    dtable = np.zeros_like(table)
    dtable[ids] += dy * root(table)
    return dtable


def rotate(x, at, exponents=lambda D: np.arange(0, D, 2) / D):
    angles = at[:, None] * 10_000.0 ** -exponents(x.shape[1])
    c, s = np.cos(angles), np.sin(angles)
    y = np.empty_like(x)
    y[:, 0::2] = x[:, 0::2] * c + x[:, 1::2] * s
    y[:, 1::2] = x[:, 1::2] * c - x[:, 0::2] * s
    return y


def rotate_halves(x, at):
    """Number j of the first half is paired with number j of the second."""
    half = x.shape[1] // 2
    pairs = np.stack([x[:, :half], x[:, half:]], axis=-1).reshape(x.shape)
    y = rotate(pairs, at)
    return np.concatenate([y[:, 0::2], y[:, 1::2]], axis=1)


def all_plus(dy, x, at):
    """Both sines with a plus: the column of the second output has lost its sign."""
    dx = rotate(dy, -at)
    dx[:, 0::2] = rotate(dy, at)[:, 0::2]
    return dx


EXERCISES = [
    predict(
        "5.1",
        "one_hot is (2, 7, 11) and dx is (2, 7, 5). What is the shape of\n"
        "one_hot.swapaxes(1, 2) @ dx?",
        (2, 11, 5),
        mistakes=[
            Mistake("the sentences are summed", (11, 5),
                    "Does @ add up over an axis that stands before the last two?"),
            Mistake("a row for each place", (2, 7, 5),
                    "Which axis of one_hot does swapaxes bring to the front of each matrix?"),
            Mistake("the gradient turned over", (2, 5, 11),
                    "Which of the two matrices stands on the left of @?"),
        ],
    ),
    predict(
        "5.2",
        "x is (2, 7, 5) and table is (11, 5). What is the shape of\nx[:, -1:] @ table.T?",
        (2, 1, 11),
        mistakes=[
            Mistake("the axis of places is gone", (2, 11),
                    "What is the difference between x[:, -1] and x[:, -1:]?"),
            Mistake("scores for every place", (2, 7, 11),
                    "How many places does -1: keep?"),
            Mistake("the width of a vector", (2, 1, 5),
                    "How many rows of the table is each vector compared with?"),
        ],
    ),
    mend(
        "5.3",
        "Mend waves(n, D): row t of P holds sin(t w_i) in column 2i and cos(t w_i) in column "
        "2i + 1, with w_i = 10000**(-2i / D).",
        by_exponent(lambda i, D: 2 * i / D),
        waves,
        cases=[(3, 4), (5, 8), (4, 6)],
        mistakes=[
            Mistake("the hands slow down half as fast as they should",
                    by_exponent(lambda i, D: i / 2 / D),
                    "For the second pair, which number does the loop call i, and which is the i "
                    "of the formula?"),
            Mistake("the cosine has a rate of its own",
                    lambda n, D: waves(n, D, lambda i, D: (i / D, (i + 1) / D)),
                    "How many hands has one pair of columns?"),
            Mistake("all hands turn at the same rate", by_exponent(lambda i, D: 0),
                    "Which hand should be the slowest?"),
            Mistake("the places are counted from 1", lambda n, D: waves(n, D, first=1),
                    "At which angle does every hand begin?"),
            Mistake("sine and cosine are exchanged", lambda n, D: waves(n, D, columns=(1, 0)),
                    "What are the two numbers of a hand at the angle 0, and in which order?"),
            Mistake("all sines come first, then all cosines", sines_first,
                    "Which two columns belong to one hand?"),
        ],
    ),
    code(
        "5.4",
        "Write enter(ids, table, places): y = table[ids] * sqrt(D) + the first T rows of places, "
        "with its backward under it, which returns dtable, dplaces.",
        entrance(),
        cases=[SMALL, (ids, table, places), (ids[:, :4], table, places[:4])],
        mistakes=[
            Mistake("repeated ids do not add up", entrance(dtable=buffered),
                    "What does dtable[ids] += ... do when an id comes twice?"),
            Mistake("the scale is forgotten on the way back", entrance(dtable=scatter),
                    "How much does y move when an entry of the table moves by 1?"),
            Mistake("dplaces has only the first sentence",
                    entrance(dplaces=lambda dy, places: to_places(dy[:1], places)),
                    "How many sentences did each row of places go into?"),
            Mistake("dplaces is the mean over the sentences, not the sum",
                    entrance(dplaces=lambda dy, places: to_places(dy, places) / len(dy)),
                    "What is broadcast forwards: is it averaged or added up backwards?"),
            Mistake("dplaces is not summed over the batch",
                    entrance(dplaces=lambda dy, places: dy),
                    "Which shape does a gradient of places have?"),
            Mistake("dplaces has rows only for the places that were used",
                    entrance(dplaces=lambda dy, places: dy.sum(axis=0)),
                    "Which shape must a gradient always have, and what gets the rest of it?"),
            Mistake("dplaces is scaled, too", entrance(dplaces=scaled_places),
                    "Do the places pass through the multiplication by sqrt(D)?"),
            Mistake("the sum is scaled, not the word",
                    entrance(scaled_sum, dplaces=scaled_places),
                    "What becomes of the ratio of word and place if both are scaled?"),
            Mistake("the sum is scaled, not the word", entrance(scaled_sum),
                    "What becomes of the ratio of word and place if both are scaled?"),
            Mistake("nothing is scaled",
                    entrance(lambda ids, table, places: table[ids] + places[:ids.shape[1]],
                             scatter),
                    "How long is a row of the table beside a row of places at a large width?"),
        ],
    ),
    derive(
        "5.5",
        "Write rotate_backward(dy, x, at): the gradient with respect to x (T, D) of turning each "
        "pair of row t by the angle at[t] * w_i, with w_i = 10000**(-2 i / D).",
        rotate,
        cases=[(np.array([[3., 4], [1, 2], [2, 5]]), np.array([0, 11, 22])),
               (rng.standard_normal((5, 6)), np.array([0, 1, 2, 5, 40])),
               (rng.standard_normal((3, 4)), np.array([7, 3, 11]))],
        mistakes=[
            Mistake("dy is turned forwards again", lambda dy, x, at: rotate(dy, at),
                    "Which rotation undoes a rotation, and what does transposing its matrix do?"),
            Mistake("only the cosines", lambda dy, x, at: (rotate(dy, at) + rotate(dy, -at)) / 2,
                    "Does x_2i touch only y_2i?"),
            Mistake("both sines have a plus", all_plus,
                    "With which sign does x_2i enter y_2i+1?"),
            Mistake("the first half is paired with the second",
                    lambda dy, x, at: rotate_halves(dy, -at),
                    "Which column is the partner of column 0: column 1 or column D/2?"),
            Mistake("the first half is paired with the second, and turned forwards",
                    lambda dy, x, at: rotate_halves(dy, at),
                    "Which column is the partner of column 0: column 1 or column D/2? And which "
                    "rotation undoes a rotation?"),
            Mistake("the hands slow down half as fast as they should",
                    lambda dy, x, at: rotate(dy, -at, lambda D: np.arange(D // 2) / D),
                    "What is the exponent of the second pair: 1 / D or 2 / D?"),
            Mistake("dy is handed on unchanged", lambda dy, x, at: dy + 0.0,
                    "Is anything added here, or is x multiplied?"),
        ],
    ),
]
