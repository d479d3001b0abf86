"""Fewer bits: rounding against the formats themselves, training in them, int8 for writing."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import npt_lib as npt
from examples import fewer_bits as runs
from npt_lib.checkpoint import read_arrays, write_arrays
from npt_lib.fewer_bits import modules, needs_ml_dtypes, put_coat
from npt_lib.int8 import Int8, int8_weights

RNG = np.random.default_rng
SIZES = dict(d_model=16, n_heads=4, d_ff=24, n_layers=2, dropout=0.0, max_len=12)
ALONE = SimpleNamespace(rank=0, size=1, bcast=lambda x: x, allgather=lambda x: [x])
BOTH = pytest.mark.parametrize("to", ["float16", "bfloat16"])


def gpt(**options):
    return npt.GPT(npt.gpt_config(13, **(SIZES | options)), RNG(0))


def ids(n=3, length=10):
    return RNG(1).integers(3, 13, (n, length))


# rounding

def odd_numbers():
    """Every float16 and bfloat16, their neighbours in float32, what lies half-way, and others."""
    all16 = np.arange(1 << 16, dtype=np.uint16)
    with np.errstate(all="ignore"):
        halves = all16.view(np.float16).astype(np.float32)
    uppers = (all16.astype(np.uint32) << 16)
    near = [(uppers + n).view(np.float32) for n in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]
    spread = RNG(0).standard_normal(100_000) * 2.0 ** RNG(1).integers(-150, 128, 100_000)
    with np.errstate(all="ignore"):
        return np.concatenate([halves, np.nextafter(halves, np.float32(1)), *near,
                               spread.astype(np.float32)])


def test_bfloat16_is_that_of_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = odd_numbers()
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(npt.rounded(x, "bfloat16"),
                                      x.astype(ml_dtypes.bfloat16).astype(np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float16_is_that_of_numpy(dtype):
    with np.errstate(all="ignore"):
        x = odd_numbers().astype(dtype)
    if dtype == np.float64:
        x = np.concatenate([x, np.nextafter(x, 0), np.nextafter(x, np.inf)])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(npt.rounded(x, "float16"),
                                      x.astype(np.float16).astype(dtype))


@BOTH
def test_rounding_twice_is_rounding_once(to):
    x = npt.rounded(odd_numbers(), to)
    np.testing.assert_array_equal(npt.rounded(x, to), x)


@BOTH
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_keeps_shape_and_dtype(to, dtype):
    x = RNG(0).standard_normal((3, 4, 5)).astype(dtype)[:, ::-1, ::2]
    before = x.copy()
    y = npt.rounded(x, to)
    assert y.shape == x.shape and y.dtype == dtype
    np.testing.assert_array_equal(x, before)
    np.testing.assert_allclose(y, x, rtol=2.0**-8)


def test_a_power_of_two_commutes_with_rounding():
    x = RNG(0).uniform(2.0**-14, 1, 1000).astype(np.float32)     # where float16 has all its bits
    for to in ("float16", "bfloat16"):
        np.testing.assert_array_equal(npt.rounded(1024 * x, to), 1024 * npt.rounded(x, to))


@pytest.mark.parametrize("x, to, words", [
    (np.ones(2, int), "float16", "float32 or float64"), (np.ones(2), "float8", "bfloat16"),
    (np.ones(2), None, "to must be"), (1.0, "float16", "array"),
])
def test_rounding_refuses(x, to, words):
    with pytest.raises(ValueError, match=words):
        npt.rounded(x, to)


def test_what_is_missing_is_said(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
    with pytest.raises(ImportError, match=r"npt-lib\[bits\]"):
        needs_ml_dtypes()


# coats

def test_a_coat_that_changes_nothing_changes_nothing():
    plain, coated = gpt().astype(np.float64), gpt().astype(np.float64)
    seen = []
    for _, module in modules(coated):
        put_coat(module, lambda x: x, lambda g: (seen.append(g.shape), g)[1])
    for model in (plain, coated):
        model.loss((ids(),))[1]()
    assert seen
    for name, p in plain.parameters().items():
        np.testing.assert_array_equal(coated.parameters()[name].grad, p.grad)


def test_a_copy_of_a_coated_model_has_parameters_of_its_own():
    model = gpt()
    for _, module in modules(model):
        put_coat(module, lambda x: x, lambda g: g)
    other = copy.deepcopy(model)
    other.embed.tokens.table.value = other.embed.tokens.table.value * 0
    assert np.abs(model(ids())).max() > 0


@BOTH
def test_every_gradient_inside_is_one_of_the_format(to):
    learner, seen = npt.MixedPrecision(gpt(), to), []
    for _, module in modules(learner.copy):
        coat = module.forward
        coat.gradients = lambda g, f=coat.gradients: (seen.append(f(g)), seen[-1])[1]
    learner.loss((ids(),))[1]()
    assert len(seen) > 20
    for g in seen:
        np.testing.assert_array_equal(g, npt.rounded(g, to))


# training

@BOTH
def test_gradients_are_near_those_of_float32(to):
    model = gpt()
    model.loss((ids(),))[1]()
    wanted = np.concatenate([p.grad.ravel() for p in model.parameters().values()])
    model.zero_grad()
    npt.MixedPrecision(model, to, scale=1024.0).loss((ids(),))[1]()
    got = np.concatenate([p.grad.ravel() for p in model.parameters().values()])
    assert got.dtype == np.float32
    assert 0 < np.linalg.norm(got - wanted) < (0.01 if to == "float16" else 0.1) * np.linalg.norm(
        wanted)


def test_a_small_loss_vanishes_in_float16_and_comes_back_with_a_scale():
    def gradient(to, scale):
        model = gpt()
        npt.MixedPrecision(model, to, scale=scale).loss((ids(),))[1](2.0**-30)
        return np.abs(model.embed.tokens.table.grad).max()

    assert gradient("float16", 1.0) == 0
    assert gradient("float16", 2.0**30) > 0
    assert gradient("bfloat16", 1.0) > 0


def test_an_overflow_halves_the_scale_and_good_passes_double_it():
    model = gpt()
    learner = npt.MixedPrecision(model, "float16", scale=2.0**30, grow_after=2)
    learner.loss((ids(),))[1]()
    assert learner.scale < 2.0**24 and learner.overflows > 3
    found, scale = learner.overflows, learner.scale
    assert all(np.isfinite(p.grad).all() for p in model.parameters().values())
    learner.loss((ids(),))[1]()
    assert learner.scale == 2 * scale and learner.overflows == found


def test_a_fixed_scale_that_overflows_is_an_error_that_names_it():
    model = gpt()
    learner = npt.MixedPrecision(model, "float16", scale=2.0**30)
    with pytest.raises(ValueError, match="gradient of"):
        npt.train_step(learner, npt.Adam(model.parameters()), (ids(),), None)


def test_gradients_that_are_never_finite_are_an_error():
    class Broken(npt.Module):
        def __init__(self):
            self.w = npt.Parameter(np.ones(3, np.float32))

        def n_targets(self, batch):
            return 1

        def loss(self, batch, rng=None):
            return 0.0, lambda dloss=1.0: self.w.add_grad(np.full(3, np.nan, np.float32))

    _, backward = npt.MixedPrecision(Broken(), grow_after=1).loss(None)
    with pytest.raises(ValueError, match="however small"):
        backward()


@BOTH
def test_it_trains_and_the_masters_are_finer_than_the_copy(to):
    model = gpt()
    learner = npt.MixedPrecision(model, to, scale=1024.0, grow_after=10)
    adam = npt.Adam(model.parameters(), 0.01)
    history = npt.train(learner, adam, npt.Batches((ids(8),), 4, RNG(2)), None, 30)
    assert history.loss[-1] < 0.7 * history.loss[0]
    table = model.embed.tokens.table.value
    assert (table != npt.rounded(table, to)).any()
    assert npt.evaluate(learner, (ids(8),)).scores["token_accuracy"] > 0.2


def test_without_masters_a_gain_of_1_stands_still_in_bfloat16():
    for masters, moved in ((True, True), (False, False)):
        model = gpt()
        learner = npt.MixedPrecision(model, "bfloat16", masters=masters)
        npt.train(learner, npt.Adam(model.parameters(), 1e-3),
                  npt.Batches((ids(8),), 4, RNG(2)), None, 20)
        learner.take_values()
        gains = learner.copy.body.blocks[0].norm1.gain.value
        assert (gains != 1).any() == moved


def test_in_float32_a_power_of_two_changes_nothing():
    model = gpt()
    model.loss((ids(),))[1]()
    wanted = {name: p.grad for name, p in model.parameters().items()}
    model.zero_grad()
    npt.MixedPrecision(model, "float32", scale=2.0**-8).loss((ids(),))[1]()
    for name, p in model.parameters().items():
        np.testing.assert_array_equal(p.grad, wanted[name])


@pytest.mark.parametrize("team", [dict(n_threads=2), dict(comm=ALONE)])
@pytest.mark.parametrize("options", [dict(grow_after=5), dict(masters=False)])
def test_what_parts_of_a_batch_cannot_share_is_refused_before_the_first_step(team, options):
    model = gpt()
    before = model.state_dict()
    with pytest.raises(ValueError, match="MixedPrecision with grow_after or without masters"):
        npt.train(npt.MixedPrecision(model, **options), npt.Adam(model.parameters()),
                  npt.Batches((ids(8),), 4, RNG(2)), None, 2, **team)
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


def test_a_fixed_scale_learns_on_two_threads_as_on_one():
    losses = []
    for n in (1, 2):
        model = gpt()
        learner = npt.MixedPrecision(model, "bfloat16", scale=1024.0)
        losses.append(npt.train(learner, npt.Adam(model.parameters()),
                                npt.Batches((ids(8),), 4, RNG(2)), None, 3, n_threads=n).loss)
    np.testing.assert_allclose(*losses, rtol=1e-2)


def test_saving_a_learner_says_to_save_its_model(tmp_path):
    model = gpt()
    learner = npt.MixedPrecision(model)
    with pytest.raises(ValueError, match="save its model"):
        npt.save(tmp_path / "learner.npz", learner)
    with pytest.raises(ValueError, match="save its model"):
        npt.train(learner, npt.Adam(model.parameters()), npt.Batches((ids(8),), 4, RNG(2)), None,
                  2, path=tmp_path / "run.npz")
    npt.save(tmp_path / "model.npz", learner.model)
    assert list(tmp_path.iterdir()) == [tmp_path / "model.npz"]


@pytest.mark.parametrize("options, words", [
    (dict(to="float8"), "to must be"), (dict(scale=0.0), "scale"), (dict(scale="2"), "scale"),
    (dict(grow_after=0), "grow_after"), (dict(masters=1), "masters"),
])
def test_mixed_precision_refuses(options, words):
    with pytest.raises(ValueError, match=words):
        npt.MixedPrecision(gpt(), **options)
    with pytest.raises(ValueError, match="model"):
        npt.MixedPrecision(None)


# int8

@pytest.mark.parametrize("axis", [0, 1])
def test_no_number_is_farther_than_half_a_step(axis):
    x = RNG(0).standard_normal((7, 5)).astype(np.float32) * RNG(1).uniform(0.01, 9, 5)
    near = Int8.of(x, axis)
    assert near.scale.shape == ((1, 5) if axis == 0 else (7, 1))
    assert (np.abs(near.value - x) <= near.scale / 2 * (1 + 1e-5)).all()
    assert (np.abs(near.numbers).max(axis=axis) == 127).all()


def test_a_column_of_zeros_stays():
    near = Int8.of(np.zeros((3, 2), np.float32))
    np.testing.assert_array_equal(near.value, np.zeros((3, 2)))


@pytest.mark.parametrize("config", [
    npt.gpt_config(13, **SIZES), npt.gpt_config(13, tie_embeddings=False, **SIZES),
    npt.llama_config(13, n_kv_heads=2, **SIZES)])
def test_a_model_of_int8_writes_with_a_cache_and_comes_back_from_its_file(config, tmp_path):
    model = npt.GPT(config, RNG(0))
    small = npt.quantize(model)
    near, logits = small(ids()), model(ids())
    assert 0 < np.linalg.norm(near - logits) < 0.05 * np.linalg.norm(logits)
    state = small.start(ids()[:, :4], 9)
    for n in range(4, 9):
        np.testing.assert_allclose(small.step(ids()[:, n - 1], state), small(ids()[:, :n])[:, -1],
                                   rtol=1e-3, atol=1e-4)
    tokenizer = npt.CharTokenizer.from_texts(["abc"])
    npt.save_quantized(tmp_path / "small.npz", small, tokenizer)
    again = npt.load_quantized(tmp_path / "small.npz")
    np.testing.assert_array_equal(again(ids()), near)
    np.testing.assert_array_equal(npt.greedy(again, ids()[:, :3], 5), npt.greedy(
        small, ids()[:, :3], 5))
    assert npt.load_tokenizers(tmp_path / "small.npz")[0].tokens == tokenizer.tokens


def test_a_tied_table_is_stored_once_and_the_file_is_about_a_quarter(tmp_path):
    model = gpt(d_model=64, d_ff=256)
    small = npt.quantize(model)
    assert small.unembed.table is small.embed.tokens.table
    assert "unembed.table" not in int8_weights(small)
    npt.save(tmp_path / "whole.npz", model)
    npt.save_quantized(tmp_path / "small.npz", small)
    whole, part = ((tmp_path / name).stat().st_size for name in ("whole.npz", "small.npz"))
    assert 0.25 < part / whole < 0.32
    assert model.parameters()["embed.tokens.table"].value.dtype == np.float32


def test_the_way_back_through_int8_is_one_error():
    _, backward = npt.quantize(gpt()).loss((ids(),))
    with pytest.raises(ValueError, match="do not learn"):
        backward()


def test_quantize_and_its_file_refuse(tmp_path):
    path = tmp_path / "small.npz"
    with pytest.raises(ValueError, match="Module"):
        npt.quantize(np.ones(3))
    with pytest.raises(ValueError, match="without int8"):
        npt.save_quantized(path, gpt())
    with pytest.raises(ValueError, match="Int8 needs"):
        Int8(np.ones((2, 2)), np.ones((1, 2), np.float32))
    with pytest.raises(ValueError, match="scale"):
        Int8(np.ones((2, 3), np.int8), np.ones(3, np.float32))
    with pytest.raises(ValueError, match="finite"):
        Int8.of(np.full((2, 2), np.nan))
    npt.save(path, gpt())
    with pytest.raises(ValueError, match="int8 weights"):
        npt.load_quantized(path)
    npt.save_quantized(path, npt.quantize(gpt()))
    arrays = read_arrays(path)
    name = "int8/body.blocks.0.attn.out.W"
    for wrong in (arrays[name][:, :3], arrays[name].astype(np.float32)):
        write_arrays(path, {k: x for k, x in arrays.items() if k != "format"} | {name: wrong})
        with pytest.raises(ValueError, match=r"small\.npz"):
            npt.load_quantized(path)


# what the chapter reads

def test_what_is_stored_is_what_the_command_makes():
    stored = json.loads(runs.STORE.read_text("utf8"))
    assert {(r["kind"], r["seed"]) for r in stored} == {
        (kind, seed) for kind in runs.KINDS for seed in runs.SEEDS}
    for r in stored:
        assert len(r["losses"]) == len(r["scales"]) == runs.STEPS // runs.EVERY
        assert r["still"].keys() == {str(n) for n in range(50, 201, 50)}
    model = npt.load(runs.MODEL)
    assert stored[0]["parameters"] == model.n_parameters()
    assert model.config == npt.gpt_config(model.config.n_tgt_vocab, **runs.SIZES)


def test_the_chapter_says_what_is_stored():
    page = (Path(runs.STORE).with_name("14_fewer_bits.ipynb")).read_text("utf8")
    for kind, bits, _ in runs.table(runs.stored()):
        for number in bits.split():
            assert number in page, (kind, number)
