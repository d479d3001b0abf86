"""Exercises of chapter 10: training."""

import numpy as np

from npt_lib.book.exercises import Mistake, code, derive, mend, predict
from npt_lib.layers import softmax

# For paper: the largest logit of each row is easy to see, and padding is not always id 0.
LOGITS = np.array([[[1., 5, 2, 0], [7, 0, 1, 2], [0, 1, 9, 3]],
                   [[4, 3, 0, 1], [2, 8, 0, 1], [9, 0, 1, 2]]])
PAD_0 = np.array([[1, 2, 2], [3, 1, 0]])                 # right: 2 of 3, and 1 of 2
PAD_2 = np.array([[1, 0, 0], [0, 2, 2]])                 # right: 2 of 3, and 1 of 1; 0 is a token


def right(logits, targets):
    return logits.argmax(axis=-1) == targets


def token_accuracy(logits, targets, pad_id):
    return float(right(logits, targets)[targets != pad_id].mean())


def padding_counted(logits, targets, pad_id):
    return float(right(logits, targets).mean())


def divided_by_all(logits, targets, pad_id):
    return float((right(logits, targets) & (targets != pad_id)).mean())


def mean_of_rows(logits, targets, pad_id):
    real = targets != pad_id
    return float(((right(logits, targets) & real).sum(axis=1) / real.sum(axis=1)).mean())


def padding_is_0(logits, targets, pad_id):
    return token_accuracy(logits, targets, 0)


def whole_rows(logits, targets, pad_id):
    return float((right(logits, targets) | (targets == pad_id)).all(axis=1).mean())


def adam(square=lambda grad: grad**2, correct=(True, True), keep=False,
         size=lambda u: np.sqrt(u) + 1e-9):
    """Adam's step for one array, with what a mistake changes in it."""

    def step(value, grad, m, u, n, lr):
        m, u = 0.9 * m + 0.1 * grad, 0.98 * u + 0.02 * square(grad)
        mean = m / (1 - 0.9**n) if correct[0] else m
        spread = u / (1 - 0.98**n) if correct[1] else u
        new = value - lr * mean / size(spread)
        return (new, mean, spread) if keep else (new, m, u)

    return step


def adam_step(value, grad, m, u, n, lr):
    return adam()(value, grad, m, u, n, lr)


def broken_adam(value, grad, m, u, n, lr):
    m = (0.9 * m + 0.1 * grad) / (1 - 0.9**n)
    u = (0.98 * u + 0.02 * grad**2) / (1 - 0.98**n)
    return value - lr * m / np.sqrt(u + 1e-9), m, u


def inside(u):
    return np.sqrt(u + 1e-9)


FIRST = (np.array([[1., 1, 1]]), np.array([[2., -4, 1e-4]]), np.zeros((1, 3)), np.zeros((1, 3)),
         1, 0.1)
LATER = (np.array([[1., 1], [1, 1], [1, 1]]), np.array([[1., 0], [3, -1], [0, 1e-4]]),
         np.array([[0.5, 1], [0, 1], [0, 1e-4]]), np.array([[0.25, 1], [0, 1], [0, 1e-8]]),
         2, 0.1)


def norm_of(*grads):
    return np.sqrt(sum((g**2).sum() for g in grads))


def clip_two(dw, db, limit):
    factor = min(1.0, limit / norm_of(dw, db))
    return dw * factor, db * factor


def one_by_one(dw, db, limit):
    return clip_two(dw, 0 * db, limit)[0], clip_two(0 * dw, db, limit)[1]


def always_scaled(dw, db, limit):
    return dw * (limit / norm_of(dw, db)), db * (limit / norm_of(dw, db))


def entry_by_entry(dw, db, limit):
    return np.clip(dw, -limit, limit), np.clip(db, -limit, limit)


def without_root(dw, db, limit):
    factor = min(1.0, limit / norm_of(dw, db)**2)
    return dw * factor, db * factor


def norms_added(dw, db, limit):
    factor = min(1.0, limit / (norm_of(dw) + norm_of(db)))
    return dw * factor, db * factor


def in_place(dw, db, limit):
    factor = min(1.0, limit / norm_of(dw, db))
    dw *= factor
    db *= factor
    return dw, db


def drift(z):
    top = z.max(axis=-1)
    return (np.log(np.exp(z - top[..., None]).sum(axis=-1)) + top) ** 2


def log_sum(z):
    return np.log(np.exp(z).sum(axis=-1, keepdims=True))


