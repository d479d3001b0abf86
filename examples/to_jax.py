"""A GPT of npt_lib as functions of JAX: the same weights, the same logits, the same gradients.

    python -m examples.to_jax model.npz      says how far logits and gradients of both differ

Every function has its forward alone: JAX finds the way back (jax.vjp), where our layers bring
it. Needs JAX: pip install "npt-lib[jax]".
"""

import argparse
import math
import os
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    raise ImportError('examples/to_jax.py needs JAX: pip install "npt-lib[jax]".') from None

import npt_lib as npt
from npt_lib.gpt2 import check_gpt2

Weights = dict[str, Any]

jax.config.update("jax_enable_x64", True)            # float64 stays float64


def of(weights: Weights, name: str) -> Weights:
    """The weights of one part: those whose names begin so."""
    return {key.removeprefix(f"{name}."): w for key, w in weights.items()
            if key.startswith(f"{name}.")}


def linear(w: Weights, x: Any) -> Any:
    return x @ w["W"] + w["b"]


def layer_norm(w: Weights, x: Any) -> Any:
    n = x - x.mean(-1, keepdims=True)
    return n / jnp.sqrt((n * n).mean(-1, keepdims=True) + 1e-5) * w["gain"] + w["bias"]


def gelu(x: Any) -> Any:
    return jax.nn.gelu(x, approximate=True)


def attention(q: Any, k: Any, v: Any) -> Any:
    """Under a causal mask; q, k and v are (B, H, T, K)."""
    T, K = q.shape[-2:]
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(K)
    scores = jnp.where(np.tri(T, dtype=bool), scores, -jnp.inf)
    return jax.nn.softmax(scores, axis=-1) @ v


def self_attention(w: Weights, x: Any, n_heads: int) -> Any:
    B, T, D = x.shape
    qkv = linear(of(w, "qkv"), x).reshape(B, T, 3, n_heads, D // n_heads)
    heads = attention(*qkv.transpose(2, 0, 3, 1, 4))
    return linear(of(w, "out"), heads.swapaxes(1, 2).reshape(B, T, D))


def feed_forward(w: Weights, x: Any) -> Any:
    return linear(of(w, "down"), gelu(linear(of(w, "up"), x)))


def block(w: Weights, x: Any, n_heads: int) -> Any:
    x = x + self_attention(of(w, "attn"), layer_norm(of(w, "norm1"), x), n_heads)
    return x + feed_forward(of(w, "ffn"), layer_norm(of(w, "norm2"), x))


def logits_of(w: Weights, ids: Any, config: npt.Config) -> Any:
    """(B, T, V), as ``GPT`` computes them; w is the model's state_dict."""
    x = w["embed.tokens.table"][ids] + w["embed.positions.table"][:ids.shape[1]]
    for n in range(config.n_layers):
        x = block(of(w, f"body.blocks.{n}"), x, config.n_heads)
    return layer_norm(of(w, "body.norm"), x) @ w["embed.tokens.table"].T


def differences(model: npt.GPT, ids: np.ndarray, dlogits: np.ndarray) -> tuple[float, float]:
    """The largest differences of logits and of gradients, in shares of the largest of each."""
    weights = {name: jnp.asarray(w) for name, w in model.state_dict().items()}
    theirs, vjp = jax.vjp(lambda w: logits_of(w, ids, model.config), weights)
    (gradients,) = vjp(jnp.asarray(dlogits))
    model.zero_grad()
    logits, backward = model.forward(ids)
    backward(dlogits)
    found = {name: p.grad for name, p in model.parameters().items()}
    worst = np.max([apart(found[name], g) for name, g in gradients.items()])      # NaN stays
    return apart(logits, theirs), float(worst)


def apart(ours: Any, theirs: Any) -> float:
    return float(np.abs(ours - np.asarray(theirs)).max() / np.abs(np.asarray(theirs)).max())


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.to_jax",
                                     description=__doc__.split("\n")[0])
    parser.add_argument("path", help="a GPT that npt_lib.save has written, such as model.npz")
    model = npt.load(parser.parse_args(arguments).path)
    check_gpt2("to_jax", model)
    rng, c = np.random.default_rng(0), model.config
    ids = rng.integers(0, c.n_tgt_vocab, (4, min(c.max_len, 32)))
    dlogits = rng.standard_normal((*ids.shape, c.n_tgt_vocab)).astype(np.float32)
    logits, gradients = differences(model, ids, dlogits)
    print(f"{model.n_parameters():,} parameters; in shares of the largest, logits differ by at "
          f"most {logits:.1e} and gradients by {gradients:.1e}")


if __name__ == "__main__":
    main()
