"""Writing: the cache against no cache, every search against a slow one that is plainly right."""

import itertools

import numpy as np
import pytest
import small

import npt_lib as npt
from npt_lib.generate import keep_likeliest

PAD, BOS, EOS = 0, 1, 2
styles = pytest.mark.parametrize("style", small.STYLES)


def make(style="post-norm", seed=0, **options):
    """A model, sources of every length, and room for 7 tokens."""
    model = small.transformer(seed, **small.STYLES[style] | options)
    return model, small.sources(np.random.default_rng(seed)), 7


def log_softmax(x):
    x = x.astype(np.float64) - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def write(model, src, max_len, choose):
    """No cache: the whole beginning goes through the model for every token; one row at a time."""
    rows = []
    for row in src:
        ids = [BOS]
        while len(ids) <= max_len and ids[-1] != EOS:
            scores = model(row[None], np.array([ids]))[0, -1]
            scores[[PAD, BOS]] = -np.inf
            ids.append(int(choose(scores)))
        rows.append(ids[1:])
    return rows


def unpad(ids):
    return [[int(i) for i in row if i != PAD] for row in ids]


def ends_well(ids, max_len):
    """Rows of tokens, at most one end token, only padding after it; no start token."""
    assert ids.shape[1] <= max_len and not (ids == BOS).any()
    for row in ids.tolist():
        end = row.index(EOS) + 1 if EOS in row else len(row)
        assert PAD not in row[:end] and row[end:] == [PAD] * (len(row) - end)
        assert EOS in row or len(row) == max_len


# The cache.

@styles
def test_each_cached_step_gives_the_logits_of_the_whole_model(style):
    """To 1e-6 in float32, relative to logits of about 1; with padding in sources and targets."""
    model, src, _ = make(style)
    model = small.transformer(spread=0.05, **small.STYLES[style])
    tgt = np.random.default_rng(1).integers(0, small.V, (5, 7))
    state = model.start(src, 7)
    wanted = model(src, tgt)
    assert wanted.dtype == np.float32 and np.abs(wanted).max() > 0.5
    for i in range(7):
        logits = model.step(tgt[:, i], state)
        assert logits.dtype == np.float32
        np.testing.assert_allclose(logits, wanted[:, i], rtol=1e-6, atol=1e-6)
    assert state.length == 7


@styles
def test_a_state_goes_on_with_selected_rows(style):
    """What beam search does: rows change places, and some continue twice."""
    model, src, _ = make(style)
    rows, rng = np.array([4, 0, 0, 2, 1]), np.random.default_rng(2)
    first, second = rng.integers(3, small.V, (2, 5))
    state = model.start(src, 4)
    model.step(first, state)
    state.select(rows)
    logits = model.step(second, state)
    tgt = np.stack([first[rows], second], axis=1)
    np.testing.assert_allclose(logits, model(src[rows], tgt)[:, 1], rtol=1e-5, atol=1e-5)


def test_decoding_encodes_once_and_reads_one_token_at_a_time(monkeypatch):
    model, src, max_len = make(seed=1)
    calls = []
    step, encode = npt.Transformer.step, npt.Transformer.encode
    monkeypatch.setattr(npt.Transformer, "step", lambda m, ids, state:
                        calls.append(ids.shape) or step(m, ids, state))
    monkeypatch.setattr(npt.Transformer, "encode", lambda m, src, **options:
                        calls.append("encode") or encode(m, src, **options))
    ids = npt.greedy(model, src, max_len)
    assert calls == ["encode"] + [(5,)] * ids.shape[1]


def test_the_cache_is_read_only_up_to_where_it_is_filled():
    cache = npt.KVCache(2, 3, 4, 5, np.dtype(np.float32))
    cache.keys[:], cache.values[:] = np.nan, np.nan
    k, v = np.random.default_rng(0).standard_normal((2, 2, 3, 1, 5)).astype(np.float32)
    keys, values = cache.append(k, v)
    np.testing.assert_array_equal(keys, k)
    np.testing.assert_array_equal(values, v)
    assert cache.append(v, k)[0].shape == (2, 3, 2, 5)
    cache.select(np.array([1, 1, 0]))
    assert cache.keys.shape == (3, 3, 4, 5) and cache.length == 2
    np.testing.assert_array_equal(cache.keys[0, :, 0], k[1, :, 0])


# Greedy.

@styles
@pytest.mark.parametrize("seed", range(4))
def test_greedy_agrees_with_the_whole_model_row_by_row(style, seed):
    model, src, max_len = make(style, seed)
    ids = npt.greedy(model, src, max_len)
    ends_well(ids, max_len)
    assert unpad(ids) == write(model, src, max_len, np.argmax)


def test_greedy_stops_each_row_at_its_own_end_token():
    lengths = set()
    for seed in range(20):
        model, src, max_len = make("pre-norm", seed)
        ids = npt.greedy(model, src, max_len)
        ends_well(ids, max_len)
        lengths |= {len(row) for row in unpad(ids)}
        assert ids.shape[1] == max(len(row) for row in unpad(ids))
    assert len(lengths) >= 4                             # otherwise the test has seen nothing


