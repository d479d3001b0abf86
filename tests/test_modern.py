"""The parts of today: what they promise, alone and inside a language model that writes."""

import json
from dataclasses import asdict, dataclass, replace

import numpy as np
import pytest

import npt_lib as npt
from examples import modern_parts as ablation

SIZES = dict(d_model=16, n_heads=4, d_ff=24, n_layers=2, dropout=0.0, max_len=12)
CONFIGS = {
    "llama": npt.llama_config(13, n_kv_heads=2, **SIZES),
    "one key for all": npt.modern_config(13, n_kv_heads=1, **SIZES),
    "relative": npt.modern_config(13, positions="relative", n_kv_heads=2, **SIZES),
    "gpt but for the norm": npt.modern_config(13, norm="rms", **SIZES),
    "gpt but for the gate": npt.modern_config(13, gated=True, **SIZES),
    "no positions at all": npt.modern_config(13, positions="none", **SIZES),
}
RNG = np.random.default_rng


@pytest.fixture(params=CONFIGS)
def model(request):
    return npt.GPT(CONFIGS[request.param], RNG(0)).astype(np.float64)


@pytest.mark.parametrize("n_ids", [1, 4])
def test_writing_with_a_cache_is_reading_all_again(model, n_ids):
    ids = RNG(1).integers(3, 13, (3, 10))
    state = model.start(ids[:, :n_ids], 12 - n_ids + 1)
    for n in range(n_ids, 11):
        logits = model.step(ids[:, n - 1], state)
        np.testing.assert_allclose(logits, model(ids[:, :n])[:, -1], rtol=1e-12, atol=1e-12)


def test_it_is_saved_and_loaded(model, tmp_path):
    npt.save(tmp_path / "model.npz", model)
    again = npt.load(tmp_path / "model.npz")
    assert again.config == model.config
    ids = RNG(1).integers(3, 13, (2, 7))
    np.testing.assert_array_equal(again(ids), model(ids))
    written = npt.beam_search(model, ids, 4, width=2, end_ids=())
    np.testing.assert_array_equal(npt.beam_search(again, ids, 4, width=2, end_ids=()), written)


def test_every_head_has_its_map(model):
    ids = RNG(1).integers(3, 13, (3, 10))
    maps = npt.attention_maps(model.forward(ids)[1])
    assert {name: w.shape for name, w in maps.items()} == {
        "body.0.attn": (3, 4, 10, 10), "body.1.attn": (3, 4, 10, 10)}


def test_without_exchanges_it_is_the_model_of_chapter_11():
    plain = npt.GPT(npt.modern_config(13, **SIZES), RNG(0))
    gpt = npt.GPT(npt.gpt_config(13, **SIZES), RNG(0))
    assert plain.n_parameters() == gpt.n_parameters()
    state = gpt.state_dict()
    for n in range(2):
        for name in "Wb":
            fused = state.pop(f"body.blocks.{n}.attn.qkv.{name}")
            state[f"body.blocks.{n}.attn.q.{name}"] = fused[..., :16]
            state[f"body.blocks.{n}.attn.kv.{name}"] = fused[..., 16:]
    plain.load_state_dict(state)
    ids = RNG(1).integers(3, 13, (3, 10))
    np.testing.assert_allclose(plain(ids), gpt(ids), rtol=1e-4, atol=1e-5)


def test_a_match_of_turned_vectors_depends_on_the_distance_alone():
    rotary, (q, k) = npt.Rotary(50, 8), RNG(0).standard_normal((2, 1, 8))

    def match(i, j):
        return (rotary(q, i) * rotary(k, j)).sum()

    np.testing.assert_allclose(match(9, 4), match(40, 35), rtol=1e-12)
    np.testing.assert_allclose(match(3, 3), (q * k).sum(), rtol=1e-12)
    assert abs(match(9, 4) - match(4, 9)) > 1e-3
    np.testing.assert_allclose(np.linalg.norm(rotary(q, 31)), np.linalg.norm(q), rtol=1e-12)


def test_places_do_not_matter_where_only_distances_count():
    """The last two tokens' logits are the same wherever the text begins: rotary, one window."""
    layer = npt.GroupedAttention(8, 2, RNG(0), rotary=npt.Rotary(40, 4)).astype(np.float64)
    x = RNG(1).standard_normal((1, 6, 8))
    expected = layer(x, npt.causal_mask(6))
    layer.rotary.cos, layer.rotary.sin = layer.rotary.cos[30:], layer.rotary.sin[30:]
    np.testing.assert_allclose(layer(x, npt.causal_mask(6)), expected, rtol=1e-12)


def test_a_bias_is_for_one_distance_and_head():
    bias = npt.RelativeBias(2, 3, RNG(0)).astype(np.float64)
    added = bias(np.zeros((1, 3, 4, 6)))[0]                   # four queries, the last of six
    for h in range(3):
        for t in range(4):
            for s in range(6):
                place = np.clip(s - (t + 2), -2, 2) + 2
                assert added[h, t, s] == bias.table.value[h, place]


def test_the_cache_is_smaller_by_the_group():
    sizes = {n: npt.GPT(replace(CONFIGS["llama"], n_kv_heads=n), RNG(0)).start(
        np.full((2, 1), 3), 12).caches[0].keys.size for n in (None, 4, 2, 1)}
    assert sizes == {None: 2 * 4 * 12 * 4, 4: 2 * 4 * 12 * 4, 2: 2 * 2 * 12 * 4, 1: 2 * 12 * 4}


