"""What a third review found by breaking things: wrong numbers that came without an error."""

import os
from functools import partial

import numpy as np
import pytest

import npt_lib as npt
from npt_lib.modern import RMSNorm
from npt_lib.sweeps import successive_halving, sweep

RNG = np.random.default_rng(0)
IDS = np.array([[3, 4, 5, 0, 0, 0], [6, 7, 8, 3, 0, 0]])


# The judge of gradients.

def test_a_gradient_that_is_nan_is_never_right():
    layer = npt.Linear(3, 2, RNG).astype(np.float64)

    def spoilt(x):
        y, backward = layer.forward(x)

        def spoilt_backward(dy):
            dx = backward(dy)
            layer.b.add_grad(np.full(2, np.nan))
            return dx

        return y, spoilt_backward

    parameters, x = layer.parameters(), np.ones((4, 3))
    assert np.isnan(npt.check_gradients(spoilt, [x], parameters))
    assert npt.check_gradients(layer.forward, [x], parameters) < 1e-8


def test_a_difference_needs_numbers_that_feel_its_step():
    with pytest.raises(ValueError, match="needs an array of float64, got float32"):
        npt.numeric_gradient(lambda: 0.0, np.full(2, 300, np.float32))


# What goes into a backward.

X = RNG.standard_normal((2, 3, 4)).astype(np.float32)
LAYERS = {
    "Linear": (npt.Linear(4, 2, RNG), X, (2, 3, 2)),
    "Unembedding": (npt.Unembedding(npt.Embedding(5, 4, RNG).table), X, (2, 3, 5)),
    "Embedding": (npt.Embedding(9, 4, RNG), IDS, (2, 6, 4)),
    "LearnedPositions": (npt.LearnedPositions(9, 4, RNG), X, (2, 3, 4)),
    "LayerNorm": (npt.LayerNorm(4), X, (2, 3, 4)),
    "RMSNorm": (RMSNorm(4), X, (2, 3, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_backward_takes_a_gradient_of_its_outputs_shape_alone(name):
    layer, x, shape = LAYERS[name]
    y, backward = layer.forward(x)
    assert y.shape == shape
    for wrong in ((shape[1], shape[0], shape[2]), (1, *shape), (shape[0] * shape[1], shape[2]),
                  (1,)):
        with pytest.raises(ValueError, match=f"^{name}'s backward needs dy of y's shape") as told:
            backward(np.ones(wrong, np.float32))
        assert str(told.value).endswith(f"{shape}, got {wrong}.")
    assert all(p.grad is None for p in layer.parameters().values())
    backward(np.ones(shape, np.float32))


def test_a_loss_is_one_number_also_backwards():
    _, backward = npt.cross_entropy(np.zeros((2, 3), np.float32), [0, 1])
    with pytest.raises(ValueError, match=r"dloss must be one number, got shape \(3,\)"):
        backward(np.ones(3, np.float32))


# Optimizers, scores, batches.

@pytest.mark.parametrize("kind", [npt.SGD, npt.Adam])
def test_an_optimizer_keeps_to_the_shapes_that_it_began_with(kind):
    p, q = (npt.Parameter(np.ones(n, np.float32)) for n in (3, 5))
    optimizer = kind([p, q], 0.1)
    p.value, q.value = q.value, p.value
    p.grad, q.grad = p.value, q.value
    with pytest.raises(ValueError, match=r"parameter 0 must stay float32 \(3,\), got float32 \(5,"):
        optimizer.step()


def test_a_single_number_learns():
    class Scaled(npt.Module):
        def __init__(self):
            self.t = npt.Parameter(np.ones((), np.float32))

        def loss(self, batch, rng=None):
            x, = batch
            t = self.t.value

            def backward(dloss=1.0):
                for part in x:                                  # its gradient adds up
                    self.t.add_grad(dloss * part * (t * part - 3 * part))

            return float(np.sum((t * x - 3 * x)**2) / 2), backward

        def n_targets(self, batch):
            return len(batch[0])

    model, x = Scaled(), np.array([1, 2], np.float32)
    npt.train(model, npt.Adam(model.parameters(), 0.1), [(x,)] * 100, None, 100, max_norm=0.5)
    assert abs(model.t.value - 3) < 0.05 and model.t.shape == ()


def test_a_score_says_something_of_each_row():
    class Scored(npt.Module):
        config = None

        def loss(self, batch, rng=None):
            return 0.0, lambda dloss=1.0: None

        def n_targets(self, batch):
            return len(batch[0])

        def scores(self, batch):
            return {"mean": float(np.mean(batch[0]))}

    with pytest.raises(ValueError, match="the score 'mean' must be an array, an entry for each"):
        npt.evaluate(Scored(), (np.array([0, 0, 0, 0, 1]),), batch_size=4)


@pytest.mark.parametrize("wrong", [None, 1j, "x", np.ma.ones(()), 3])
def test_a_single_number_takes_numbers_alone_for_its_gradient(wrong):
    p = npt.Parameter(np.ones((), np.float32))
    with pytest.raises(ValueError, match=r"must be an array of its shape \(\)"):
        p.add_grad(wrong)
    assert p.grad is None


def test_a_very_negative_number_is_not_infinite():
    p = npt.Parameter(np.ones(3, np.float32))
    p.grad = p.value
    with pytest.raises(ValueError, match="max_norm must be above 0"):
        npt.clip_gradients([p], -10**400)


def test_targets_are_padded_at_the_end():
    model = npt.Transformer(npt.Config(9, 9, 8, 2, 8, 1, 0.0, 9), RNG)
    right, left = np.array([[1, 3, 4, 2, 0]]), np.array([[0, 1, 3, 4, 2]])
    for method in (model.loss, model.scores, model.n_targets):
        method((right, right))
        with pytest.raises(ValueError, match="tgt must be padded at the end"):
            method((right, left))
    model = gpt()
    for method in (model.loss, model.scores, model.n_targets):
        method((right,))
        with pytest.raises(ValueError, match="ids must be padded at the end"):
            method((left,))


def test_one_text_is_no_list_of_texts():
    letters = npt.CharTokenizer.from_texts(["abc"])
    with pytest.raises(ValueError, match="encode_batch needs a list of texts, got one text"):
        letters.encode_batch("abc")


def test_a_number_of_400_digits_is_no_rate():
    p = npt.Parameter(np.ones(3, np.float32))
    p.grad = p.value
    with pytest.raises(ValueError, match="A step's lr must be at least 0"):
        npt.SGD([p], 0.1).step(10**400)


# Files.

def gpt(**options):
    config = npt.gpt_config(9, d_model=8, n_heads=2, d_ff=12, n_layers=1, max_len=6, dropout=0.0,
                            **options)
    return npt.GPT(config, np.random.default_rng(0))


def other_scale(model):
    model.embed.scale = 3.0


def other_eps(model):
    model.body.blocks[0].norm1.eps = 0.5


def other_attention(model):
    model.body.blocks[0].attn = npt.PatternAttention(8, 2, RNG, npt.Window(1))


@pytest.mark.parametrize("change", [other_scale, other_eps, other_attention])
def test_a_file_must_rebuild_the_model_that_it_holds(tmp_path, change):
    pytest.importorskip("safetensors")
    ways = {"whole": npt.save, "gpt2": npt.save_gpt2,
            "int8": lambda path, model: npt.save_quantized(path, npt.quantize(model))}
    for name, save in ways.items():
        model = gpt()
        save(tmp_path / name, model)
        change(model)
        with pytest.raises(ValueError, match="build the part in the config or in a subclass"):
            save(tmp_path / f"other {name}", model)
        assert not (tmp_path / f"other {name}").exists()


def test_gpt_2s_files_hold_no_nan(tmp_path):
    pytest.importorskip("safetensors")
    model = gpt()
    model.body.norm.gain.value[0] = np.nan
    with pytest.raises(ValueError, match=r"body.norm.gain holds NaN or infinity"):
        npt.save_gpt2(tmp_path, model)


@pytest.mark.parametrize("pad_id, bos_id", [(0, 1), (0, None), (None, None), (5, 4)])
def test_gpt_2s_files_keep_the_padding(tmp_path, pad_id, bos_id):
    pytest.importorskip("safetensors")
    model = gpt(pad_id=pad_id, bos_id=bos_id)
    npt.save_gpt2(tmp_path, model)
    again = npt.load_gpt2(tmp_path)
    assert again.config == model.config
    end = pad_id or 0
    ids = np.array([[3, 4, 6, end, end, end], [6, 7, 8, 3, end, end]])
    assert again.loss((ids,))[0] == model.loss((ids,))[0]


def test_a_name_that_npz_files_would_change_is_refused(tmp_path):
    from npt_lib.checkpoint import write_arrays

    with pytest.raises(ValueError, match=r"no name may end in \.npy"):
        write_arrays(tmp_path / "a.npz", {"d.w": np.ones(2), "d.w.npy": np.zeros(2)})


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_saving_to_a_link_writes_what_it_leads_to(tmp_path):
    link, file = tmp_path / "newest.npz", tmp_path / "model.npz"
    file.write_bytes(b"old")
    link.symlink_to(file)
    npt.save(link, gpt())
    assert link.is_symlink() and npt.load(file).config == gpt().config


# Patterns, tokens, sweeps.

class Sink(npt.Window):
    """A window that sees the first position, too."""

    def sees(self, queries, keys):
        return super().sees(queries, keys) | (keys == 0)


def test_a_pattern_of_ones_own_writes_as_it_reads():
    attn = npt.PatternAttention(8, 2, RNG, Sink(2)).astype(np.float64)
    x = RNG.standard_normal((1, 7, 8))
    cache = attn.start(1, 7)
    steps = [attn.step(x[:, t:t + 1], cache) for t in range(7)]
    np.testing.assert_allclose(np.concatenate(steps, axis=1), attn(x), atol=1e-12)


def test_gpt_2s_tokenizer_refuses_what_could_not_come_back():
    tokenizer = npt.GPT2Tokenizer.from_merges(npt.BytePairTokenizer.from_texts(["the the cat"], 4))
    with pytest.raises(ValueError, match="a text must be Unicode that UTF-8 can hold"):
        tokenizer.encode("\ud800")
    twice = npt.BytePairTokenizer([(100, 101), (99, 100), (259, 101), (99, 259)])
    with pytest.raises(ValueError, match="must make a new token"):
        npt.GPT2Tokenizer.from_merges(npt.BytePairTokenizer(
            [twice.merges[0], twice.merges[1], (260, 101), (99, 259)]))


def powers(x, k=1):
    return {"loss": float(x) ** k}


def test_results_of_two_runs_are_told_apart(tmp_path):
    with pytest.raises(ValueError, match="run must be a function with a name"):
        sweep(lambda x: {"loss": x}, [{"x": 2}], tmp_path)
    options = dict(folder=tmp_path, n_workers=1, processes=False, tell=str)
    pytest.importorskip("distributed")
    sweep(partial(powers, k=1), [{"x": 2}], **options)
    sweep(partial(powers, k=1), [{"x": 2}], **options)                 # what is stored is its own
    with pytest.raises(ValueError, match="needs a folder of its own"):
        sweep(partial(powers, k=5), [{"x": 2}], **options)


def test_what_a_partial_brings_counts_whatever_it_is():
    from npt_lib.sweeps import _name

    a, b = np.zeros(5000), np.zeros(5000)
    b[2500] = 1
    assert _name(partial(powers, x=a)) != _name(partial(powers, x=b))
    assert _name(partial(powers, x=1, k=2)) == _name(partial(powers, k=2, x=1))
    assert "0x" not in _name(partial(powers, x=powers))
    with pytest.raises(ValueError, match="what run brings cannot be stored"):
        _name(partial(powers, x=object()))


def test_settings_are_stored_as_they_are_given(tmp_path):
    with pytest.raises(ValueError, match="a key must be a text, got 1"):
        sweep(powers, [{"x": {1: 3}}], tmp_path)
    for setting in ({"x": 1, "budget": 3}, 3):
        with pytest.raises(ValueError, match="must be a dict without a budget"):
            successive_halving(powers, [setting], tmp_path, (1, 2))
