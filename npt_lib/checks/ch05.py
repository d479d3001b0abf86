"""Exercises of chapter 5: tokens and positions."""

import numpy as np

from npt_lib.exercises import Mistake, code, derive, predict

rng = np.random.default_rng(5)

VOCABULARY = ["<pad>", "<bos>", "<eos>", "ball", "cat", "her", "lost", "red", "the"]
WORDS = {word: i for i, word in enumerate(VOCABULARY)}
STORIES = ["the cat lost her red ball", "the cat lost the ball", "her ball"]

ids = np.array([[8, 4, 6, 5, 7, 3], [8, 4, 6, 8, 3, 0]])
table, places = rng.standard_normal((9, 5)), rng.standard_normal((7, 5))


def make_targets(texts, ids_of, bos=(1,), eos=(2,), pad=0, front=False):
    rows = [[*bos, *(ids_of[word] for word in text.split()), *eos] for text in texts]
    longest = max(map(len, rows))
    fill = [[pad] * (longest - len(row)) for row in rows]
    return np.array([f + row if front else row + f for row, f in zip(rows, fill, strict=True)])


def end_after_padding(texts, ids_of):
    rows = make_targets(texts, ids_of, eos=())
    return np.concatenate([rows, np.full((len(rows), 1), 2)], axis=1)


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


def rotate(x, t):
    d = x.shape[1]
    angles = t[:, None] * 10_000.0 ** (-np.arange(0, d, 2) / d)
    c, s = np.cos(angles), np.sin(angles)
    y = np.empty_like(x)
    y[:, 0::2] = x[:, 0::2] * c + x[:, 1::2] * s
    y[:, 1::2] = x[:, 1::2] * c - x[:, 0::2] * s
    return y


def all_plus(dy, x, t):
    """Both sines with a plus: the column of the second output has lost its sign."""
    dx = rotate(dy, -t)
    dx[:, 0::2] = rotate(dy, t)[:, 0::2]
    return dx


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
        "x is (2, 7, 5) and table is (11, 5). Which shape has\nx[:, -1:] @ table.T?",
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
            Mistake("the padding is in front",
                    lambda texts, ids_of: make_targets(texts, ids_of, front=True),
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
            Mistake("padded with <eos>",
                    lambda texts, ids_of: make_targets(texts, ids_of, pad=2),
                    "Which id tells a mask that there is nothing to see?"),
        ],
    ),
    code(
        "5.4",
        "Write enter(ids, table, places): y = table[ids] * sqrt(D) + the first T rows of places, "
        "with its backward under it, which returns dtable, dplaces.",
        entrance(),
        cases=[(ids, table, places), (ids[:, :4], table, places[:4])],
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
            Mistake("nothing is scaled",
                    entrance(lambda ids, table, places: table[ids] + places[:ids.shape[1]],
                             scatter),
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
            Mistake("only the cosines", lambda dy, x, t: (rotate(dy, t) + rotate(dy, -t)) / 2,
                    "Does x_2i touch only y_2i?"),
            Mistake("both sines have a plus", all_plus,
                    "With which sign does x_2i enter y_2i+1?"),
            Mistake("dy is handed on unchanged", lambda dy, x, t: dy + 0.0,
                    "Is anything added here, or is x multiplied?"),
        ],
    ),
]
