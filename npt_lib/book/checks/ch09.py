"""Exercises of chapter 9: the whole model."""

import numpy as np

from npt_lib.book.exercises import Mistake, code, derive, predict
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


def first_row_of_causal(q, k, v, keys, values):
    _, keys, values = attend_cached(q, k, v, keys, values)
    return attention(q, keys, values, np.tri(1, keys.shape[2], dtype=bool))[0], keys, values


def cut(ids):
    ended = np.cumsum(ids == 2, axis=1) - (ids == 2)
    return np.where(ended > 0, 0, ids)


def cut_last(ids):
    to_come = np.cumsum((ids == 2)[:, ::-1], axis=1)[:, ::-1]
    return np.where((to_come == 0) & (ids == 2).any(axis=1, keepdims=True), 0, ids)


def cut_in_place(ids):
    ids[:] = cut(ids)
    return ids


def argmax_of_ends(ids):
    first = (ids == 2).argmax(axis=1)
    return np.where(np.arange(ids.shape[1]) > first[:, None], 0, ids)


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


written = np.array([[5, 6, 2, 7, 8, 4], [3, 4, 5, 6, 7, 8], [2, 9, 2, 4, 0, 3]])
longer = np.array([[4, 2, 2, 5, 2, 6, 7], [5, 5, 5, 5, 5, 5, 2]])

EXERCISES = [
    predict(
        "9.1",
        "src is (3, 5), before is (3, 7), the vocabularies hold 11 and 13 tokens, D = 8, four "
        "heads. Which shape have the weights of the decoder's cross-attention?",
        (3, 4, 7, 5),
        mistakes=[
            Mistake("queries and keys changed places", (3, 4, 5, 7),
                    "Who asks in cross-attention: the target or the source?"),
            Mistake("those are the weights of the decoder's self-attention", (3, 4, 7, 7),
                    "Where do the keys of cross-attention come from?"),
            Mistake("the heads are missing", (3, 7, 5),
                    "Does every head look at the same words?"),
            Mistake("those are the logits", (3, 7, 13),
                    "Is a weight given to a source position, or to a token of the vocabulary?"),
        ],
    ),
    predict(
        "9.2",
        "Three sentences, D = 8, four heads. <bos> and four written tokens: in the fifth cached "
        "step, which shape has the array of keys that the query in a decoder's self-attention "
        "meets?",
        (3, 4, 5, 2),
        mistakes=[
            Mistake("the new position is missing", (3, 4, 4, 2),
                    "May a token attend to itself?"),
            Mistake("only the new position's key", (3, 4, 1, 2),
                    "What is kept in the cache, and why?"),
            Mistake("each head has the width of the model", (3, 4, 5, 8),
                    "How wide is a head if four of them share D = 8?"),
        ],
    ),
    code(
        "9.3",
        "Write count_decoder_only(V, D, F, n_b, max_len): all parameters of a model without "
        "encoder. Each block: one attention, one feed-forward network, two norms; a norm at the "
        "end; learned positions; tied output.",
        count_decoder_only,
        cases=[(11, 8, 16, 2, 5), (50257, 768, 3072, 12, 1024), (7, 6, 10, 3, 13)],
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
        ],
    ),
    code(
        "9.4",
        "Write attend_cached(q, k, v, keys, values): one step of attention. q, k, v are "
        "(B, H, 1, K), keys and values (B, H, t, K). Return y, keys, values, the last two with "
        "the new position behind the old.",
        attend_cached,
        cases=[cached_case(7), cached_case(4), cached_case(1)],
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
            Mistake("a causal mask whose first row is used", first_row_of_causal,
                    "Which row of the causal mask belongs to the newest position?"),
        ],
    ),
    code(
        "9.5",
        "Write cut(ids): everything after the first <eos> (id 2) of each row becomes padding "
        "(id 0). The <eos> stays, and ids is not changed.",
        cut,
        cases=[(written,), (longer,), (written[:, :4],)],
        mistakes=[
            Mistake("the <eos> itself is cut off",
                    lambda ids: np.where(np.cumsum(ids == 2, axis=1) > 0, 0, ids),
                    "Is the first <eos> after the first <eos>?"),
            Mistake("the row is cut after its last <eos>", cut_last,
                    "A row with two ends: which one ends the sentence?"),
            Mistake("only the token right behind an <eos> is cut",
                    lambda ids: np.where(np.pad(ids == 2, ((0, 0), (1, 0)))[:, :-1], 0, ids),
                    "How does a place far to the right learn that the row has ended?"),
            Mistake("a row without <eos> is cut after its first token", argmax_of_ends,
                    "What does argmax return where nothing is True?"),
            Mistake("the ids that were handed in are changed", cut_in_place,
                    "Does the caller still have what it gave you?"),
        ],
    ),
    derive(
        "9.6",
        "Write tied_backward(dy, U, ids): the gradient with respect to U of "
        "y = sqrt(D) * U[ids] @ U.T, U (V, D), ids (T,).",
        tied,
        cases=[(rng.standard_normal((7, 5)), np.array([3, 1, 3, 6])),
               (rng.standard_normal((4, 3)), np.array([0, 2, 2, 2, 1]))],
        mistakes=[
            Mistake("the table counts as output only", leaving,
                    "What happens to the logits when only the row of a word that goes in moves?"),
            Mistake("the table counts as input only", entering,
                    "Does a word that never goes in have a score?"),
            Mistake("a repeated id counts once as input", repeated_once,
                    "What does dU[ids] += ... do when ids holds the same row twice?"),
            Mistake("the factor sqrt(D) is missing",
                    lambda dy, U, ids: entering(dy, U, ids, False) + leaving(dy, U, ids, False),
                    "By which factor does y grow with a row that goes in?"),
            Mistake("the factor sqrt(D) is missing from the output's part",
                    lambda dy, U, ids: entering(dy, U, ids) + leaving(dy, U, ids, False),
                    "Which vector meets the table on the way out: the row, or the scaled row?"),
        ],
    ),
]
