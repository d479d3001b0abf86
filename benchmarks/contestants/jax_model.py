"""The Transformer in JAX: functions of a dict of weights under npt_lib's names."""

import math

import jax
import jax.numpy as jnp

from benchmarks.sizes import BOS, PAD, Size, positions

Weights = dict[str, jax.Array]


def linear(p: Weights, name: str, x: jax.Array) -> jax.Array:
    return x @ p[f"{name}.W"] + p[f"{name}.b"]


def norm(p: Weights, name: str, x: jax.Array) -> jax.Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + 1e-5) * p[f"{name}.gain"] + p[f"{name}.bias"]


def split(x: jax.Array, n_parts: int, n_heads: int) -> jax.Array:
    """(B, T, parts * D) to (parts, B, H, T, K)."""
    B, T, _ = x.shape
    return x.reshape(B, T, n_parts, n_heads, -1).transpose(2, 0, 3, 1, 4)


def attention(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array | None) -> jax.Array:
    scores = (q / math.sqrt(q.shape[-1])) @ k.swapaxes(-1, -2)
    if mask is not None:
        scores = jnp.where(mask, scores, -1e30)
    return jax.nn.softmax(scores) @ v


def merge(x: jax.Array) -> jax.Array:
    B, _, T, _ = x.shape
    return x.swapaxes(1, 2).reshape(B, T, -1)


def embed(p: Weights, side: str, ids: jax.Array, waves: jax.Array) -> jax.Array:
    table = p[f"{side}_embed.tokens.table"]
    return table[ids] * math.sqrt(table.shape[1]) + waves


def self_attention(p: Weights, name: str, x: jax.Array, mask: jax.Array, H: int) -> jax.Array:
    q, k, v = split(linear(p, f"{name}.attn.qkv", x), 3, H)
    h = linear(p, f"{name}.attn.out", merge(attention(q, k, v, mask)))
    return norm(p, f"{name}.norm1", x + h)


def memory_parts(p: Weights, name: str, memory: jax.Array, H: int) -> jax.Array:
    """The memory's keys and values for one block, (2, B, H, S, K)."""
    return split(linear(p, f"{name}.cross.kv", memory), 2, H)


def cross_attention(p: Weights, name: str, x: jax.Array, kv: jax.Array, mask: jax.Array,
                    H: int) -> jax.Array:
    (q,) = split(linear(p, f"{name}.cross.q", x), 1, H)
    h = linear(p, f"{name}.cross.out", merge(attention(q, kv[0], kv[1], mask)))
    return norm(p, f"{name}.norm2", x + h)


def feed_forward(p: Weights, name: str, x: jax.Array, last: int) -> jax.Array:
    h = linear(p, f"{name}.ffn.down", jax.nn.relu(linear(p, f"{name}.ffn.up", x)))
    return norm(p, f"{name}.norm{last}", x + h)


def encode(p: Weights, src: jax.Array, size: Size) -> tuple[jax.Array, jax.Array]:
    """The memory (B, S, D) and the mask (B, 1, 1, S) of its real tokens."""
    mask = (src != PAD)[:, None, None, :]
    x = embed(p, "src", src, positions(size.d_model)[:src.shape[1]])
    for i in range(size.n_layers):
        name = f"encoder.blocks.{i}"
        x = feed_forward(p, name, self_attention(p, name, x, mask, size.n_heads), 2)
    return x, mask


def logits(p: Weights, src: jax.Array, tgt: jax.Array, size: Size) -> jax.Array:
    """(B, T, V) for every next token."""
    memory, mask = encode(p, src, size)
    T = tgt.shape[1]
    future = jnp.tri(T, dtype=bool)
    x = embed(p, "tgt", tgt, positions(size.d_model)[:T])
    for i in range(size.n_layers):
        name = f"decoder.blocks.{i}"
        x = self_attention(p, name, x, future, size.n_heads)
        kv = memory_parts(p, name, memory, size.n_heads)
        x = cross_attention(p, name, x, kv, mask, size.n_heads)
        x = feed_forward(p, name, x, 3)
    return x @ p["unembed.table"].T


def block_step(p: Weights, name: str, x: jax.Array, past: jax.Array, kv: jax.Array,
               mask: jax.Array, position: jax.Array, H: int) -> tuple[jax.Array, jax.Array]:
    """A decoder block at the newest position alone; past is (2, B, H, room, K)."""
    q, *new = split(linear(p, f"{name}.attn.qkv", x), 3, H)
    past = jax.lax.dynamic_update_slice(past, jnp.stack(new), (0, 0, 0, position, 0))
    seen = jnp.arange(past.shape[3]) <= position
    h = linear(p, f"{name}.attn.out", merge(attention(q, past[0], past[1], seen)))
    x = norm(p, f"{name}.norm1", x + h)
    return feed_forward(p, name, cross_attention(p, name, x, kv, mask, H), 3), past


def greedy(p: Weights, src: jax.Array, size: Size, room: int) -> jax.Array:
    """As many tokens as there is room for, each the likeliest: (B, room), in one loop."""
    memory, mask = encode(p, src, size)
    H, waves = size.n_heads, jnp.asarray(positions(size.d_model))
    names = [f"decoder.blocks.{i}" for i in range(size.n_layers)]
    kvs = [memory_parts(p, name, memory, H) for name in names]

    def step(carry, position):
        ids, pasts = carry
        x = embed(p, "tgt", ids[:, None], waves[position])
        grown = []
        for name, past, kv in zip(names, pasts, kvs, strict=True):
            x, past = block_step(p, name, x, past, kv, mask, position, H)
            grown.append(past)
        ids = (x[:, 0] @ p["unembed.table"].T).argmax(axis=-1)
        return (ids, grown), ids

    empty = [jnp.zeros((2, len(src), H, room, size.d_model // H)) for _ in names]
    start = (jnp.full(len(src), BOS), empty)
    return jax.lax.scan(step, start, jnp.arange(room))[1].T