EXERCISES = [
    predict(
        "10.1",
        "src is (4, 7), tgt is (4, 10), the target vocabulary has 13 tokens. What is the shape "
        "of the logits in a training step?",
        (4, 9, 13),
        mistakes=[
            Mistake("the decoder reads all of tgt", (4, 10, 13),
                    "After the last token, what is left to predict?"),
            Mistake("one row of logits for each source token", (4, 7, 13),
                    "Which sequence is being written?"),
            Mistake("both the first and the last token dropped", (4, 8, 13),
                    "Is <bos> dropped from what the decoder reads, or from what it must predict?"),
            Mistake("the shape of the targets", (4, 9),
                    "How many scores does a position need to choose a token from?"),
        ],
    ),
    predict(
        "10.2",
        "Beam search of width 4 over 3 sources; the target vocabulary has 11 tokens. Which shape "
        "have the logits that chapter 9's cached_step returns?",
        (12, 11),
        mistakes=[
            Mistake("one row for each source", (3, 11),
                    "How many unfinished outputs does each source have?"),
            Mistake("one row for each beam of one source", (4, 11),
                    "How many sources are there?"),
            Mistake("an axis of its own for the beams", (3, 4, 11),
                    "Does the model know which of its rows belong to the same source?"),
            Mistake("an axis for the one token", (12, 1, 11),
                    "cached_step ends with [:, 0]. What does that take away?"),
        ],
    ),
    code(
        "10.3",
        "Write token_accuracy(logits, targets, pad_id): the share of real targets whose logit is "
        "the largest of its row.",
        token_accuracy,
        cases=[(LOGITS, PAD_0, 0), (LOGITS, PAD_2, 2)],
        mistakes=[
            Mistake("padding is taken to be 0", padding_is_0,
                    "What is pad_id in each case?"),
            Mistake("padding is counted", padding_counted,
                    "Which of the targets are real?"),
            Mistake("the count includes padding", divided_by_all,
                    "Of how many tokens do you take the share?"),
            Mistake("the mean of the shares of the rows", mean_of_rows,
                    "Does a token of a short row count as much as one of a long row?"),
            Mistake("the share of whole rows", whole_rows,
                    "Of what is the share asked, of rows or of tokens?"),
        ],
    ),
    mend(
        "10.4",
        "Mend adam_step(value, grad, m, u, n, lr): one step of Adam, returning the new value, m "
        "and u. n counts from 1.",
        broken_adam,
        adam_step,
        cases=[FIRST, LATER],
        outputs=("value", "m", "u"),
        mistakes=[
            Mistake("the corrected means are kept as m and u", adam(keep=True),
                    "The next step begins with this m. What happens to a mean that is already "
                    "corrected?"),
            Mistake("epsilon is added below the root", adam(size=inside),
                    "How large is the root of 1e-9 beside a gradient of 1e-4?"),
            Mistake("there is no bias correction", adam(correct=(False, False)),
                    "After one step from 0, how large are m and u beside the gradient and its "
                    "square?"),
            Mistake("there is no bias correction, and epsilon is below the root",
                    adam(correct=(False, False), size=inside),
                    "After one step from 0, how large are m and u beside the gradient and its "
                    "square?"),
            Mistake("only m is corrected", adam(correct=(True, False)),
                    "At which value does u start?"),
            Mistake("the gradient is not squared", adam(square=lambda grad: grad),
                    "Of what is u a running mean?"),
            Mistake("the mean square is used instead of its root",
                    adam(size=lambda u: u + 1e-9),
                    "If all gradients were ten times as large, should the step change?"),
        ],
    ),
    code(
        "10.5",
        "Write clip_two(dw, db, limit): a tuple of two new arrays, scaled so that the norm of "
        "both together is at most limit.",
        clip_two,
        cases=[(np.array([[2., 0, 2], [0, 1, 0]]), np.array([0., 4]), 1.0),
               (np.array([[2., 0, 2], [0, 1, 0]]), np.array([0., 4]), 10.0)],
        outputs=("dw", "db"),
        mistakes=[
            Mistake("each array is clipped by its own norm", one_by_one,
                    "Do the arrays keep their sizes relative to each other?"),
            Mistake("small gradients are scaled up", always_scaled,
                    "What should happen when the norm is below the limit?"),
            Mistake("every number is cut off at the limit", entry_by_entry,
                    "Does the gradient still point in the same direction?"),
            Mistake("the sum of squares is used without its root", without_root,
                    "How long is the arrow (3, 4)?"),
            Mistake("the two norms are added", norms_added,
                    "Is the longest side of a right triangle as long as the other two together?"),
            Mistake("the arrays that came in were changed", in_place,
                    "Does dw *= factor make a new array?"),
        ],
    ),
    derive(
        "10.6",
        "Write drift_backward(dy, z): the gradient with respect to z of the square of the "
        "logarithm of the sum of exp(z), along the last axis.",
        drift,
        cases=[(np.array([[0., 0, 0], [1, 0, 0]]),), (np.array([[[2., 1], [0, 3], [1, 1]]]),)],
        mistakes=[
            Mistake("the slope of the square is missing",
                    lambda dy, z: dy[..., None] * softmax(z)[0],
                    "What is the derivative of a square?"),
            Mistake("the softmax is missing",
                    lambda dy, z: dy[..., None] * 2 * log_sum(z) * np.ones_like(z),
                    "How much does each logit move the logarithm of the sum?"),
            Mistake("the maximum is not added back to the logarithm",
                    lambda dy, z: dy[..., None] * 2 * log_sum(z - z.max(axis=-1, keepdims=True))
                    * softmax(z)[0],
                    "By how much does the logarithm of the sum change when every logit is "
                    "lowered by the maximum?"),
            Mistake("dy is missing",
                    lambda dy, z: 2 * log_sum(z) * softmax(z)[0],
                    "If y grows by a little, by how much does the loss grow?"),
            Mistake("the logarithm of the sum is missing",
                    lambda dy, z: dy[..., None] * 2 * softmax(z)[0],
                    "Which function is squared?"),
        ],
    ),
]
