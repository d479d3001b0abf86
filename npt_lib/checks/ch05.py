"""Exercises of chapter 5: tokens and positions."""

import numpy as np

from npt_lib.exercises import Mistake, code, derive, predict

rng = np.random.default_rng(5)

WORDS = {"<pad>": 0, "<bos>": 1, "<eos>": 2, "ball": 3, "cat": 4, "her": 5, "lost": 6, "red": 7,
         "the": 8}
STORIES = ["the cat lost her red ball", "the cat lost the ball", "her ball"]


def make_targets(texts, ids_of, bos=(1,), eos=(2,)):
    rows = [[*bos, *(ids_of[word] for word in text.split()), *eos] for text in texts]
    longest = max(map(len, rows))
    return np.array([row + [0] * (longest - len(row)) for row in rows])


def padded_in_front(texts, ids_of):
    rows = [[i for i in row if i] for row in make_targets(texts, ids_of).tolist()]
    longest = max(map(len, rows))
    return np.array([[0] * (longest - len(row)) + row for row in rows])


def end_after_padding(texts, ids_of):
    rows = make_targets(texts, ids_of, eos=())
    return np.concatenate([rows, np.full((len(rows), 1), 2)], axis=1)


def padded_with_eos(texts, ids_of):
    rows = make_targets(texts, ids_of)
    return np.where(rows == 0, 2, rows)


def scatter(table, ids, dx):
    dtable = np.zeros_like(table)
    np.add.at(dtable, ids, dx)
    return dtable


def by_place(places, dy):
    dplaces = np.zeros_like(places)
    dplaces[:dy.shape[1]] = dy.sum(axis=0)
    return dplaces


def enter(ids, table, places):
    scale = np.sqrt(table.shape[1])
    y = table[ids] * scale + places[:ids.shape[1]]

    def backward(dy):
        return scatter(table, ids, dy * scale), by_place(places, dy)

    return y, backward


def entering(dtable, dplaces):
    """A right forward with these two gradients, each a function of dy and the arguments."""
    def answer(ids, table, places):
        y, _ = enter(ids, table, places)
        return y, lambda dy: (dtable(dy, ids, table), dplaces(dy, places))
    return answer


def right_table(dy, ids, table):
    return scatter(table, ids, dy * np.sqrt(table.shape[1]))


def right_places(dy, places):
    return by_place(places, dy)


def buffered(dy, ids, table):
    dtable = np.zeros_like(table)
    dtable[ids] += dy * np.sqrt(table.shape[1])
    return dtable


def first_sentence(dy, places):
    return by_place(places, dy[:1])


def scaled_after(ids, table, places):
    scale = np.sqrt(table.shape[1])
    y = (table[ids] + places[:ids.shape[1]]) * scale
    return y, lambda dy: (scatter(table, ids, dy * scale), by_place(places, dy * scale))


def unscaled(ids, table, places):
    y = table[ids] + places[:ids.shape[1]]
    return y, lambda dy: (scatter(table, ids, dy), by_place(places, dy))


def rotate(x, t):
    d = x.shape[1]
    angles = t[:, None] * 10_000.0 ** (-np.arange(0, d, 2) / d)
    c, s = np.cos(angles), np.sin(angles)
    y = np.empty_like(x)
    y[:, 0::2] = x[:, 0::2] * c + x[:, 1::2] * s
    y[:, 1::2] = x[:, 1::2] * c - x[:, 0::2] * s
    return y


def cosines_only(dy, x, t):
    return (rotate(dy, t) + rotate(dy, -t)) / 2


def all_plus(dy, x, t):
    """Both sines with a plus: the column of the second output has lost its sign."""
    dx = rotate(dy, -t)
    dx[:, 0::2] = rotate(dy, t)[:, 0::2]
    return dx


ids = np.array([[8, 4, 6, 5, 7, 3], [8, 4, 6, 8, 3, 0]])
table, places = rng.standard_normal((9, 5)), rng.standard_normal((7, 5))

