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
                    "After swapaxes, what does a row of each matrix stand for: a place, "
                    "or a token of the vocabulary?"),
            Mistake("rows and columns are exchanged", (2, 5, 11),
                    "From which of its two matrices does @ take the number of rows?"),
        ],
    ),
    predict(
        "5.2",
        "x is (2, 7, 5) and table is (11, 5). What is the shape of\nx[:, -1:] @ table.T?",
        (2, 1, 11),
        mistakes=[
            Mistake("the axis of places is gone", (2, 11),
                    "x[:, -1] drops an axis. Does x[:, -1:] drop it, too?"),
            Mistake("scores for every place", (2, 7, 11),
                    "How many places does the slice -1: keep?"),
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
            Mistake("the exponents are half of what they should be",
                    by_exponent(lambda i, D: i / 2 / D),
                    "The second pair is i = 1 in the formula. What is its exponent there, and "
                    "what is it in your loop?"),
            Mistake("the cosine has a rate of its own",
                    lambda n, D: waves(n, D, lambda i, D: (i / D, (i + 1) / D)),
                    "A pair of columns is one hand. How many rates can one hand have?"),
            Mistake("all hands turn at the same rate", by_exponent(lambda i, D: 0),
                    "Does your exponent grow from one pair to the next?"),
            Mistake("the places are counted from 1", lambda n, D: waves(n, D, first=1),
                    "At which angle does every hand begin?"),
            Mistake("sine and cosine are exchanged", lambda n, D: waves(n, D, columns=(1, 0)),
                    "At place 0 every angle is 0. What are the sine and the cosine there, and "
                    "which of them does the formula put into column 0?"),
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
                    "To how many sentences was each row of places added?"),
            Mistake("dplaces is the mean over the sentences, not the sum",
                    entrance(dplaces=lambda dy, places: to_places(dy, places) / len(dy)),
                    "A row of places is used once in every sentence. Are the gradients of several "
                    "uses averaged, or added up?"),
            Mistake("dplaces is not summed over the batch",
                    entrance(dplaces=lambda dy, places: dy),
                    "Which axis does dy have that places has not, and what becomes of it on the "
                    "way back?"),
            Mistake("dplaces has rows only for the places that were used",
                    entrance(dplaces=lambda dy, places: dy.sum(axis=0)),
                    "Which shape has places? And how much does y move with a row at which no word "
                    "stands?"),
            Mistake("dplaces is scaled, too", entrance(dplaces=scaled_places),
                    "Do the places pass through the multiplication by sqrt(D)?"),
            Mistake("the sum is scaled, not the word",
                    entrance(scaled_sum, dplaces=scaled_places),
                    "If word and place are multiplied by the same number, does the word gain on "
                    "the place?"),
            Mistake("the sum is scaled, not the word", entrance(scaled_sum),
                    "If word and place are multiplied by the same number, does the word gain on "
                    "the place?"),
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
                    "With which sign does x_2i enter y_2i+1? And with which sign does dy_2i+1 come "
                    "back to it?"),
            Mistake("only the cosines", lambda dy, x, at: (rotate(dy, at) + rotate(dy, -at)) / 2,
                    "Which outputs does x_2i touch: y_2i alone?"),
            Mistake("both sines have a plus", all_plus,
                    "With which sign does x_2i enter y_2i+1?"),
            Mistake("the first half is paired with the second",
                    lambda dy, x, at: rotate_halves(dy, -at),
                    "Which column is the partner of column 0: column 1 or column D/2?"),
            Mistake("the first half is paired with the second, and turned forwards",
                    lambda dy, x, at: rotate_halves(dy, at),
                    "Which column is the partner of column 0: column 1 or column D/2? And with "
                    "which sign does x_2i enter y_2i+1?"),
            Mistake("the exponents are half of what they should be",
                    lambda dy, x, at: rotate(dy, -at, lambda D: np.arange(D // 2) / D),
                    "The second pair is i = 1. What is its exponent in w_i?"),
            Mistake("dy is handed on unchanged", lambda dy, x, at: dy + 0.0,
                    "By which numbers does forward multiply x_2i? What does that do to a "
                    "gradient?"),
        ],
    ),
]
