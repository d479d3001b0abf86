"""JAX: one compiled function for a training step, one for a whole decoding."""

import math
from collections.abc import Callable
from itertools import cycle

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import work
from benchmarks.work import Size

jnp.ones(1).block_until_ready()     # what starts at the first operation belongs to the import
Job = Callable[[int], list]
Array = jax.Array
Weights = dict[str, Array]                          # under npt_lib's names
State = tuple[Weights, Weights, Weights, Array]     # weights, Adam's mean and square, steps


def about() -> Job:
    return lambda n: [("JAX", f"{jax.__version__} on {jax.default_backend()}")]


def train(size: Size, weights: str) -> Job:
    """n steps of training; the losses."""
    p = weights_of(weights)
    zeros = {k: jnp.zeros_like(x) for k, x in p.items()}
    state: State = (p, zeros, {k: x.copy() for k, x in zeros.items()}, jnp.zeros(()))
    data = cycle(work.batches(size))

    def step(state: State, src: Array, tgt: Array) -> tuple[State, Array]:
        loss, grads = jax.value_and_grad(loss_of)(state[0], src, tgt, size)
        return adam(state, grads), loss

    compiled = jax.jit(step, donate_argnums=0)

    def job(n: int) -> list[float]:
        nonlocal state
        losses = []
        for _ in range(n):
            state, loss = compiled(state, *next(data))
            losses.append(float(loss))
        return losses

    return job


def decode(size: Size, weights: str, n_rows: int) -> Job:
    """N_TOKENS a row, each the likeliest, n times over, in one compiled loop; the tokens."""
    p = weights_of(weights)
    src = work.batches(size)[0][0][:n_rows]
    write = jax.jit(lambda p, src: greedy(p, src, size, work.N_TOKENS))
    return lambda n: [np.asarray(write(p, src)).tolist() for _ in range(n)][-1]


def attend(n: int) -> Job:
    """Attention over n positions, forwards and backwards; the squares of all, summed."""
    inputs = [jnp.asarray(x) for x in work.attention_inputs(n)]

    @jax.jit
    def both(q, k, v, dy):
        y, backward = jax.vjp(lambda q, k, v: attention(q, k, v, True), q, k, v)
        return [jnp.vdot(x, x) for x in (y, *backward(dy))]

    return lambda times: [[float(d) for d in both(*inputs)] for _ in range(times)][-1]


def weights_of(path: str) -> Weights:
    with np.load(path) as arrays:
        return {name: jnp.asarray(array) for name, array in arrays.items()}


def loss_of(p: Weights, src: Array, tgt: Array, size: Size) -> Array:
    """Label-smoothed cross-entropy, padding left out."""
    log_p = jax.nn.log_softmax(logits(p, src, tgt[:, :-1], size))
    wanted = tgt[:, 1:]
    right = jnp.take_along_axis(log_p, wanted[..., None], axis=-1)[..., 0]
    surprise = -(1 - work.SMOOTHING) * right - work.SMOOTHING * log_p.mean(axis=-1)
    real = wanted != work.PAD
    return jnp.where(real, surprise, 0).sum() / real.sum()


def adam(state: State, grads: Weights) -> State:
    """One clipped step of Adam."""
    weights, mean, square, steps = state
    norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in grads.values()))
    shrink = jnp.minimum(1.0, work.MAX_NORM / norm)
    grads = {k: g * shrink for k, g in grads.items()}
    (b1, b2), steps = work.BETAS, steps + 1
    mean = {k: b1 * mean[k] + (1 - b1) * g for k, g in grads.items()}
    square = {k: b2 * square[k] + (1 - b2) * g * g for k, g in grads.items()}
    rate, spread = work.LR / (1 - b1**steps), 1 / (1 - b2**steps)
    weights = {k: p - rate * mean[k] / (jnp.sqrt(square[k] * spread) + work.EPS)
               for k, p in weights.items()}
    return weights, mean, square, steps


def linear(p: Weights, name: str, x: Array) -> Array:
    return x @ p[f"{name}.W"] + p[f"{name}.b"]


def norm(p: Weights, name: str, x: Array) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + 1e-5) * p[f"{name}.gain"] + p[f"{name}.bias"]


def heads(p: Weights, name: str, x: Array, n_parts: int, H: int) -> Array:
    """(B, T, D) to queries, keys, values or several of them: (parts, B, H, T, K)."""
    B, T, _ = x.shape
    return linear(p, name, x).reshape(B, T, n_parts, H, -1).transpose(2, 0, 3, 1, 4)


