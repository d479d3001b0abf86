"""The language model: it writes with its cache what it would write without, learns, is saved."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import npt_lib as npt

CONFIG = npt.gpt_config(13, d_model=16, n_heads=2, d_ff=24, n_layers=2, dropout=0.0, max_len=12)


@pytest.fixture
def model():
    return npt.GPT(CONFIG, np.random.default_rng(0)).astype(np.float64)


def prompt(n_rows=3, n_ids=4):
    return np.random.default_rng(1).integers(3, 13, (n_rows, n_ids))


@pytest.mark.parametrize("n_ids", [1, 4])
def test_one_step_at_a_time_gives_the_logits_of_all_at_once(model, n_ids):
    """A whole prompt is read at once, then one id after another."""
    ids = prompt(n_ids=10)
    state = model.start(ids[:, :n_ids], 12 - n_ids + 1)
    for n in range(n_ids, 11):
        logits = model.step(ids[:, n - 1], state)
        np.testing.assert_allclose(logits, model(ids[:, :n])[:, -1], rtol=1e-12, atol=1e-12)


def test_nothing_of_the_future_is_seen(model):
    ids, other = prompt(n_ids=8), prompt(n_ids=8)
    other[:, 5:] = 3 + (other[:, 5:] - 2) % 10
    np.testing.assert_array_equal(model(ids)[:, :5], model(other)[:, :5])
    assert not np.array_equal(model(ids)[:, 5], model(other)[:, 5])


def test_greedy_is_the_likeliest_id_each_time(model):
    ids = prompt()
    written = npt.greedy(model, ids, 6, end_ids=())
    for _ in range(6):
        scores = model(ids)[:, -1]
        scores[:, [0, 1]] = -np.inf
        ids = np.concatenate([ids, scores.argmax(axis=-1)[:, None]], axis=1)
    np.testing.assert_array_equal(written, ids[:, 4:])
    beam = npt.beam_search(model, prompt(), 6, width=1, end_ids=())
    np.testing.assert_array_equal(beam, written)


def test_padding_is_no_target(model):
    ids = prompt(n_ids=8)
    padded = np.pad(ids, ((0, 0), (0, 3)))
    assert model.n_targets((padded,)) == model.n_targets((ids,)) == 21
    loss, _ = model.loss((ids,))
    padded_loss, _ = model.loss((padded,))
    assert padded_loss == pytest.approx(loss, rel=1e-12)
    assert model.scores((padded,))["token_accuracy"].shape == (21,)


def test_it_counts_after_some_steps_and_goes_on_from_a_file(tmp_path):
    """1 2 3 4 5 6 …, in circles: learned, saved, loaded, written on."""
    rng = np.random.default_rng(0)
    model = npt.GPT(replace(CONFIG, dropout=0.1), rng)
    rows = 3 + (rng.integers(0, 8, (200, 1)) + np.arange(12)) % 8
    before = npt.evaluate(model, (rows,)).loss
    npt.train(model, npt.Adam(model.parameters(), 3e-3), npt.Batches((rows,), 32, rng), rng, 250)
    assert npt.evaluate(model, (rows,)).loss < before / 5
    npt.save(tmp_path / "gpt.npz", model)
    again = npt.load(tmp_path / "gpt.npz")
    assert again.config == model.config
    start = np.array([[3, 4, 5], [8, 9, 10]])
    np.testing.assert_array_equal(npt.greedy(again, start, 4), [[6, 7, 8, 9], [3, 4, 5, 6]])


def test_untied_and_scaled_are_choices():
    config = npt.gpt_config(13, d_model=16, n_heads=2, d_ff=24, tie_embeddings=False,
                            scale_embeddings=True)
    model = npt.GPT(config, np.random.default_rng(0))
    assert model.unembed.table is not model.embed.tokens.table and model.embed.scale == 4.0


class OwnConfig(npt.GPTConfig):
    def make_norm(self):
        return npt.RMSNorm(self.d_model)


def test_a_part_of_ones_own_comes_into_every_block_and_back_from_a_file(tmp_path):
    options = dict(d_model=16, n_heads=2, d_ff=24, dropout=0.0, max_len=12)
    config = npt.gpt_config(13, OwnConfig, **options, pattern=npt.Window(3))
    plain = npt.gpt_config(13, **options, pattern=npt.Window(3))
    assert type(config) is OwnConfig and vars(config) == vars(plain)
    model = npt.GPT(config, np.random.default_rng(0))
    norms = [part for block in model.body.blocks for part in (block.norm1, block.norm2)]
    assert {type(norm) for norm in (*norms, model.body.norm)} == {npt.RMSNorm}
    npt.save(tmp_path / "own.npz", model)
    again = npt.load(tmp_path / "own.npz")
    assert type(again.config) is OwnConfig
    np.testing.assert_array_equal(again(prompt()), model(prompt()))


@pytest.mark.parametrize("kind", [npt.Config, "GPTConfig", None, CONFIG])
def test_the_kind_of_a_config_is_a_gpts(kind):
    with pytest.raises(ValueError, match="kind must be GPTConfig or a subclass of it, got "):
        npt.gpt_config(13, kind)


class Louder(npt.GPT):
    def forward(self, ids, rng=None):
        logits, backward = super().forward(ids, rng)
        return 2 * logits, lambda dlogits: backward(2 * dlogits)


def test_a_changed_forward_does_not_write_by_the_old_step():
    model = Louder(CONFIG, np.random.default_rng(0))
    with pytest.raises(ValueError, match="Louder"):
        npt.greedy(model, prompt(), 3)


@pytest.mark.parametrize(("call", "words"), [
    (lambda m: m(np.zeros((2, 13), int)), "max_len"),
    (lambda m: m(np.zeros(4, int)), r"\(batch, length\)"),
    (lambda m: m(np.full((1, 2), 13)), "vocabulary"),
    (lambda m: m(np.zeros((1, 2))), "integer|whole"),
    (lambda m: m.loss((prompt(), prompt())), r"\(ids,\)"),
    (lambda m: m.loss((prompt(n_ids=1),)), "at least 2"),
    (lambda m: m.start(np.array([[3, 0]]), 4), "without padding"),
    (lambda m: m.start(prompt(), 12), "max_len"),
    (lambda m: m.step(np.array([3]), m.start(prompt(), 4)), "one for each row"),
])
def test_wrong_inputs_are_named(model, call, words):
    with pytest.raises(ValueError, match=words):
        call(model)


def test_the_example_counts_bits_right():
    """Four letters, each as often: two bits by frequency, none once the one before is known."""
    from examples.language_model import bits_per_byte, by_counts, falling_back

    train, test = b"abcd" * 5000, b"abcd" * 50
    assert by_counts(train, test, 0) == pytest.approx(2, abs=0.01)
    assert by_counts(train, test, 1) == pytest.approx(0, abs=0.02)
    none, one, two = falling_back(train, test, 2)
    assert none == pytest.approx(by_counts(train, test, 0), rel=1e-3)   # the first asks as well
    assert 0 < two < one < 0.02
    never_met = b"abxd"                 # after x, only how often d comes is known
    assert falling_back(train, never_met, 1)[1] > 2
    tokenizer = npt.BytePairTokenizer()
    assert bits_per_byte(np.log(2), ["abc", "dé"], tokenizer) == pytest.approx(1)


def test_the_example_tells_copied_bytes_from_new_ones():
    from examples.language_model import copied, falling_back

    train, test = b"0123456789" * 9, b"xx3456789yy"
    old = copied(train, test, run=5)
    assert old.tolist() == [False] * 2 + [True] * 7 + [False] * 2
    assert not copied(train, test, run=8).any()
    together = falling_back(train, test, 1)
    for n in (0, 1):                    # a memory of 1 does not ask for the first byte
        parts = [falling_back(train, test, 1, of)[n] for of in (old, ~old)]
        assert parts[0] < parts[1]
        assert np.average(parts, weights=[7, 4 - n]) == pytest.approx(together[n])


def test_the_example_shares_out_bits_byte_by_byte():
    from examples.language_model import bits_per_byte, byte_by_byte
    from npt_lib.tasks import Texts

    texts = Texts("cats", ["the cat, the hat"], ["the cat", "é"])
    tokenizer = npt.BytePairTokenizer.from_texts(texts.train, 3)
    config = npt.gpt_config(len(tokenizer), d_model=8, n_heads=2, d_ff=8, n_layers=1, max_len=16,
                            dropout=0.0)
    model = npt.GPT(config, np.random.default_rng(0))
    n_tokens = sum(len(tokenizer.encode(text, eos=True)) for text in texts.test)
    rows = texts.rows(tokenizer, n_tokens - 1, "test")[0]        # one row, all but the first asked
    first = len(tokenizer.pieces[rows[0, 0]])
    bits = byte_by_byte(model, rows, tokenizer, len("the cat") + 1 + len("é".encode()) + 1)
    assert np.isnan(bits[:first]).all() and not np.isnan(bits[first:]).any()
    loss = model.loss((rows,))[0] * (n_tokens - 1) / n_tokens
    assert np.nansum(bits) / len(bits) == pytest.approx(
        bits_per_byte(loss, texts.test, tokenizer), rel=1e-4)
    sizes = [len(tokenizer.pieces[i]) or 1 for i in rows[0, 1:]]
    assert max(sizes) > 1               # a token's bytes share its bits equally
    for a, b in pairwise(first + np.cumsum([0, *sizes])):
        assert np.ptp(bits[a:b]) == 0
