"""The example that turns a GPT into functions of JAX: logits, and jax.vjp beside our backward."""

import numpy as np
import pytest

import npt_lib as npt

pytest.importorskip("jax")

from examples import to_jax


def model_of(dtype, **choices):
    config = npt.gpt_config(29, d_model=24, n_heads=3, d_ff=50, n_layers=3, dropout=0.0,
                            max_len=17, **choices)
    model = npt.GPT(config, np.random.default_rng(0)).astype(dtype)
    rng = np.random.default_rng(1)
    for p in model.parameters().values():                  # no gain is 1, no bias 0
        p.value = p.value + (rng.standard_normal(p.shape) / 10).astype(dtype)
    return model


@pytest.mark.parametrize("dtype, limit", [(np.float64, 1e-11), (np.float32, 2e-5)])
def test_the_same_logits_and_gradients(dtype, limit):
    model, rng = model_of(dtype), np.random.default_rng(2)
    ids = rng.integers(0, 29, (3, 11))
    dlogits = rng.standard_normal((3, 11, 29)).astype(dtype)
    assert max(to_jax.differences(model, ids, dlogits)) < limit
    backward = npt.layers.softmax_gradient
    try:                                                   # and it can fail
        npt.dot_product_attention.softmax_gradient = lambda w, dw: 1.01 * backward(w, dw)
        logits, gradients = to_jax.differences(model, ids, dlogits)
    finally:
        npt.dot_product_attention.softmax_gradient = backward
    assert logits < limit and gradients > 100 * limit


PARTS = {
    "linear": (npt.Linear(6, 5, np.random.default_rng(0)), to_jax.linear, (3, 4, 6)),
    "layer norm": (npt.LayerNorm(6), to_jax.layer_norm, (3, 4, 6)),
    "feed-forward": (npt.FeedForward(6, 9, np.random.default_rng(0), "gelu"),
                     to_jax.feed_forward, (3, 4, 6)),
}


@pytest.mark.parametrize("name", PARTS)
def test_part_by_part(name):
    part, theirs, shape = PARTS[name]
    part, rng = part.astype(np.float64), np.random.default_rng(3)
    x, dy = rng.standard_normal(shape), rng.standard_normal(part(np.zeros(shape)).shape)
    y, backward = part.forward(x)
    dx = backward(dy)
    out, vjp = to_jax.jax.vjp(theirs, part.state_dict(), x)
    dw, their_dx = vjp(dy)
    assert max(to_jax.apart(y, out), to_jax.apart(dx, their_dx)) < 1e-13
    for key, p in part.parameters().items():
        assert to_jax.apart(p.grad, dw[key]) < 1e-13


def test_another_model_is_refused(tmp_path, capsys):
    npt.save(tmp_path / "gpt.npz", model_of(np.float32))
    to_jax.main([str(tmp_path / "gpt.npz")])
    assert capsys.readouterr().out.startswith(f"{model_of(np.float32).n_parameters():,} parameters")
    llama = npt.GPT(npt.llama_config(9, d_model=8, n_heads=2, d_ff=8), np.random.default_rng(0))
    npt.save(tmp_path / "llama.npz", llama)
    with pytest.raises(ValueError, match="to_jax needs a GPT with gpt_config's choices"):
        to_jax.main([str(tmp_path / "llama.npz")])


def test_it_tells_how_it_is_called(capsys):
    with pytest.raises(SystemExit) as end:
        to_jax.main(["--help"])
    assert end.value.code == 0
    assert "model.npz" in capsys.readouterr().out
