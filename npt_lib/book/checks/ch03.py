"""Exercises of chapter 3: heads."""

import numpy as np

from npt_lib.book.exercises import Mistake, code, derive, mend, predict
from npt_lib.dot_product_attention import attention
from npt_lib.multi_head_attention import merge_heads, split_heads

rng = np.random.default_rng(3)


def normal(*size: int) -> np.ndarray:
    return rng.standard_normal(size)


def multi_query(x, Wq, Wk, Wv, n_heads):
    return merge_heads(shared_look(x, split_heads(x @ Wq, n_heads), Wk, Wv))


def shared_look(x, q, Wk, Wv, scale=1.0):
    """q (B, H, T, K) over one key and value head."""
    k, v = (np.broadcast_to((x @ W)[:, None], q.shape) for W in (Wk, Wv))
    return attention(q * scale, k, v)[0]


def cut_only(x, Wq, Wk, Wv, n_heads):
    B, T, D = x.shape
    q = (x @ Wq).reshape(B, n_heads, T, D // n_heads)
    return merge_heads(shared_look(x, q, Wk, Wv))


def joined_only(x, Wq, Wk, Wv, n_heads):
    return shared_look(x, split_heads(x @ Wq, n_heads), Wk, Wv).reshape(x.shape)


def interleaved(x, Wq, Wk, Wv, n_heads):
    B, T, D = x.shape
    q = np.moveaxis((x @ Wq).reshape(B, T, D // n_heads, n_heads), -1, 1)
    return merge_heads(shared_look(x, q, Wk, Wv))


def scaled_by(factor):
    """Multi-query attention whose scores are too large or too small by a factor."""
    def answer(x, Wq, Wk, Wv, n_heads):
        q = split_heads(x @ Wq, n_heads)
        return merge_heads(shared_look(x, q, Wk, Wv, factor(Wk.shape[1], n_heads)))
    return answer


def keys_for_values(x, Wq, Wk, Wv, n_heads):
    return multi_query(x, Wq, Wv, Wk, n_heads)


def no_head_axis(x, Wq, Wk, Wv, n_heads):
    """Right for one sentence, wrong for as many as heads, an error for any other number."""
    q = split_heads(x @ Wq, n_heads)
    k, v = (np.broadcast_to(x @ W, q.shape) for W in (Wk, Wv))
    return merge_heads(attention(q, k, v)[0])


def on_paper():
    """Three words, two heads: a query of zeros takes the mean, one with 999 a single value."""
    Wq = [[0, 0, 999, 0], [0, 999, 0, 0], [999, 0, 0, 999], [5, 5, 5, 5]]
    Wk = [[1, 0], [0, 1], [0, 0], [5, 5]]
    Wv = [[3, 0], [0, 6], [9, 3], [5, 5]]
    return np.eye(4)[None, :3], *(np.array(W, float) for W in (Wq, Wk, Wv)), 2


def coded(D, n_heads):
    """A fused W, head by head: hundreds count the head, tens the part, units the column."""
    head, part, column = np.indices((n_heads, 3, D // n_heads)) + 1
    row = 1000 * np.arange(D)[:, None] + (100 * head + 10 * part + column).ravel()
    return row.astype(float)


def to_our_order(W, n_heads):
    D = W.shape[0]
    return W.reshape(D, n_heads, 3, -1).swapaxes(1, 2).reshape(D, 3 * D)


def reordered(shape, axes=(0, 1, 2, 3)):
    """Cut the columns of W so, turn them so, join them again."""
    def answer(W, n_heads):
        D = W.shape[0]
        sizes = {"D": D, "H": n_heads, "3": 3, "K": D // n_heads}
        return W.reshape([sizes[axis] for axis in shape]).transpose(axes).reshape(D, 3 * D)
    return answer


def turn(x):
    return x.swapaxes(-1, -2)


def paths(dy, x):
    """The gradient of (x @ x.T) @ x as query, as key and as value."""
    ds = dy @ turn(x)
    return ds @ x, turn(ds) @ x, turn(x @ turn(x)) @ dy


EXERCISES = [
    predict(
        "3.1",
        "q is (2, 5, 12). What is the shape of split_heads(q, 3)?",
        (2, 3, 5, 4),
        mistakes=[
            Mistake("the width is cut, but the axes are not swapped", (2, 5, 3, 4),
                    "Attention works on the last two axes. What must these two count?"),
            Mistake("each head keeps the whole width", (2, 3, 5, 12),
                    "How many numbers does q hold, and how many would this array hold?"),
            Mistake("width and number of heads exchanged", (2, 4, 5, 3),
                    "Does the second argument say how many heads there are, or how wide one is?"),
            Mistake("heads joined with the batch", (6, 5, 4),
                    "How many axes does split_heads return, by the comment in its last line?"),
        ],
    ),
    predict(
        "3.2",
        "CrossAttention(12, 4, rng) reads x (2, 5, 12) and a memory (2, 7, 12). What is the shape "
        "of its attention weights?",
        (2, 4, 5, 7),
        mistakes=[
            Mistake("keys and queries exchanged", (2, 4, 7, 5),
                    "Each row of weights belongs to a word that asks. Which words ask here?"),
            Mistake("no axis for the heads", (2, 5, 7),
                    "Does each head have weights of its own?"),
            Mistake("that is what the heads return", (2, 4, 5, 3),
                    "To how many words does one query give a weight?"),
            Mistake("the memory looks at itself", (2, 4, 7, 7),
                    "From which sequence do the queries come?"),
            Mistake("x looks at itself", (2, 4, 5, 5),
                    "From which sequence do the keys come?"),
        ],
    ),
    code(
        "3.3",
        "Write multi_query(x, Wq, Wk, Wv, n_heads): n_heads heads of queries, one head of keys and "
        "values for all of them, the results merged to (B, T, D).",
        multi_query,
        cases=[on_paper(),
               (normal(2, 5, 12), normal(12, 12), normal(12, 4), normal(12, 4), 3),
               (normal(3, 4, 10), normal(10, 10), normal(10, 2), normal(10, 2), 5)],
        mistakes=[
            Mistake("the queries are split by reshape alone", cut_only,
                    "Which words does the first head hold after that reshape?"),
            Mistake("the heads are merged by reshape alone", joined_only,
                    "The heads return (B, H, T, K). Which axes must be joined in the result?"),
            Mistake("the width is cut as (K, H), not as (H, K)", interleaved,
                    "Do the columns of one head lie side by side in Wq, or H apart?"),
            Mistake("the scores are divided by the root of D",
                    scaled_by(lambda K, n_heads: 1 / np.sqrt(n_heads)),
                    "Over how many numbers does the dot product of one head run?"),
            Mistake("the scores are not divided by the root of K",
                    scaled_by(lambda K, n_heads: np.sqrt(K)),
                    "How does the spread of the scores grow with K, and what stops that?"),
            Mistake("keys and values exchanged", keys_for_values,
                    "Which of the two is compared with the queries, and which is mixed?"),
            Mistake("keys and values lack the heads' axis, or have it in the wrong place",
                    no_head_axis,
                    "Line the shape of your keys up with (B, H, T, K) from the right. What "
                    "stands below H?"),
        ],
    ),
    mend(
        "3.4",
        "Mend to_our_order(W, n_heads): W is (D, 3D) with columns head by head, in each head "
        "query, key, value; return all queries, then all keys, then all values.",
        reordered("D3HK", (0, 2, 1, 3)),
        to_our_order,
        cases=[(coded(4, 2), 2), (normal(12, 36), 4), (normal(10, 30), 2)],
        mistakes=[
            Mistake("nothing is moved", lambda W, n_heads: W.copy(),
                    "What stands in the columns K to 2K of W as it comes, and what in our order?"),
            Mistake("the heads' own columns are moved as well", reordered("DH3K", (0, 2, 3, 1)),
                    "In our order, do the K columns of one head stay together?"),
            Mistake("the heads are in reverse order",
                    lambda W, n_heads: to_our_order(
                        W.reshape(len(W), n_heads, -1)[:, ::-1].reshape(W.shape), n_heads),
                    "Which head comes first in our order?"),
        ],
    ),
    derive(
        "3.5",
        "Write look_backward(dy, x): the gradient with respect to x of "
        "y = x @ x.swapaxes(-1, -2) @ x, for x of shape (B, T, D).",
        lambda x: x @ turn(x) @ x,
        cases=[(np.array([[[1.0, 0.0], [2.0, 1.0], [0.0, -1.0]]]),),
               (normal(2, 3, 5),), (normal(3, 7, 4),)],
        mistakes=[
            Mistake("x as value only", lambda dy, x: paths(dy, x)[2],
                    "Do the scores x @ x.T depend on x?"),
            Mistake("the path through the keys is missing",
                    lambda dy, x: paths(dy, x)[0] + paths(dy, x)[2],
                    "In x @ x.T, a word is the query of its own row. Where else does it occur?"),
            Mistake("the path through the queries is missing",
                    lambda dy, x: paths(dy, x)[1] + paths(dy, x)[2],
                    "In x @ x.T, a word is the key of its own column. Where else does it occur?"),
            Mistake("the path through the values is missing",
                    lambda dy, x: paths(dy, x)[0] + paths(dy, x)[1],
                    "The scores are one factor of y. What is the other?"),
            Mistake("queries and keys get the same gradient",
                    lambda dy, x: 2 * paths(dy, x)[0] + paths(dy, x)[2],
                    "The scores are symmetric. Is their gradient, dy @ x.T, symmetric as well?"),
        ],
    ),
]
