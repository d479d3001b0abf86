"""Exercises of chapter 8: the decoder."""

import numpy as np

from npt_lib.book.exercises import Mistake, code, derive, mend, predict
from npt_lib.multi_head_attention import CrossAttention

rng = np.random.default_rng(8)


def prefix_mask(lengths, T):
    return looks(lengths, T, lambda i, j, n: (j <= i) | (j < n))


def looks(lengths, T, allowed):
    """(B, 1, T, T): where allowed(query, key, length) holds."""
    places = np.arange(T)
    return allowed(places[:, None], places, np.asarray(lengths)[:, None, None, None])


def masked_by(allowed):
    return lambda lengths, T: np.broadcast_to(looks(lengths, T, allowed), (len(lengths), 1, T, T))


def read_twice(x, memory, first, second):
    return two_reads(x, memory, first, second)


def the_sum(dm1, dm2):
    return dm1 + dm2


def two_reads(x, memory, first, second, of_memory=the_sum, kept=(1, 1), turned=False):
    """Right by default. kept: 0 forgets the residual of the first or of the second read in the
    backward; turned exchanges the two gradients."""
    h, first_backward = first.forward(x, memory)
    a = x + h
    h, second_backward = second.forward(a, memory)

    def backward(dy):
        da_h, dm2 = second_backward(dy)
        da = kept[1] * dy + da_h
        dx_h, dm1 = first_backward(da)
        found = kept[0] * da + dx_h, of_memory(dm1, dm2)
        return found[::-1] if turned else found

    return a + h, backward


def reading(**slips):
    return lambda *given: two_reads(*given, **slips)


def of_first(dm1, dm2):
    return dm1


def of_second(dm1, dm2):
    return dm2


def side_by_side(x, memory, first, second):
    """Both read x: the second does not see what the first found."""
    h1, first_backward = first.forward(x, memory)
    h2, second_backward = second.forward(x, memory)

    def backward(dy):
        (dx1, dm1), (dx2, dm2) = first_backward(dy), second_backward(dy)
        return dy + dx1 + dx2, dm1 + dm2

    return x + h1 + h2, backward


def counts(x):
    return np.arange(1, x.shape[1] + 1)[:, None]                  # (T, 1)


def running_mean(x):
    return x.cumsum(axis=1) / counts(x)


def from_behind(x):
    return x[:, ::-1].cumsum(axis=1)[:, ::-1]


def reader(d_model: int, n_heads: int) -> CrossAttention:
    """In float64, and no bias left at zero."""
    layer = CrossAttention(d_model, n_heads, rng).astype(np.float64)
    for p in layer.parameters().values():
        p.value = p.value + 0.3 * rng.standard_normal(p.shape)
    return layer


def normal(*size: int) -> np.ndarray:
    return rng.standard_normal(size)


