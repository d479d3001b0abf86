"""Exercises of chapter 11: a language model."""

import math

import numpy as np

from npt_lib.book.exercises import Mistake, code, derive, mend, predict

rng = np.random.default_rng(11)


def rows(tape, length):
    n = (len(tape) - 1) // length
    return np.stack([tape[i * length:i * length + length + 1] for i in range(n)])


def rows_of(width, step):
    """Rows of another width, or at other distances; as many as fit."""
    def cut(tape, length):
        wide, far = width(length), step(length)
        n = (len(tape) - wide) // far + 1
        return np.stack([tape[i * far:i * far + wide] for i in range(n)])
    return cut


def bits(losses, text):
    return losses.sum() / math.log(2) / len(text.encode())


def previous(w):
    return np.stack([head[1:, :-1].diagonal().mean() for head in w])


def smallest(U, P, ids):
    return (U[ids] + P[:ids.shape[1]]) @ U.T


def parts(dy, U, P, ids):
    """What goes into dU as input, as output, and into dP."""
    T = ids.shape[1]
    dx = dy @ U                                              # (B, T, D)
    entering = np.zeros_like(U)
    np.add.at(entering, ids, dx)
    leaving = np.einsum("btv,btd->vd", dy, U[ids] + P[:T])
    dP = np.zeros_like(P)
    dP[:T] = dx.sum(axis=0)
    return entering, leaving, dP


def repeated_once(dy, U, P, ids):
    _, leaving, dP = parts(dy, U, P, ids)
    leaving[ids] += dy @ U
    return leaving, dP


def without_positions(dy, U, P, ids):
    entering, _, dP = parts(dy, U, P, ids)
    return entering + np.einsum("btv,btd->vd", dy, U[ids]), dP


def mean_over_batch(dy, U, P, ids):
    entering, leaving, dP = parts(dy, U, P, ids)
    return entering + leaving, dP / len(ids)


def case(V, D, n, B, T):
    return (rng.standard_normal((V, D)), rng.standard_normal((n, D)), rng.integers(0, V, (B, T)))


def causal(H, T):
    scores = np.where(np.tri(T, dtype=bool), rng.standard_normal((H, T, T)), -np.inf)
    e = np.exp(scores)
    return e / e.sum(axis=-1, keepdims=True)


# three tokens; the second head looks at the token before wherever there is one
by_hand = np.array([[[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.5, 0.25]],
                    [[1, 0, 0], [1, 0, 0], [0, 1, 0]]])
by_paper = (np.array([[1.0, 0], [0, 1], [2, 0]]), np.array([[0, 0], [0, 3.0], [5, 5]]),
            np.array([[2, 2]]))
spread = np.array([1.0, 2, 0.5]) * math.log(2)

