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
                    "Does anything have to be written after <eos>?"),
            Mistake("keys and queries exchanged", (2, 4, 6, 8),
                    "Each row belongs to one who asks: who asks here?"),
            Mistake("the target looks at itself", (2, 4, 8, 8),
                    "Which sequence do the keys come from?"),
            Mistake("both special tokens are cut off", (2, 4, 7, 6),
                    "Which of the two does the decoder read, and which does it write?"),
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
                    "How many memories went in, and which shape has a gradient?"),
            Mistake("that is the gradient of x", (2, 5, 12),
                    "In which order do gradients come back?"),
            Mistake("the gradients of the blocks stand side by side", (2, 21, 12),
                    "What is used three times: what happens to its gradients?"),
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
                    "May the first word of a prefix look at the second?"),
            Mistake("both conditions are asked, & where one is enough",
                    masked_by(lambda i, j, n: (j <= i) & (j < n)),
                    "May a word after the prefix look at itself? Which of the two rules lets it?"),
            Mistake("only the prefix may be looked at",
                    masked_by(lambda i, j, n: (j < n) & (i >= 0)),
                    "May a word after the prefix look at itself?"),
            Mistake("no axis for the heads",
                    lambda lengths, T: prefix_mask(lengths, T)[:, 0],
                    "Which axes do the scores have, and which of them does a mask not care for?"),
            Mistake("the words of the prefix see what follows it",
                    masked_by(lambda i, j, n: (j <= i) | (i < n)),
                    "The rule is about who may be looked at: is that the row or the column?"),
            Mistake("one word too many in the prefix",
                    masked_by(lambda i, j, n: (j <= i) | (j <= n)),
                    "Positions are counted from 0: which is the last one of a prefix of two?"),
            Mistake("words after the prefix do not see it",
                    masked_by(lambda i, j, n: ((i < n) & (j < n)) | ((j <= i) & (j >= n))),
                    "Whoever writes the target: may it read the source?"),
            Mistake("the mask is inverted", lambda lengths, T: ~prefix_mask(lengths, T),
                    "What does True mean in this book?"),
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
                    "In the backward, what happens to the dmemory that came first?"),
            Mistake("the memory's gradient is that of the second read alone",
                    reading(of_memory=of_second),
                    "Does the first read have a memory, too?"),
            Mistake("the residual of the second read is still forgotten",
                    reading(kept=(1, 0)),
                    "y is a sum: to which of its two terms does dy go?"),
            Mistake("the residual of the first read is forgotten", reading(kept=(0, 1)),
                    "a is a sum: to which of its two terms does da go?"),
            Mistake("both residuals are forgotten", reading(kept=(0, 0)),
                    "At every + of the forward: where is the + of the backward?"),
            Mistake("both residuals are forgotten, and the memory hears the first read alone",
                    reading(of_memory=of_first, kept=(0, 0)),
                    "At every + of the forward: where is the + of the backward?"),
            Mistake("the two gradients are in the wrong order", reading(turned=True),
                    "Which of the inputs came first?"),
            Mistake("the second reads x, not a", side_by_side,
                    "The forward was right: whose queries does the second one ask?"),
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
                    "Which outputs does the last word touch: all of them, or one?"),
            Mistake("the division comes after the sum",
                    lambda dy, x: from_behind(dy) / counts(x),
                    "Is the factor of x_j in y_t that of row t or that of row j?"),
            Mistake("every position gets the sum over all",
                    lambda dy, x: 0 * x + (dy / counts(x)).sum(axis=1, keepdims=True),
                    "Does the last word touch the first output?"),
            Mistake("each output is handed to its own word alone",
                    lambda dy, x: dy / counts(x),
                    "In how many means does the first word stand?"),
            Mistake("the means are not divided", lambda dy, x: from_behind(dy),
                    "By what is the sum in y_t divided?"),
        ],
    ),
]