EXERCISES = [
    predict(
        "8.1",
        "tgt, with <bos> and <eos>, is (2, 9); the memory is (2, 6, 16); there are 4 heads. What "
        "is the shape of the attention weights in one block's cross-attention in training?",
        (2, 4, 8, 6),
        mistakes=[
            Mistake("the decoder reads the whole row", (2, 4, 9, 6),
                    "Does anything have to be written after <eos>? If not, why read it?"),
            Mistake("keys and queries exchanged", (2, 4, 6, 8),
                    "Each row of weights belongs to a word that asks. Which sequence asks here?"),
            Mistake("the target looks at itself", (2, 4, 8, 8),
                    "Which sequence do the keys come from?"),
            Mistake("both special tokens are cut off", (2, 4, 7, 6),
                    "Does the decoder read <bos>, or write it? And <eos>?"),
            Mistake("no axis for the heads", (2, 8, 6), "Do two heads share their weights?"),
        ],
    ),
    predict(
        "8.2",
        "A decoder of 3 blocks has read x (2, 5, 12) and a memory (2, 7, 12). What is the "
        "shape of the second gradient that its backward returns?",
        (2, 7, 12),
        mistakes=[
            Mistake("the gradients of the blocks are kept apart", (3, 2, 7, 12),
                    "How many memories went in? What is the shape of the gradient of one?"),
            Mistake("that is the gradient of x", (2, 5, 12),
                    "The inputs went in as x, memory. In which order do gradients come back?"),
            Mistake("the gradients of the blocks stand side by side", (2, 21, 12),
                    "The memory is used three times. What happens to the gradients of a value "
                    "that is used more than once?"),
            Mistake("both inputs share one gradient", (2, 12, 12),
                    "How many gradients does a part with two inputs return?"),
        ],
    ),
    code(
        "8.3",
        "Write prefix_mask(lengths, T): boolean, (B, 1, T, T). In row b a word may look at all of "
        "the first lengths[b] words, at itself and at what comes before it.",
        prefix_mask,
        cases=[(np.array([2]), 4), (np.array([2, 4, 1]), 5), (np.array([3, 0]), 7)],
        mistakes=[
            Mistake("causal everywhere", masked_by(lambda i, j, n: (j <= i) & (n >= 0)),
                    "In a prefix of two words, may the first look at the second?"),
            Mistake("both conditions are asked, & where one is enough",
                    masked_by(lambda i, j, n: (j <= i) & (j < n)),
                    "May a word after the prefix look at itself? Which of your two conditions "
                    "allows it?"),
            Mistake("only the prefix may be looked at",
                    masked_by(lambda i, j, n: (j < n) & (i >= 0)),
                    "May a word after the prefix look at itself?"),
            Mistake("no axis for the heads",
                    lambda lengths, T: prefix_mask(lengths, T)[:, 0],
                    "Scores are (B, H, T, T). From the right, what does your mask's B meet?"),
            Mistake("the words of the prefix see what follows it",
                    masked_by(lambda i, j, n: (j <= i) | (i < n)),
                    "The rule says who may be looked at. Is that the row or the column?"),
            Mistake("one word too many in the prefix",
                    masked_by(lambda i, j, n: (j <= i) | (j <= n)),
                    "Places are counted from 0. What is the last place of a prefix of two?"),
            Mistake("words after the prefix do not see it",
                    masked_by(lambda i, j, n: ((i < n) & (j < n)) | ((j <= i) & (j >= n))),
                    "May a word of the target look at the source?"),
            Mistake("the mask is inverted", lambda lengths, T: ~prefix_mask(lengths, T),
                    "In a mask of this book, does True allow a look or forbid it?"),
        ],
    ),
    mend(
        "8.4",
        "Mend the backward of read_twice(x, memory, first, second): a = x + first(x, memory), y = "
        "a + second(a, memory). It returns dx, dmemory; first and second are CrossAttention "
        "layers.",
        reading(of_memory=of_first, kept=(1, 0)),
        read_twice,
        cases=[(np.array([[[1.0, 0], [0, 2]]]), np.array([[[2.0, 1], [0, 1], [1, -1]]]),
                reader(2, 1), reader(2, 1)),
               (normal(2, 5, 12), normal(2, 7, 12), reader(12, 3), reader(12, 3))],
        mistakes=[
            Mistake("the memory's gradient is still that of the first read alone",
                    reading(of_memory=of_first),
                    "second_backward returns a gradient of the memory, too. What becomes of it?"),
            Mistake("the memory's gradient is that of the second read alone",
                    reading(of_memory=of_second),
                    "How many of the two reads use the memory?"),
            Mistake("the residual of the second read is still forgotten",
                    reading(kept=(1, 0)),
                    "y is the sum of two terms. What does each of them get from dy?"),
            Mistake("the residual of the first read is forgotten", reading(kept=(0, 1)),
                    "a is the sum of two terms. What does each of them get from da?"),
            Mistake("both residuals are forgotten", reading(kept=(0, 0)),
                    "x is used twice, and so is a. Where do you add up two gradients for each?"),
            Mistake("both residuals are forgotten, and the memory hears the first read alone",
                    reading(of_memory=of_first, kept=(0, 0)),
                    "x is used twice, and so is a. Where do you add up two gradients for each?"),
            Mistake("the two gradients are in the wrong order", reading(turned=True),
                    "Which input came first, x or the memory?"),
            Mistake("the second reads x, not a", side_by_side,
                    "The forward was right. What did its second attention read, besides the "
                    "memory?"),
        ],
    ),
    derive(
        "8.5",
        "Write running_mean_backward(dy, x): the gradient with respect to x (B, T, D) of y, whose "
        "row t is the mean of the rows 0 to t of x.",
        running_mean,
        cases=[(np.array([[[6.0, 1], [2, 3], [4, 2]]]),), (normal(2, 5, 3),), (normal(3, 4, 7),)],
        mistakes=[
            Mistake("the sum runs over the past, as in the forward",
                    lambda dy, x: (dy / counts(x)).cumsum(axis=1),
                    "In how many means does the last word stand: in all of them, or in one?"),
            Mistake("the division comes after the sum",
                    lambda dy, x: from_behind(dy) / counts(x),
                    "In y_t, does the factor of x_j depend on t or on j?"),
            Mistake("every position gets the sum over all",
                    lambda dy, x: 0 * x + (dy / counts(x)).sum(axis=1, keepdims=True),
                    "Does the last word stand in the first mean?"),
            Mistake("each output is handed to its own word alone",
                    lambda dy, x: dy / counts(x),
                    "In how many means does the first word stand?"),
            Mistake("the means are not divided", lambda dy, x: from_behind(dy),
                    "By what is the sum in y_t divided?"),
        ],
    ),
]