def attention(q: Array, k: Array, v: Array, mask: Array | bool) -> Array:
    scores = (q / math.sqrt(q.shape[-1])) @ k.swapaxes(-1, -2)
    if mask is not True:
        scores = jnp.where(mask, scores, -1e30)
    return jax.nn.softmax(scores) @ v


def mixed(p: Weights, name: str, q: Array, kv: Array, mask: Array) -> Array:
    """Attention, its heads side by side again, through the last linear layer."""
    h = attention(q, kv[0], kv[1], mask)                              # (B, H, T, K)
    return linear(p, f"{name}.out", h.swapaxes(1, 2).reshape(len(h), h.shape[2], -1))


def feed_forward(p: Weights, name: str, x: Array, last: int) -> Array:
    h = linear(p, f"{name}.ffn.down", jax.nn.relu(linear(p, f"{name}.ffn.up", x)))
    return norm(p, f"{name}.norm{last}", x + h)


def cross_and_feed(p: Weights, name: str, x: Array, kv: Array, mask: Array, H: int) -> Array:
    """What follows self-attention in a decoder block."""
    (q,) = heads(p, f"{name}.cross.q", x, 1, H)
    x = norm(p, f"{name}.norm2", x + mixed(p, f"{name}.cross", q, kv, mask))
    return feed_forward(p, name, x, 3)


def self_attention(p: Weights, name: str, x: Array, mask: Array, H: int) -> Array:
    q, *kv = heads(p, f"{name}.attn.qkv", x, 3, H)
    return norm(p, f"{name}.norm1", x + mixed(p, f"{name}.attn", q, kv, mask))


def embed(p: Weights, side: str, ids: Array, waves: Array) -> Array:
    table = p[f"{side}_embed.tokens.table"]
    return table[ids] * math.sqrt(table.shape[1]) + waves


def encode(p: Weights, src: Array, size: Size) -> tuple[Array, list[Array]]:
    """The mask (B, 1, 1, S) of real tokens, and each decoder block's keys and values of them."""
    mask, H = (src != work.PAD)[:, None, None, :], size.n_heads
    x = embed(p, "src", src, work.positions(size.d_model)[:src.shape[1]])
    for i in range(size.n_layers):
        name = f"encoder.blocks.{i}"
        x = feed_forward(p, name, self_attention(p, name, x, mask, H), 2)
    return mask, [heads(p, f"decoder.blocks.{i}.cross.kv", x, 2, H) for i in range(size.n_layers)]


def logits(p: Weights, src: Array, tgt: Array, size: Size) -> Array:
    """(B, T, V) for every next token."""
    mask, kvs = encode(p, src, size)
    T, H = tgt.shape[1], size.n_heads
    future = jnp.tri(T, dtype=bool)
    x = embed(p, "tgt", tgt, work.positions(size.d_model)[:T])
    for i, kv in enumerate(kvs):
        name = f"decoder.blocks.{i}"
        x = cross_and_feed(p, name, self_attention(p, name, x, future, H), kv, mask, H)
    return x @ p["unembed.table"].T


def greedy(p: Weights, src: Array, size: Size, room: int) -> Array:
    """As many tokens as there is room for, each the likeliest: (B, room), in one loop."""
    mask, kvs = encode(p, src, size)
    H, waves = size.n_heads, jnp.asarray(work.positions(size.d_model))

    def block(i: int, x: Array, past: Array, position: Array) -> tuple[Array, Array]:
        """Decoder block i at the newest position alone; past is (2, B, H, room, K)."""
        name = f"decoder.blocks.{i}"
        q, *new = heads(p, f"{name}.attn.qkv", x, 3, H)
        past = jax.lax.dynamic_update_slice(past, jnp.stack(new), (0, 0, 0, position, 0))
        seen = jnp.arange(room) <= position
        x = norm(p, f"{name}.norm1", x + mixed(p, f"{name}.attn", q, past, seen))
        return cross_and_feed(p, name, x, kvs[i], mask, H), past

    def step(carry, position):
        ids, pasts = carry
        x = embed(p, "tgt", ids[:, None], waves[position])
        grown = []
        for i, past in enumerate(pasts):
            x, past = block(i, x, past, position)
            grown.append(past)
        ids = (x[:, 0] @ p["unembed.table"].T).argmax(axis=-1)
        return (ids, grown), ids

    empty = [jnp.zeros((2, len(src), H, room, size.d_model // H)) for _ in kvs]
    start = (jnp.full(len(src), work.BOS), empty)
    return jax.lax.scan(step, start, jnp.arange(room))[1].T