def test_rms_norm_keeps_the_mean_and_forgets_the_length():
    norm, x = npt.RMSNorm(6, eps=1e-12).astype(np.float64), RNG(0).standard_normal((4, 6)) + 3
    np.testing.assert_allclose((norm(x) ** 2).mean(axis=-1), 1, rtol=1e-9)
    np.testing.assert_allclose(norm(7 * x), norm(x), rtol=1e-9)
    assert np.abs(norm(x + 5) - norm(x)).max() > 0.1


def test_silu_is_quiet_far_out():
    x = np.array([-1e4, -100, 0, 100, 1e4], np.float32)
    with np.errstate(all="raise", under="ignore"):
        y, backward = npt.silu(x)
        np.testing.assert_array_equal(y, [0, 0, 0, 100, 1e4])
        np.testing.assert_array_equal(backward(np.ones_like(x)), [0, 0, 0.5, 1, 1])


def test_a_shift_may_remember_what_it_returned():
    """Capped scores: the softmax after it must not write over what its backward reads."""
    q, k, v = RNG(0).standard_normal((3, 2, 4, 5))

    def capped(scores):
        y = 2 * np.tanh(scores / 2)
        return y, lambda dy: dy * (1 - (y / 2) ** 2)

    def forward(q, k, v):
        return npt.attention(q, k, v, shift=capped)

    assert npt.check_gradients(forward, [q, k, v]) < 1e-8


@pytest.mark.parametrize("make, message", [
    (lambda: npt.Rotary(9, 5), "Rotary turns pairs: d_head must be even, got 5."),
    (lambda: npt.Rotary(9, 4)(np.ones((10, 4))), "10 tokens, but max_len=9."),
    (lambda: npt.Rotary(9, 4)(np.ones(4)), r"Rotary needs x (..., T, K), got shape (4,)."),
    (lambda: npt.RMSNorm(4)(np.ones((2, 3))), "RMSNorm needs a last axis of 4, got shape (2, 3)."),
    (lambda: npt.GroupedAttention(8, 4, RNG(0), 3),
     "n_heads=4 must be divisible by n_kv_heads=3."),
    (lambda: npt.RelativeBias(3, 2, RNG(0))(np.ones((1, 3, 2, 2))),
     "RelativeBias needs scores of 2 heads, got shape (1, 3, 2, 2)."),
    (lambda: npt.GroupedAttention(8, 4, RNG(0), rotary=10000.0),
     "rotary must have the methods forward, got float."),
    (lambda: npt.GroupedAttention(8, 4, RNG(0), rotary=npt.Rotary(9, 4)),
     "rotary must turn heads of width 2, got a Rotary of width 4."),
    (lambda: npt.GroupedAttention(8, 4, RNG(0), relative=npt.RelativeBias(9, 2, RNG(0))),
     "relative must be of 4 heads, got a RelativeBias of 2."),
    (lambda: npt.GatedFeedForward(8, 4, RNG(0), "silu"),
     "activation must be a function, got str."),
    (lambda: npt.modern_config(13, norm="batch"), "norm must be one of ['layer', 'rms'], "
                                                  "got 'batch'."),
    (lambda: npt.modern_config(13, norm=["rms"]), "norm must be one of ['layer', 'rms'], "
                                                  "got ['rms']."),
    (lambda: npt.modern_config(13, gated=1), "gated must be True or False, got 1."),
    (lambda: npt.modern_config(13, n_heads=4, n_kv_heads=3),
     "n_heads=4 must be divisible by n_kv_heads=3."),
    (lambda: npt.modern_config(13, positions="rotary", d_model=12, n_heads=4),
     "positions='rotary' turns pairs: d_model / n_heads must be even, got 3."),
    (lambda: npt.llama_config(13, npt.GPTConfig), "kind must be ModernConfig or a subclass of it, "
                                                  f"got {npt.GPTConfig!r}."),
    (lambda: npt.modern_config(13, 8), "kind must be ModernConfig or a subclass of it, got 8."),
    (lambda: npt.modern_config(13, positions="clock"), "positions must be one of ('sinusoidal', "
     "'learned', 'rotary', 'relative', 'none'), got 'clock'."),
])
def test_what_does_not_fit_is_refused(make, message):
    with pytest.raises(ValueError) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize("make", [npt.modern_config, npt.llama_config])
def test_a_config_may_be_of_a_class_of_ones_own(make):
    @dataclass(frozen=True)
    class Own(npt.ModernConfig):
        width: int = 3

    own, plain = make(13, Own, width=5, d_model=16), make(13, d_model=16)
    assert type(own) is Own and vars(own) == vars(plain) | {"width": 5}


def test_what_is_stored_was_made_by_the_command_as_it_is():
    """Chapter 12 reads these runs: another part, seed or length would be another experiment."""
    for run in ablation.stored():
        config = ablation.model_of(run["part"], 0, run["config"]["n_tgt_vocab"]).config
        now = json.loads(json.dumps(asdict(config)))           # it may have options since
        assert {name: now[name] for name in run["config"]} == run["config"]
        assert run["seed"] in ablation.SEEDS
        assert set(run["bits"]) == {str(look) for look in ablation.LOOKS}
