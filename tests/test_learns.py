"""It learns: small models in a few seconds, on what they have never seen wherever that exists.

Everything is seeded. The long ones run with make test-long; add -s to see how long they took.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from recipes import BY_HEART, NOUN_PHRASES, NUMBER_WORDS, SEQUENCES, SHORT

import npt_lib as npt
from npt_lib import tasks

long = pytest.mark.long


def share_right(model, task, pairs=None):
    """The share of test pairs written exactly, by greedy decoding."""
    src, tgt = task.encode(pairs or task.test)
    return npt.evaluate(model, (src, tgt)).scores["exact_match"]


def held_out(task):
    """The number of test pairs, none of which was trained on."""
    assert not set(task.test) & set(task.train)
    assert not {a for a, _ in task.test} & {a for a, _ in task.train}
    return len(task.test)


def write(model, task, text, search=npt.greedy, **options):
    ids = search(model, task.encode_sources([text]), 20, **options)
    return task.tgt_tokenizer.decode(ids[0])


# On every push.

def test_the_three_phrases_come_out_exactly():
    task = tasks.phrases()
    model, history = BY_HEART.train(task)
    wanted = {"hello my name": "hola mi nombre", "hello messi": "hola messi",
              "my name is messi": "mi nombre es messi"}
    assert {text: write(model, task, text) for text in wanted} == wanted
    assert {text: write(model, task, text, npt.beam_search) for text in wanted} == wanted
    assert history.loss[-1] < 0.02


def test_a_fixed_sequence_goes_from_chance_to_certainty():
    """From about ln V, the loss of a model that knows nothing, to below 0.01."""
    task = tasks.next_token()
    model, history = BY_HEART.train(task)
    assert abs(history.loss[0] - math.log(len(task.tgt_tokenizer))) < 1
    assert history.loss[-1] < 0.01
    assert [write(model, task, text) for text in ("1", "1 2 3", "1 2 3 4 5")] == ["2", "4", "6"]


@pytest.mark.parametrize("make", [tasks.copy_task, tasks.reverse_numbers])
def test_short_sequences_never_seen_are_all_right(make):
    task = make(np.random.default_rng(0), 2000, 200, lengths=(2, 5))
    assert held_out(task) == 200
    model, _ = SHORT.train(task)
    assert share_right(model, task) == 1.0


@pytest.mark.parametrize("options", [{"pre_norm": True}, {"tie_embeddings": True},
                                     {"positions": "learned", "activation": "gelu"},
                                     {"dropout": 0.1}], ids=str)
def test_every_kind_of_model_learns(options):
    """Thirty passes over 600 pairs bring the held-out loss from chance to a fiftieth."""
    task = tasks.copy_task(np.random.default_rng(0), 600, 100, lengths=(2, 4), n_values=6)
    rng = np.random.default_rng(0)
    sizes = {"d_model": 32, "d_ff": 64, "n_layers": 1, "dropout": 0.0} | options
    model = npt.Transformer(task.config(**sizes), rng)
    before = npt.evaluate(model, task.arrays("test"))
    npt.train(model, npt.Adam(model.parameters(), 3e-3), task.batches(32, rng),
              rng if model.config.dropout else None, 600)
    after = npt.evaluate(model, task.arrays("test"))
    assert after.loss < before.loss / 50
    exact, at_first = after.scores["exact_match"], before.scores["exact_match"]
    assert exact > 0.9 > 0.1 > at_first


def test_agreement_carries_over_to_pairs_never_seen():
    """A third of the long recipe's steps are enough for noun phrases, unseen pairs included."""
    task = tasks.noun_phrases(np.random.default_rng(0))
    assert held_out(task) > 1000
    model, _ = replace(NOUN_PHRASES, n_steps=350).train(task)
    assert share_right(model, task) >= 0.99
    assert write(model, task, "the red houses") == "las casas rojas"
    assert write(model, task, "my new car") == "mi coche nuevo"


def test_plain_descent_learns_too():
    task = tasks.next_token()
    model = npt.Transformer(task.config(d_model=32, d_ff=64, n_layers=1, dropout=0.0),
                            np.random.default_rng(0))
    sgd = npt.SGD(model.parameters(), 0.05, momentum=0.9)
    batches = task.batches(8, np.random.default_rng(0))
    history = npt.train(model, sgd, batches, None, 200)
    assert history.loss[-1] < 0.01


def test_attention_looks_where_a_copy_comes_from():
    """In a model that copies, the decoder's cross-attention finds the token to be written."""
    task = tasks.copy_task(np.random.default_rng(0), 2000, 50, lengths=(5, 5))
    model, _ = replace(SHORT, n_steps=300).train(task)
    src, tgt = task.arrays("test")
    w = npt.attention_maps(model.forward(src, tgt[:, :-1])[1])["decoder.0.cross"]
    looks_at = w.max(axis=1).argmax(axis=-1)                     # over heads: (B, T)
    hits = (np.take_along_axis(src, looks_at, axis=1) == tgt[:, 1:])[:, :5]
    assert hits.mean() > 0.8


# Long: make test-long.

@long
@pytest.mark.parametrize("make", [tasks.copy_task, tasks.reverse_numbers, tasks.sort_numbers,
                                  tasks.identity_strings, tasks.reverse_strings])
def test_sequences_never_seen_are_all_right(make):
    task = make(np.random.default_rng(0), n_train=20_000)
    assert held_out(task) == 400
    model, _ = SEQUENCES.train(task)
    assert share_right(model, task) == 1.0


@long
def test_number_words_are_understood():
    task = tasks.number_words(np.random.default_rng(0))
    assert (len(task.train), held_out(task)) == (20_000, 2_000)
    model, _ = NUMBER_WORDS.train(task)
    assert share_right(model, task) >= 0.995


@long
def test_noun_phrases_are_understood():
    task = tasks.noun_phrases(np.random.default_rng(0))
    assert held_out(task) > 1000
    model, _ = NOUN_PHRASES.train(task)
    assert share_right(model, task) >= 0.99
