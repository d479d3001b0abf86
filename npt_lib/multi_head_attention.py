"""Many attentions side by side, on projections of their own: chapter 3."""

from typing import Any

import numpy as np

from npt_lib.dot_product_attention import attention, attention_at_once, causal_mask
from npt_lib.layers import Linear
from npt_lib.module import Array, Backward, Module, Rng
from npt_lib.norm import Dropout
from npt_lib.require import check_attention, check_axes, check_count, check_heads, check_sequence


def split_heads(x: Array, n_heads: int) -> Array:
    """(B, T, D) to (B, H, T, K): a view, nothing is copied."""
    check_axes("split_heads", x, "(B, T, D)")
    B, T, D = x.shape
    check_heads(D, n_heads)
    return x.reshape(B, T, n_heads, D // n_heads).swapaxes(1, 2)


def split_parts(x: Array, n_parts: int, n_heads: int) -> list[Array]:
    """A fused projection (B, T, parts * D) to its parts, each (B, H, T, K); views as well."""
    B, T, width = x.shape
    parts = x.reshape(B, T, n_parts, n_heads, width // (n_parts * n_heads))
    return list(parts.transpose(2, 0, 3, 1, 4))


def merge_heads(*parts: Array) -> Array:
    """(B, H, T, K) to (B, T, D), the reverse of split_heads; several parts end up side by side."""
    if not parts:
        raise ValueError("merge_heads needs at least one part, got none.")
    for part in parts:
        check_axes("merge_heads", part, "(B, H, T, K)")
        if part.shape != parts[0].shape:
            raise ValueError(f"merge_heads needs parts of one shape, "
                             f"got {parts[0].shape} and {part.shape}.")
    B, H, T, K = parts[0].shape
    side_by_side = np.empty((B, T, len(parts), H, K), parts[0].dtype)
    for i, part in enumerate(parts):
        side_by_side[:, :, i] = part.swapaxes(1, 2)
    return side_by_side.reshape(B, T, len(parts) * H * K)


class KVCache:
    """The keys and values of all positions so far, for writing without computing them again.

    Room for max_len positions is taken once, so growing copies nothing. Built in chapter 9.
    """

    def __init__(self, n_rows: int, n_heads: int, max_len: int, d_head: int, dtype: np.dtype):
        n_rows, max_len = check_count("n_rows", n_rows, 0), check_count("max_len", max_len, 0)
        shape = n_rows, n_heads, max_len, d_head
        self.keys, self.values, self.length = np.empty(shape, dtype), np.empty(shape, dtype), 0

    def append(self, k: Array, v: Array) -> tuple[Array, Array]:
        """Store the next positions; returns the keys and values up to and with them, as views."""
        B, H, max_len, K = self.keys.shape
        for name, x in (("k", k), ("v", v)):
            check_axes(name, x, "(B, H, T, K)")
        if k.shape != v.shape or k.shape != (B, H, k.shape[-2], K):
            raise ValueError(f"k and v must be (B, H, T, K) for a cache of {self.keys.shape}, "
                             f"got {k.shape} and {v.shape}.")
        start, n = self.length, self.length + k.shape[2]
        if n > max_len:
            raise ValueError(f"{n} tokens, but max_len={max_len}.")
        self.keys[:, :, start:n], self.values[:, :, start:n] = k, v
        self.length = n
        return self.keys[:, :, :n], self.values[:, :, :n]

    def select(self, rows: Array) -> None:
        """Keep these rows, in this order; a row may appear several times."""
        self.keys, self.values = self.keys[rows], self.values[rows]


class SelfAttention(Module):
    """Multi-head attention of a sequence to itself; queries, keys and values from one matmul.

    x is (B, T, D), and so is y; mask broadcasts to (B, H, T, T). A head is d_head wide, D / H if
    not given. dropout is of the weights, and acts when rng is given.
    Backward: returns dx. Built in chapter 3.
    """

    def __init__(
        self, d_model: int, n_heads: int, rng: Rng,
        d_head: int | None = None, bias: bool = True, dropout: float = 0.0,
    ):
        self.n_heads, self.d_head = head_sizes(d_model, n_heads, d_head)
        d_heads = self.n_heads * self.d_head
        self.qkv = Linear(d_model, 3 * d_heads, rng, bias)
        self.out = Linear(d_heads, d_model, rng, bias)
        self.drop = Dropout(dropout)

    def forward(
        self, x: Array, mask: Array | None = None, rng: Rng | None = None
    ) -> tuple[Array, Backward]:
        check_sequence("SelfAttention", x, self.out.W.shape[1])
        qkv, qkv_backward = self.qkv.forward(x)                   # (B, T, 3HK)
        q, k, v = split_parts(qkv, 3, self.n_heads)               # each (B, H, T, K)
        heads, attention_backward = attention(q, k, v, mask, on_weights(self.drop, rng))
        y, out_backward = self.out.forward(merge_heads(heads))    # (B, T, D)

        def backward(dy: Array) -> Array:
            dheads = split_heads(out_backward(dy), self.n_heads)  # (B, H, T, K)
            dq, dk, dv = attention_backward(dheads)
            return qkv_backward(merge_heads(dq, dk, dv))          # (B, T, D)

        return y, backward

    def start(self, n_rows: int, max_len: int) -> KVCache:
        """An empty cache, with room for max_len positions."""
        return KVCache(n_rows, self.n_heads, max_len, self.d_head, self.out.W.value.dtype)

    def step(self, x: Array, cache: KVCache) -> Array:
        """The next positions alone, (B, T, D): each attends to the cache and, of x, to what is not
        after it.
        """
        check_sequence("SelfAttention", x, self.out.W.shape[1])
        q, k, v = split_parts(self.qkv(x), 3, self.n_heads)
        keys, values = cache.append(k, v)
        T, S = q.shape[2], keys.shape[2]
        mask = np.tri(T, S, S - T, dtype=bool) if T > 1 else None   # T at the end of S
        heads, _ = attention_at_once(q, keys, values, mask)
        return self.out(one_row(heads) if T == 1 else merge_heads(heads))


class CrossAttention(Module):
    """Multi-head attention of one sequence to another: queries from x, the rest from memory.

    x is (B, T, D), memory (B, S, D), y (B, T, D); mask broadcasts to (B, H, T, S). A head is
    d_head wide, D / H if not given. dropout is of the weights, and acts when rng is given.
    Backward: returns dx, dmemory. Built in chapter 3.
    """

    def __init__(
        self, d_model: int, n_heads: int, rng: Rng,
        d_head: int | None = None, bias: bool = True, dropout: float = 0.0,
    ):
        self.n_heads, self.d_head = head_sizes(d_model, n_heads, d_head)
        d_heads = self.n_heads * self.d_head
        self.q = Linear(d_model, d_heads, rng, bias)
        self.kv = Linear(d_model, 2 * d_heads, rng, bias)
        self.out = Linear(d_heads, d_model, rng, bias)
        self.drop = Dropout(dropout)

    def forward(
        self, x: Array, memory: Array, mask: Array | None = None, rng: Rng | None = None
    ) -> tuple[Array, Backward]:
        check_sequence("CrossAttention", x, self.out.W.shape[1])
        check_sequence("CrossAttention's memory", memory, self.out.W.shape[1])
        if len(x) != len(memory):
            raise ValueError(f"x and memory need equally many rows, got {len(x)}, {len(memory)}.")
        q, q_backward = self.q.forward(x)                         # (B, T, HK)
        kv, kv_backward = self.kv.forward(memory)                 # (B, S, 2HK)
        k, v = split_parts(kv, 2, self.n_heads)                   # each (B, H, S, K)
        heads, attention_backward = attention(
            split_heads(q, self.n_heads), k, v, mask, on_weights(self.drop, rng))
        y, out_backward = self.out.forward(merge_heads(heads))    # (B, T, D)

        def backward(dy: Array) -> tuple[Array, Array]:
            dheads = split_heads(out_backward(dy), self.n_heads)  # (B, H, T, K)
            dq, dk, dv = attention_backward(dheads)
            dmemory = kv_backward(merge_heads(dk, dv))            # (B, S, D)
            dx = q_backward(merge_heads(dq))                      # (B, T, D)
            return dx, dmemory

        return y, backward

    def start(self, memory: Array, mask: Array | None) -> "MemoryCache":
        """The keys and values of a memory, computed once for all that will be written."""
        check_sequence("CrossAttention's memory", memory, self.out.W.shape[1])
        keys, values = split_parts(self.kv(memory), 2, self.n_heads)
        check_attention(keys[..., :1, :], keys, values, mask)     # of one position at a time
        return MemoryCache(keys, values, mask)

    def step(self, x: Array, cache: "MemoryCache") -> Array:
        """The next positions alone, (B, T, D)."""
        q = split_heads(self.q(x), self.n_heads)
        heads, _ = attention_at_once(q, cache.keys, cache.values, cache.mask)
        return self.out(one_row(heads) if q.shape[2] == 1 else merge_heads(heads))


class MemoryCache:
    """The keys and values of a memory, each (B, H, S, K), and its mask."""

    def __init__(self, keys: Array, values: Array, mask: Array | None):
        self.keys, self.values, self.mask = keys, values, mask

    def select(self, rows: Array) -> None:
        """Keep these rows, in this order; a row may appear several times."""
        self.keys, self.values = self.keys[rows], self.values[rows]
        self.mask = select_mask(self.mask, rows)


# an attention that has a forward only can write as well: it computes everything again

class InputCache:
    """All inputs so far, for a self-attention without ``step``; or a memory and its mask."""

    def __init__(self, x: Array | None, mask: Array | None = None):
        self.x, self.mask = x, mask

    def append(self, x: Array) -> Array:
        self.x = x if self.x is None else np.concatenate([self.x, x], axis=1)
        return self.x

    def select(self, rows: Array) -> None:
        """Keep these rows, in this order; a row may appear several times."""
        self.x = None if self.x is None else self.x[rows]
        self.mask = select_mask(self.mask, rows)


def has_step(module: Any) -> bool:
    """Whether a part's ``step`` belongs to its ``forward``: no subclass has changed that alone."""
    for kind in type(module).__mro__:
        if "step" in vars(kind) or "forward" in vars(kind):
            return "step" in vars(kind)
    return hasattr(module, "step")


def start_self(attn: Any, n_rows: int, max_len: int) -> Any:
    """What a self-attention keeps while it writes."""
    return attn.start(n_rows, max_len) if has_step(attn) else InputCache(None)


def step_self(attn: Any, x: Array, cache: Any) -> Array:
    """The next positions alone, by the attention's own ``step`` if it has one."""
    if has_step(attn):
        return attn.step(x, cache)
    everything = cache.append(x)
    return attn(everything, causal_mask(everything.shape[1]))[:, -x.shape[1]:]


def start_cross(attn: Any, memory: Array, mask: Array | None) -> Any:
    """What a cross-attention keeps while the model writes."""
    return attn.start(memory, mask) if has_step(attn) else InputCache(memory, mask)


def step_cross(attn: Any, x: Array, cache: Any) -> Array:
    """The next positions alone, by the attention's own ``step`` if it has one."""
    return attn.step(x, cache) if has_step(attn) else attn(x, cache.x, cache.mask)


def check_blocks(blocks: list[Any]) -> None:
    """Refuse to write with a block, stack or model whose step does not do what its forward does."""
    for block in blocks:
        if not has_step(block):
            raise ValueError(f"{type(block).__name__} has a forward of its own, so it needs a step "
                             f"of its own to write.")


def select_mask(mask: Array | None, rows: Array) -> Array | None:
    """These rows of a mask (B, H, T, S); one that all rows share stays as it is."""
    return mask if mask is None or mask.ndim < 4 or len(mask) == 1 else mask[rows]


def head_sizes(d_model: int, n_heads: int, d_head: int | None) -> tuple[int, int]:
    """The number of heads and the width of each: an equal part of d_model if not given."""
    if d_head is None:
        check_heads(d_model, n_heads)
        d_head = d_model // n_heads
    return check_count("n_heads", n_heads), check_count("d_head", d_head)


def on_weights(drop: Dropout, rng: Rng | None) -> Any:
    """Dropout of weights, as attention takes it; None where it does nothing."""
    return None if rng is None or drop.p == 0 else lambda w: drop.forward(w, rng)


def one_row(heads: Array) -> Array:
    """Heads of a single position, (B, H, 1, K), to (B, 1, HK): they lie side by side already."""
    B, H, _, K = heads.shape
    return heads.reshape(B, 1, H * K)
