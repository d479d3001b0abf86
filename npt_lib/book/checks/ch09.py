"""Exercises of chapter 9: the whole model."""

import numpy as np

from npt_lib.book.exercises import Mistake, code, derive, mend, predict
from npt_lib.dot_product_attention import attention

rng = np.random.default_rng(9)


def count_decoder_only(V, D, F, n_b, max_len):
    attn = 4 * D * D + 4 * D
    ffn = 2 * D * F + F + D
    return n_b * (attn + ffn + 4 * D) + 2 * D + (V + max_len) * D


def off_by(difference):
    """The right count with something left out or counted twice."""
    return lambda *sizes: count_decoder_only(*sizes) + difference(*sizes)


def attend_cached(q, k, v, keys, values):
    keys = np.concatenate([keys, k], axis=2)
    values = np.concatenate([values, v], axis=2)
    return attention(q, keys, values)[0], keys, values


def blind_to_itself(q, k, v, keys, values):
    _, new_keys, new_values = attend_cached(q, k, v, keys, values)
    return attention(q, keys, values)[0], new_keys, new_values


def scaled_by(factor):
    """A cached step whose scores are multiplied by a factor of d_k too many."""
    return lambda q, *others: attend_cached(q * factor(q.shape[-1]), *others)


def first_row_of_causal(q, k, v, keys, values):
    _, keys, values = attend_cached(q, k, v, keys, values)
    return attention(q, keys, values, np.tri(1, keys.shape[2], dtype=bool))[0], keys, values


def by_table(ended, chosen=np.where):
    """Writing with a table of scores; ended says which rows of ids have ended."""
    def write(table, first, max_len):
        ids = first[:, None]
        for _ in range(max_len):
            scores = table[ids[:, -1]]
            scores[:, [0, 1]] = -np.inf
            new = chosen(ended(ids), 0, scores.argmax(axis=-1))
            ids = np.concatenate([ids, new[:, None]], axis=1)
        return ids[:, 1:]
    return write


def has_end(ids):
    return (ids == 2).any(axis=1)


def until_one_ends(table, first, max_len):
    ids = by_table(has_end)(table, first, max_len)
    return ids[:, :int((ids == 2).any(axis=0).argmax()) + 1]


def tied(U, ids):
    return np.sqrt(U.shape[1]) * U[ids] @ U.T


def entering(dy, U, ids, scale=True):
    dU = np.zeros_like(U)
    np.add.at(dU, ids, dy @ U * (np.sqrt(U.shape[1]) if scale else 1.0))
    return dU


def leaving(dy, U, ids, scale=True):
    return dy.T @ U[ids] * (np.sqrt(U.shape[1]) if scale else 1.0)


def repeated_once(dy, U, ids):
    dU = leaving(dy, U, ids)
    dU[ids] += np.sqrt(U.shape[1]) * dy @ U
    return dU


def cached_case(t):
    return tuple(rng.standard_normal((2, 3, n, 5)) for n in (1, 1, 1, t, t))


def one_key(*number):
    return np.array(number, float).reshape(1, 1, -1, 4)


# the query fits both keys alike, so y is the mean of the two values
by_hand = (one_key(2, 0, 0, 0), one_key(0, 1, 0, 0), one_key(4, 6, 8, 2),
           one_key(0, 0, 1, 0), one_key(2, 2, 2, 2))
# rows and columns: <pad>, <bos>, <eos>, and one word, 3, which is followed by the end
short = np.array([[0, 0, 1, 9], [9, 0, 0, 5], [0, 7, 0, 6], [0, 9, 5, 0]], float)
ends = np.array([[0, 0, 1, 2, 3, 9], [0, 0, 0, 0, 8, 1], [9, 0, 0, 7, 0, 0],
                 [0, 0, 1, 0, 8, 0], [9, 9, 1, 0, 0, 8], [0, 0, 7, 0, 5, 0]], float)