def test_padding_and_start_are_never_written_though_they_score_highest():
    model, src, max_len = make()
    table = model.unembed.table.value
    sign = np.sign(model.decoder.blocks[-1].norm3.bias.value)
    table[[PAD, BOS]] = 50 * np.abs(table).max() * sign
    assert set(model(src, np.full((5, 1), BOS)).argmax(axis=-1).ravel()) <= {PAD, BOS}
    rng = np.random.default_rng(0)
    for ids in (npt.greedy(model, src, max_len), npt.sample(model, src, max_len, rng),
                npt.sample(model, src, max_len, rng, top_k=1),
                npt.beam_search(model, src, max_len)):
        ends_well(ids, max_len)


@pytest.mark.parametrize("write_with", [
    npt.greedy,
    lambda model, src, n: npt.beam_search(model, src, n, width=3),
    lambda model, src, n: npt.sample(model, src, n, np.random.default_rng(0), top_k=1),
], ids=["greedy", "beam", "sample"])
def test_a_batch_is_written_like_each_row_alone(write_with):
    model, src, max_len = make("pre-norm", 3)
    together = write_with(model, src, max_len)
    alone = [write_with(model, row[None][:, :max(1, (row > 0).sum())], max_len) for row in src]
    assert unpad(together) == [unpad(ids)[0] for ids in alone]


# Sampling.

def test_sampling_agrees_with_the_probabilities():
    """Chi-square of 20,000 first tokens; 26.1 is its 0.1 % quantile for 9 kinds of token."""
    model, src, _ = make(seed=2)
    n = 20_000
    many = np.repeat(src[3:4], n, axis=0)
    logits = model(src[3:4], np.array([[BOS]]))[0, 0]
    for temperature in (0.5, 1.0, 2.0):
        rng = np.random.default_rng(5)
        drawn = npt.sample(model, many, 1, rng, temperature=temperature)[:, 0]
        p = np.exp(log_softmax(logits[2:] / temperature))
        seen = np.bincount(drawn, minlength=small.V)[2:]
        likely = p * n > 5
        assert likely.sum() >= 4
        chi = ((seen - p * n) ** 2 / (p * n))[likely].sum()
        assert chi < 26.1, (temperature, chi)
        assert seen[~likely].sum() < 60


def test_sampled_rows_of_one_batch_are_independent_and_seeded():
    model, src, max_len = make(seed=2)
    same = np.repeat(src[2:3], 40, axis=0)
    one = npt.sample(model, same, max_len, np.random.default_rng(0), temperature=3.0)
    again = npt.sample(model, same, max_len, np.random.default_rng(0), temperature=3.0)
    other = npt.sample(model, same, max_len, np.random.default_rng(1), temperature=3.0)
    np.testing.assert_array_equal(one, again)
    assert len({tuple(row) for row in one.tolist()}) > 30
    assert one.shape != other.shape or (one != other).any()
    ends_well(one, max_len)


@pytest.mark.parametrize("options", [{"temperature": 1e-4}, {"temperature": 1e-310}, {"top_k": 1},
                                     {"top_p": 1e-9}], ids=str)
def test_sampling_without_chance_is_greedy(options):
    for seed in range(3):
        model, src, max_len = make(seed=seed)
        wanted = npt.greedy(model, src, max_len)
        with np.errstate(over="ignore"):
            ids = npt.sample(model, src, max_len, np.random.default_rng(0), **options)
        np.testing.assert_array_equal(ids, wanted)


@pytest.mark.parametrize("top_k, top_p, kept", [
    (None, 1.0, {0, 1, 2, 3, 4}),
    (1, 1.0, {3}),
    (2, 1.0, {3, 1}),
    (9, 1.0, {0, 1, 2, 3, 4}),
    (None, 0.4, {3}),             # the likeliest alone holds exactly 0.4
    (None, 0.41, {3, 1}),
    (None, 0.69, {3, 1}),
    (None, 0.71, {3, 1, 0}),
    (None, 0.001, {3}),
    (2, 0.99, {3, 1}),
    (4, 0.41, {3, 1}),
])
def test_top_k_and_top_p_keep_exactly_the_right_tokens(top_k, top_p, kept):
    p = np.array([0.15, 0.3, 0.1, 0.4, 0.05])
    found = keep_likeliest(p[None], top_k, top_p)[0]
    assert set(np.flatnonzero(found)) == kept
    np.testing.assert_array_equal(found[sorted(kept)], p[sorted(kept)])


def test_rows_keep_tokens_of_their_own():
    p = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.3, 0.4, 0.3]])
    found = keep_likeliest(p, None, 0.65)
    assert [set(np.flatnonzero(row)) for row in found] == [{0}, {2}, {1, 0}]


@pytest.mark.parametrize("options, n_kinds", [({"top_k": 3}, 3), ({"top_k": 100}, 9)])
def test_sampling_draws_all_kept_tokens_and_no_other(options, n_kinds):
    model, src, _ = make(seed=4)
    many = np.repeat(src[1:2], 3000, axis=0)
    drawn = npt.sample(model, many, 1, np.random.default_rng(0), temperature=5.0, **options)
    logits = model(src[1:2], np.array([[BOS]]))[0, 0]
    order = [i for i in np.argsort(-logits) if i not in (PAD, BOS)]
    assert set(drawn[:, 0]) == set(order[:n_kinds])