EXERCISES = [
    predict(
        "5.1",
        "table is (11, 5), ids is (2, 7), and dy, the gradient at the embedding's output, is "
        "(2, 7, 5). What is the shape of the table's gradient?",
        (11, 5),
        mistakes=[
            Mistake("that is the gradient of the output", (2, 7, 5),
                    "Of which array is it the gradient, and what is that array's shape?"),
            Mistake("summed over the batch, as for learned positions", (7, 5),
                    "Which places share a row of this table: those with the same position, or "
                    "those with the same id?"),
            Mistake("a row for each place of the batch", (14, 5),
                    "What becomes of the rows of tokens that do not occur, and of those that "
                    "occur twice?"),
        ],
    ),
    predict(
        "5.2",
        "x is (2, 7, 5) and table is (11, 5). Which shape has x[:, -1:] @ table.T?",
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
    code(
        "5.3",
        "Write make_targets(texts, ids_of): an integer array (B, L) with <bos> (1), the words' "
        "ids and <eos> (2) of each text, padded with 0 at the end.",
        make_targets,
        cases=[(STORIES, WORDS), (STORIES[1:], WORDS), (STORIES[::-1], WORDS)],
        mistakes=[
            Mistake("the padding is in front", padded_in_front,
                    "At which position should every text begin?"),
            Mistake("<eos> comes after the padding", end_after_padding,
                    "After which token is a text over?"),
            Mistake("no <eos>", lambda texts, ids_of: make_targets(texts, ids_of, eos=()),
                    "How would a model learn where to stop?"),
            Mistake("no <bos>", lambda texts, ids_of: make_targets(texts, ids_of, bos=()),
                    "What does the decoder read before it has written anything?"),
            Mistake("neither <bos> nor <eos>",
                    lambda texts, ids_of: make_targets(texts, ids_of, bos=(), eos=()),
                    "Which two tokens does a target have besides its words?"),
            Mistake("padded with <eos>", padded_with_eos,
                    "Which id tells a mask that there is nothing to see?"),
        ],
    ),
    code(
        "5.4",
        "Write enter(ids, table, places): y = table[ids] * sqrt(D) + the first T rows of places, "
        "with its backward under it, which returns dtable, dplaces.",
        enter,
        cases=[(ids, table, places), (ids[:, :4], table, places[:4])],
        mistakes=[
            Mistake("repeated ids do not add up", entering(buffered, right_places),
                    "What does dtable[ids] += ... do when an id comes twice?"),
            Mistake("the scale is forgotten on the way back", entering(
                        lambda dy, ids, table: scatter(table, ids, dy), right_places),
                    "How much does y move when an entry of the table moves by 1?"),
            Mistake("dplaces has only the first sentence", entering(right_table, first_sentence),
                    "How many sentences did each row of places go into?"),
            Mistake("dplaces is the mean over the sentences, not the sum", entering(
                        right_table, lambda dy, places: by_place(places, dy) / len(dy)),
                    "What is broadcast forwards: is it averaged or added up backwards?"),
            Mistake("dplaces is not summed over the batch",
                    entering(right_table, lambda dy, places: dy),
                    "Which shape does a gradient of places have?"),
            Mistake("dplaces is scaled, too", entering(
                        right_table, lambda dy, places: by_place(places, dy * np.sqrt(5))),
                    "Do the places pass through the multiplication by sqrt(D)?"),
            Mistake("the sum is scaled, not the word", scaled_after,
                    "What becomes of the ratio of word and place if both are scaled?"),
            Mistake("nothing is scaled", unscaled,
                    "How long is a row of the table beside a row of places at a large width?"),
        ],
    ),
    derive(
        "5.5",
        "Write rotate_backward(dy, x, t): the gradient with respect to x (T, D) of turning each "
        "pair of row r by the angle t[r] * w_i, with w_i = 10000**(-2 i / D).",
        rotate,
        cases=[(rng.standard_normal((5, 6)), np.array([0, 1, 2, 5, 40])),
               (rng.standard_normal((3, 4)), np.array([7, 3, 11]))],
        mistakes=[
            Mistake("dy is turned forwards again", lambda dy, x, t: rotate(dy, t),
                    "Which rotation undoes a rotation, and what does transposing its matrix do?"),
            Mistake("only the cosines", cosines_only,
                    "Does x_2i touch only y_2i?"),
            Mistake("both sines have a plus", all_plus,
                    "With which sign does x_2i enter y_2i+1?"),
            Mistake("dy is handed on unchanged", lambda dy, x, t: dy + 0.0,
                    "Is anything added here, or is x multiplied?"),
        ],
    ),
]