EXERCISES = [
    predict(
        "9.1",
        "src is (3, 5), before is (3, 7), the vocabularies hold 11 and 13 tokens, D = 8, four "
        "heads. In the decoder's cross-attention, softmax makes weights of the scores. What shape "
        "have they?",
        (3, 4, 7, 5),
        mistakes=[
            Mistake("queries and keys changed places", (3, 4, 5, 7),
                    "Who asks in cross-attention: the target or the source?"),
            Mistake("those are the weights of the decoder's self-attention", (3, 4, 7, 7),
                    "Where do the keys of cross-attention come from?"),
            Mistake("the heads are missing", (3, 7, 5),
                    "Do all four heads share one table of weights?"),
            Mistake("those are the logits", (3, 7, 13),
                    "Is a weight given to a source position, or to a token of the vocabulary?"),
        ],
    ),
    predict(
        "9.2",
        "Three sentences, D = 8, four heads. After <bos>, four tokens are written. In the fifth "
        "cached step, what is the shape of the array of keys that a query meets in the decoder's "
        "self-attention?",
        (3, 4, 5, 2),
        mistakes=[
            Mistake("the new position is missing", (3, 4, 4, 2),
                    "May a token attend to itself?"),
            Mistake("only the new position's key", (3, 4, 1, 2),
                    "What has the cache kept from the steps before?"),
            Mistake("each head has the width of the model", (3, 4, 5, 8),
                    "How wide is a head if four of them share D = 8?"),
            Mistake("the heads are not split", (3, 5, 8),
                    "Does the query of one head meet the keys of all heads?"),
            Mistake("the axes of positions and width changed places", (3, 4, 2, 5),
                    "Which of the last two axes grows with every step?"),
        ],
    ),
    code(
        "9.3",
        "Write count_decoder_only(V, D, F, n_b, max_len): all parameters of a model without "
        "encoder. Each block: one attention, one feed-forward network, two norms; a norm at the "
        "end; learned positions; tied output.",
        count_decoder_only,
        cases=[(3, 2, 5, 1, 4), (11, 8, 16, 2, 5), (50257, 768, 3072, 12, 1024), (7, 6, 10, 3, 13)],
        mistakes=[
            Mistake("the table of words counts twice", off_by(lambda V, D, F, n_b, m: V * D),
                    "How many Parameters hold the tied table?"),
            Mistake("the learned positions are missing", off_by(lambda V, D, F, n_b, m: -m * D),
                    "Which table has a row for each position, and is it learned here?"),
            Mistake("each block has a cross-attention",
                    off_by(lambda V, D, F, n_b, m: n_b * (4 * D * D + 4 * D)),
                    "Whose memory would it read?"),
            Mistake("the norm at the end is missing", off_by(lambda V, D, F, n_b, m: -2 * D),
                    "What stands between the last block and the output?"),
            Mistake("the linear layers have no biases",
                    off_by(lambda V, D, F, n_b, m: -n_b * (5 * D + F)),
                    "What does a linear layer add to its product, and how many numbers is that?"),
            Mistake("the biases of attention are missing",
                    off_by(lambda V, D, F, n_b, m: -4 * n_b * D),
                    "What do the four linear layers of an attention add to their products?"),
            Mistake("the biases of the feed-forward network are missing",
                    off_by(lambda V, D, F, n_b, m: -n_b * (D + F)),
                    "How many numbers does each of its two linear layers add?"),
            Mistake("the norms have a gain and no bias",
                    off_by(lambda V, D, F, n_b, m: -(2 * n_b + 1) * D),
                    "After normalising, what does a norm do with its parameters?"),
            Mistake("the blocks have one norm each", off_by(lambda V, D, F, n_b, m: -2 * n_b * D),
                    "How many sublayers does a block have, and how many norms has each?"),
            Mistake("there are as many positions as tokens",
                    off_by(lambda V, D, F, n_b, m: (V - m) * D),
                    "How many positions can a text have at most?"),
        ],
    ),
    code(
        "9.4",
        "Write attend_cached(q, k, v, keys, values): one step of attention. q, k, v are "
        "(B, H, 1, K), keys and values (B, H, t, K). Return y, keys, values, the last two with "
        "the new position behind the old.",
        attend_cached,
        cases=[by_hand, cached_case(7), cached_case(4), cached_case(1)],
        outputs=("y", "keys", "values"),
        mistakes=[
            Mistake("the query does not meet the new key", blind_to_itself,
                    "May a token attend to itself?"),
            Mistake("the new key and value are not kept",
                    lambda q, k, v, *past: (attend_cached(q, k, v, *past)[0], *past),
                    "What will the next step need that this one has just made?"),
            Mistake("the new position stands in front of the old",
                    lambda q, k, v, keys, values: attend_cached(q, keys, values, k, v),
                    "In which order were the tokens written?"),
            Mistake("the scores are not divided by sqrt(d_k)", scaled_by(np.sqrt),
                    "What happens to the spread of the scores as d_k grows?"),
            Mistake("the scores are divided by d_k, not by its root",
                    scaled_by(lambda d_k: 1 / np.sqrt(d_k)),
                    "If d_k is four times as large, how many times as large is the spread of "
                    "the scores?"),
            Mistake("only the new key and value are handed over",
                    lambda q, k, v, keys, values: (
                        attend_cached(q, k, v, keys, values)[0], k, v),
                    "What will the next step need of all those before it?"),
            Mistake("a causal mask whose first row is used", first_row_of_causal,
                    "Which row of the causal mask belongs to the newest position?"),
        ],
    ),
    mend(
        "9.5",
        "Mend write_by_table(table, first, max_len): from each id in first, write max_len ids, "
        "always the one with the highest score in the last one's row, never <pad> (0) or <bos> "
        "(1). All that follows <eos> (2) is <pad>.",
        by_table(lambda ids: ids[:, -1] == 2),
        by_table(has_end),
        cases=[(short, np.array([1, 3]), 5), (ends, np.array([1, 3, 4, 5]), 6),
               (ends, np.array([5]), 3)],
        mistakes=[
            Mistake("once one row has ended, all are padded",
                    by_table(lambda ids: (ids == 2).any()),
                    "Does the end of one sentence say anything about the others?"),
            Mistake("writing stops for all when the first has ended", until_one_ends,
                    "Does the end of one sentence say anything about the others?"),
            Mistake("behind an end, ends are written",
                    by_table(has_end, lambda ended, _, new: np.where(ended, 2, new)),
                    "Which id says that nothing stands at a place?"),
            Mistake("the <eos> itself becomes padding",
                    lambda *given: np.where(by_table(has_end)(*given) == 2, 0,
                                            by_table(has_end)(*given)),
                    "Is the <eos> a token that was chosen, or does it only fill the row?"),
            Mistake("padding is written in place of the <eos>, so no row knows that it has ended",
                    by_table(has_end, lambda ended, _, new: np.where(ended | (new == 2), 0, new)),
                    "What must stand in a row before its padding can begin?"),
            Mistake("no row ever ends",
                    by_table(lambda ids: np.zeros(len(ids), bool)),
                    "Which line of the loop writes padding, and for which rows?"),
        ],
    ),
    derive(
        "9.6",
        "Write tied_backward(dy, U, ids): the gradient with respect to U of "
        "y = sqrt(D) * U[ids] @ U.T, U (V, D), ids (T,).",
        tied,
        cases=[(np.array([[1.0, 0, 0, 0], [0, 1, 0, 2], [0, 0, 3, 0]]), np.array([1, 1])),
               (rng.standard_normal((7, 5)), np.array([3, 1, 3, 6])),
               (rng.standard_normal((4, 3)), np.array([0, 2, 2, 2, 1]))],
        mistakes=[
            Mistake("the table counts as output only", leaving,
                    "If the row of a word that is read changes, which logits change?"),
            Mistake("the table counts as input only", entering,
                    "Does a word that is never read get a score?"),
            Mistake("a repeated id counts once as input", repeated_once,
                    "What does dU[ids] += ... do when ids holds the same row twice?"),
            Mistake("the factor sqrt(D) is missing",
                    lambda dy, U, ids: entering(dy, U, ids, False) + leaving(dy, U, ids, False),
                    "By how much does a logit change with x, and x with the row that is read?"),
            Mistake("the factor sqrt(D) is missing from the input's part",
                    lambda dy, U, ids: entering(dy, U, ids, False) + leaving(dy, U, ids),
                    "If a row that is read grows by 0.01, by how much does its x grow?"),
            Mistake("the factor sqrt(D) is missing from the output's part",
                    lambda dy, U, ids: entering(dy, U, ids) + leaving(dy, U, ids, False),
                    "Which vector meets the table on the way out: the row, or the scaled row?"),
        ],
    ),
]