EXERCISES = [
    predict(
        "11.1",
        "Rows from texts.rows(tokenizer, 64), 16 of them a batch, 1,027 tokens. What is the shape "
        "of the logits that the loss is computed from?",
        (16, 64, 1027),
        mistakes=[
            Mistake("the last id of each row is read, too", (16, 65, 1027),
                    "Suppose the model guesses after the last id, too. With which id of the row "
                    "would you compare that guess?"),
            Mistake("an id too few is read", (16, 63, 1027),
                    "How many ids does a row of texts.rows(tokenizer, 64) hold?"),
            Mistake("those are the ids", (16, 64),
                    "How many scores does the model give for each id that it reads?"),
            Mistake("one prediction for each row", (16, 1027),
                    "Which places of a row are graded: the last, or all?"),
        ],
    ),
    predict(
        "11.2",
        "The joins are a+n, then an+a, then b+an, in this order. Into how many tokens is banana "
        "cut?",
        2,
        mistakes=[
            Mistake("the last join is not used", 3,
                    "After the second join, what stands behind the b?"),
            Mistake("only a+n is joined", 4,
                    "Once a+n is joined, between which neighbours does the second join look?"),
            Mistake("those are the letters", 6, "Which pair stands first in the list of joins?"),
        ],
    ),
    code(
        "11.3",
        "Write rows(tape, length): cut a tape of ids (N,) into rows of length + 1, so that each "
        "row begins with the last id of the row before. Ids at the end that do not fill a row are "
        "left out.",
        rows,
        cases=[(np.arange(3, 11), 3), (np.arange(10, 21), 5), (np.array([7, 3, 9, 4, 4, 8]), 1),
               (np.arange(40, 49), 2)],
        mistakes=[
            Mistake("the rows do not overlap", rows_of(lambda n: n + 1, lambda n: n + 1),
                    "Who predicts the first id of the second row?"),
            Mistake("the rows have length ids", rows_of(lambda n: n, lambda n: n),
                    "How many ids must a row hold so that length of them can be predicted?"),
            Mistake("each row begins one id after the row before",
                    rows_of(lambda n: n + 1, lambda n: 1),
                    "How often is the third id a target now?"),
        ],
    ),
    mend(
        "11.4",
        "Mend bits(losses, text): losses are the surprises -ln p of all tokens of text, in nats; "
        "return the bits per byte. No end is counted here.",
        lambda losses, text: losses.sum() / len(text),
        bits,
        cases=[(spread, "cat"), (spread, "más"), (np.array([3.0, 4]), "猫 está")],
        mistakes=[
            Mistake("still counted in characters",
                    lambda losses, text: losses.sum() / math.log(2) / len(text),
                    "How many bytes does an á take?"),
            Mistake("still counted in nats",
                    lambda losses, text: losses.sum() / len(text.encode()),
                    "What is the surprise of a fair coin, in nats and in bits?"),
            Mistake("multiplied by ln 2",
                    lambda losses, text: losses.sum() * math.log(2) / len(text.encode()),
                    "A fair coin's surprise is 0.69 nats. In bits, is the number larger or "
                    "smaller?"),
            Mistake("bits per token",
                    lambda losses, text: losses.mean() / math.log(2),
                    "The mean divides by the number of tokens. What should the sum be divided by?"),
        ],
    ),
    code(
        "11.5",
        "Write previous(w): for attention weights (H, T, T), the weight that each head gives to "
        "the token before, averaged over the places that have one; (H,).",
        previous,
        cases=[(by_hand,), (causal(3, 5),), (causal(2, 7),)],
        mistakes=[
            Mistake("the weight on the token itself",
                    lambda w: np.stack([head.diagonal().mean() for head in w]),
                    "In row t of a head, which column belongs to the token before?"),
            Mistake("the weight on the token after",
                    lambda w: np.stack([head.diagonal(1).mean() for head in w]),
                    "May a token look ahead? So what stands in those columns?"),
            Mistake("the first place counts, too",
                    lambda w: np.stack([head.diagonal(-1).sum() / len(head) for head in w]),
                    "Which token has none before it?"),
            Mistake("averaged over the heads, too", lambda w: previous(w).mean(),
                    "How many numbers should come out for H heads?"),
            Mistake("summed, not averaged",
                    lambda w: np.stack([head.diagonal(-1).sum() for head in w]),
                    "Would a longer text give a head a higher score?"),
        ],
    ),
    derive(
        "11.6",
        "Write smallest_backward(dy, U, P, ids): the gradients dU and dP of "
        "y = (U[ids] + P[:T]) @ U.T, with U (V, D), P (n, D), n at least T, and ids (B, T).",
        smallest,
        cases=[by_paper, case(7, 3, 6, 2, 4), case(5, 2, 3, 4, 3)],
        mistakes=[
            Mistake("the table counts as input only",
                    lambda *given: (parts(*given)[0], parts(*given)[2]),
                    "A token that is not in ids has a score, too. What is it computed from?"),
            Mistake("the table counts as output only", lambda *given: parts(*given)[1:],
                    "Does x = U[ids] + P[:T] change when the row of a token in ids changes?"),
            Mistake("a repeated id counts once as input", repeated_once,
                    "What does dU[ids] += ... do when ids holds the same id twice?"),
            Mistake("the positions are missing from what meets the table on the way out",
                    without_positions, "Which vector is multiplied by U.T?"),
            Mistake("a position's gradient is a mean over the batch", mean_over_batch,
                    "P[t] is used once in every row of the batch. What happens to the gradients of "
                    "all uses of a number?"),
        ],
    ),
]
