"""Exercises of chapter 12: the parts of today."""

import numpy as np

from npt_lib.book.exercises import Mistake, code, derive, mend, predict

rng = np.random.default_rng(12)


def to_halves(W, n_heads):
    heads = W.reshape(len(W), n_heads, -1)
    return np.concatenate([heads[..., 0::2], heads[..., 1::2]], axis=-1).reshape(W.shape)


def to_neighbours(W, n_heads):
    heads = W.reshape(len(W), n_heads, 2, -1)
    return heads.swapaxes(2, 3).reshape(W.shape)


def share(k, n_heads):
    return np.repeat(k, n_heads // len(k), axis=0)


def slopes_to_bias(slopes, T):
    back = np.arange(T)[:, None] - np.arange(T)
    return -slopes[:, None, None] * np.maximum(back, 0)


def bilinear(x, W, V):
    return (x @ W) * (x @ V)


def grads(dy, x, W, V):
    g, u = x @ W, x @ V
    return (dy * u) @ W.T, (dy * g) @ V.T, x.T @ (dy * u), x.T @ (dy * g)


def half_of_dx(which):
    def backward(dy, x, W, V):
        both = grads(dy, x, W, V)
        return both[which], *both[2:]
    return backward


def own_half(dy, x, W, V):
    """The product rule with each half's own value as the factor."""
    g, u = x @ W, x @ V
    return (dy * g) @ W.T + (dy * u) @ V.T, x.T @ (dy * g), x.T @ (dy * u)


def no_factor(dy, x, W, V):
    return dy @ (W + V).T, x.T @ dy, x.T @ dy


def exchanged(dy, x, W, V):
    a, b, dW, dV = grads(dy, x, W, V)
    return a + b, dV, dW


def numbered(*shape):
    """1, 2, 3 …: an order that can be followed by eye."""
    return np.arange(1.0, 1 + np.prod(shape)).reshape(shape)


EXERCISES = [
    predict(
        "12.1",
        "GroupedAttention with d_model=64, 8 heads and n_kv_heads=2 starts a cache for 3 texts "
        "with room for 50 tokens. What is the shape of its keys?",
        (3, 2, 50, 8),
        mistakes=[
            Mistake("every head has keys of its own", (3, 8, 50, 8),
                    "Which argument says how many heads of keys are kept?"),
            Mistake("the heads of keys share the whole width", (3, 2, 50, 32),
                    "A query must match its key: how wide is a query of one of the 8 heads?"),
            Mistake("the heads come after the places", (3, 50, 2, 8),
                    "On which axis do heads stand when attention reads them?"),
            Mistake("the two heads of keys are merged", (3, 50, 16),
                    "A query of one head is 8 wide. Which numbers of a cached place does it meet?"),
            Mistake("those are keys and values", (2, 3, 2, 50, 8),
                    "The question asks for `keys` alone. Which of your axes counts something "
                    "else?"),
        ],
    ),
    predict(
        "12.2",
        "32 blocks, 32 heads of width 128 that share 8 heads of keys, 2 bytes a number. How many "
        "kibibytes does the cache grow with each token?",
        128,
        mistakes=[
            Mistake("one factor of 2 is missing", 64,
                    "What does each token add beside a key? And how many bytes does a number "
                    "take?"),
            Mistake("each of the 32 heads has keys of its own", 512,
                    "Which heads does the cache count: those of queries, or those of keys?"),
            Mistake("only one block is counted", 4,
                    "How many blocks keep keys and values for a token?"),
            Mistake("those are bytes", 131072,
                    "The question asks for kibibytes. How many bytes make one?"),
            Mistake("numbers are counted, not kibibytes", 65536,
                    "How many bytes does a number take, and how many bytes make a kibibyte?"),
            Mistake("a kibibyte of 1,000 bytes", 131.072,
                    "How many bytes make a kibibyte in this exercise?"),
        ],
    ),
    code(
        "12.3",
        "Write to_halves(W, n_heads): W (D, H * K) are the weights of queries, or those of keys. "
        "Reorder its columns in each head, from neighbours as pairs to halves as pairs.",
        to_halves,
        cases=[(numbered(1, 4), 1), (numbered(1, 8), 2), (numbered(2, 6), 1),
               (rng.standard_normal((3, 24)), 3)],
        mistakes=[
            Mistake("all heads are reordered at once", lambda W, n_heads: to_halves(W, 1),
                    "Which columns belong to the first head, before and after?"),
            Mistake("the way back, from halves to neighbours", to_neighbours,
                    "With K = 6, our turn pairs place 0 with place 3. Which two columns of W have "
                    "to get there?"),
            Mistake("the second numbers of the pairs come first",
                    lambda W, n_heads: np.concatenate(
                        [W.reshape(len(W), n_heads, -1)[..., 1::2],
                         W.reshape(len(W), n_heads, -1)[..., 0::2]], -1).reshape(W.shape),
                    "A turn sends (a, b) to (a cos - b sin, …). Is a the first number of its "
                    "pair, or the second?"),
        ],
    ),
    mend(
        "12.4",
        "Mend share(k, n_heads): each of n_heads heads gets the keys k (G, S, K) of its group, the "
        "first heads those of the first group.",
        lambda k, n_heads: np.tile(k, (n_heads // len(k), 1, 1)),
        share,
        cases=[(numbered(2, 1, 2), 4), (numbered(2, 2, 1), 6), (rng.standard_normal((3, 2, 4)), 6)],
        mistakes=[
            Mistake("the places are repeated, not the groups",
                    lambda k, n_heads: np.repeat(k, n_heads // len(k), axis=1),
                    "Which axis of k counts the groups?"),
            Mistake("each key is repeated as often as there are heads",
                    lambda k, n_heads: np.repeat(k, n_heads, axis=0),
                    "How many heads does one group have?"),
            Mistake("each key is repeated as often as there are groups",
                    lambda k, n_heads: np.repeat(k, len(k), axis=0),
                    "How many heads does one group have?"),
        ],
    ),
    code(
        "12.5",
        "Write slopes_to_bias(slopes, T): (H, T, T), minus a head's slope times the distance from "
        "query i back to key j; 0 where the key lies ahead.",
        slopes_to_bias,
        cases=[(np.array([1.0]), 3), (np.array([0.5, 0.25]), 4),
               (rng.random(3), 5)],
        mistakes=[
            Mistake("what is far away is preferred", lambda s, T: -slopes_to_bias(s, T),
                    "Which score should be lower: that of a near key, or of a far one?"),
            Mistake("rows are keys and columns queries",
                    lambda s, T: slopes_to_bias(s, T).swapaxes(1, 2),
                    "Row 0 is the first query. How many keys stand before it?"),
            Mistake("keys ahead get a bonus",
                    lambda s, T: -s[:, None, None] * (np.arange(T)[:, None] - np.arange(T)),
                    "For query 0 and key 2, i - j is negative. What should stand there?"),
            Mistake("keys ahead cost as well",
                    lambda s, T: -s[:, None, None] * np.abs(np.arange(T)[:, None] - np.arange(T)),
                    "Query 0 and key 2: which one lies ahead, and what should stand there?"),
            Mistake("the place itself costs one slope",
                    lambda s, T: -s[:, None, None] * np.maximum(
                        np.arange(1, T + 1)[:, None] - np.arange(T), 0),
                    "How many steps back is a key at the place of the query itself?"),
        ],
    ),
    derive(
        "12.6",
        "Write bilinear_backward(dy, x, W, V): the gradients dx, dW and dV of "
        "y = (x @ W) * (x @ V), with x (T, D), W and V (D, F).",
        bilinear,
        cases=[(np.array([[1.0, 2]]), np.array([[3.0], [1]]), np.array([[1.0], [4]])),
               (rng.standard_normal((4, 2)), rng.standard_normal((2, 3)),
                rng.standard_normal((2, 3)))],
        mistakes=[
            Mistake("x collects from the first product only", half_of_dx(0),
                    "x goes into two products. From how many of them does your dx collect?"),
            Mistake("x collects from the second product only", half_of_dx(1),
                    "x goes into two products. From how many of them does your dx collect?"),
            Mistake("each half has itself as its factor", own_half,
                    "If a grows by a small step, by how many such steps does a * b grow?"),
            Mistake("the factors are forgotten", no_factor,
                    "If a grows by a small step, by how many such steps does a * b grow?"),
            Mistake("dW and dV are exchanged", exchanged,
                    "Which of the two products is made with W, and by what is it multiplied?"),
        ],
    ),
]