# Beam search.

@styles
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.5])
def test_a_beam_of_width_1_is_greedy(style, penalty):
    for seed in range(3):
        model, src, max_len = make(style, seed)
        ids = npt.beam_search(model, src, max_len, width=1, length_penalty=penalty)
        np.testing.assert_array_equal(ids, npt.greedy(model, src, max_len))


def all_endings(n_vocab, max_len):
    """Every sequence that ends with the end token, or is as long as it may be."""
    tokens = range(3, n_vocab)
    for n in range(max_len):
        for beginning in itertools.product(tokens, repeat=n):
            yield (*beginning, EOS)
    yield from itertools.product(tokens, repeat=max_len)


def log_p(model, row, sequences):
    """log p of each sequence for one source, by the whole model."""
    ids = np.zeros((len(sequences), max(map(len, sequences))), int)
    for out, sequence in zip(ids, sequences, strict=True):
        out[:len(sequence)] = sequence
    start = np.full((len(ids), 1), BOS)
    logp = log_softmax(model(np.repeat(row[None], len(ids), axis=0),
                             np.concatenate([start, ids[:, :-1]], axis=1)))
    return [float(sum(logp[i, j, token] for j, token in enumerate(sequence)))
            for i, sequence in enumerate(sequences)]


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_wide_beam_finds_the_best_of_all_sequences(seed, penalty):
    """Four tokens besides padding and start, up to three long: 40 sequences, scored one by one."""
    model = small.transformer(seed, n_tgt_vocab=6)
    src = small.sources(np.random.default_rng(seed), 3)
    found = unpad(npt.beam_search(model, src, 3, width=40, length_penalty=penalty))
    everything = list(all_endings(6, 3))
    assert len(everything) == 40
    for row, ids in zip(src, found, strict=True):
        score = {s: logp / ((5 + len(s)) / 6) ** penalty
                 for s, logp in zip(everything, log_p(model, row, everything), strict=True)}
        best = max((s for s in score if s[-1] == EOS), key=score.__getitem__)
        assert score[tuple(ids)] == pytest.approx(score[best], abs=1e-5)
        assert len({s for s in score if score[s] > score[best] - 1e-5}) > 1 or tuple(ids) == best


def test_a_wider_beam_is_never_less_likely_here_and_often_likelier():
    better = 0
    for seed in range(12):
        model, src, max_len = make(seed=seed)
        ids = npt.greedy(model, src, max_len)
        greedy = npt.log_probability(model, src, ids)
        beam = npt.log_probability(
            model, src, npt.beam_search(model, src, max_len, width=20, length_penalty=0.0))
        ended = (ids == EOS).any(axis=1)               # an answer is better than no answer
        assert (beam >= greedy - 1e-4)[ended].all()
        better += (beam > greedy + 1e-3).sum()
    assert better >= 5


def test_a_length_penalty_favours_longer_sequences():
    lengths = []
    for penalty in (0.0, 3.0):
        total = 0
        for seed in range(8):
            model, src, max_len = make(seed=seed)
            ids = npt.beam_search(model, src, max_len, width=8, length_penalty=penalty)
            ends_well(ids, max_len)
            total += (ids > 0).sum()
        lengths.append(total)
    assert lengths[1] > lengths[0] + 10


# The score of what was written.

@styles
def test_log_probability_sums_over_the_tokens_of_each_row(style):
    model, src, max_len = make(style, 3)
    ids = npt.greedy(model, src, max_len)
    found = npt.log_probability(model, src, ids)
    wanted = [log_p(model, row, [written])[0]
              for row, written in zip(src, unpad(ids), strict=True)]
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    assert (found < 0).all()
    as_list = npt.log_probability(model, src, ids.tolist())
    np.testing.assert_array_equal(as_list, found)


def test_probabilities_of_all_sequences_add_up_to_one_with_what_is_never_written():
    """Every sequence up to three tokens, padding and start included as tokens: a tree of 1."""
    model = small.transformer(n_tgt_vocab=5, spread=0.2)
    src = np.array([[3, 4, 5]])
    others = [PAD, BOS, 3, 4]
    sequences = [(*beginning, EOS) for n in range(3)
                 for beginning in itertools.product(others, repeat=n)]
    sequences += itertools.product(others, repeat=3)
    total = np.exp(log_p(model, src[0], sequences)).sum()
    assert total == pytest.approx(1.0, abs=1e-5)


def test_writing_leaves_the_model_as_it_was():
    model, src, max_len = make()
    before = model.state_dict()
    for p in model.parameters().values():
        p.value.flags.writeable = False
    src.flags.writeable = False
    npt.greedy(model, src, max_len)
    npt.beam_search(model, src, max_len)
    npt.sample(model, src, max_len, np.random.default_rng(0))
    for name, p in model.parameters().items():
        assert p.grad is None
        np.testing.assert_array_equal(p.value, before[name])
