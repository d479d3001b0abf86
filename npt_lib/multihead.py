"""Many attentions side by side, on projections of their own: chapter 3."""

import numpy as np

from npt_lib.attention import attention, whole
from npt_lib.layers import Linear
from npt_lib.module import Array, Backward, Module, Rng
from npt_lib.require import check_axes, check_heads, check_sequence


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
    """The keys and values of all positions so far, for decoding one token at a time.

    Room for max_len positions is taken once, so growing copies nothing. Built in chapter 9.
    """

    def __init__(self, n_rows: int, n_heads: int, max_len: int, d_head: int, dtype: np.dtype):
        self.keys = np.empty((n_rows, n_heads, max_len, d_head), dtype)
        self.values = np.empty((n_rows, n_heads, max_len, d_head), dtype)
        self.length = 0

    def append(self, k: Array, v: Array) -> tuple[Array, Array]:
        """Store one more position; returns the keys and values up to and with it, as views."""
        n = self.length + 1
        if n > self.keys.shape[2]:
            raise ValueError(f"{n} tokens, but max_len={self.keys.shape[2]}.")
        if k.shape != v.shape or k.shape != (*self.keys.shape[:2], 1, self.keys.shape[3]):
            raise ValueError(f"k and v must be (B, H, 1, K) for a cache of {self.keys.shape}, "
                             f"got {k.shape} and {v.shape}.")
        self.keys[:, :, n - 1:n], self.values[:, :, n - 1:n] = k, v
        self.length = n
        return self.keys[:, :, :n], self.values[:, :, :n]

    def select(self, rows: Array) -> None:
        """Keep these rows, in this order; a row may appear several times."""
        self.keys, self.values = self.keys[rows], self.values[rows]


class SelfAttention(Module):
    """Multi-head attention of a sequence to itself; queries, keys and values from one matmul.

    x is (B, T, D), and so is y; mask broadcasts to (B, H, T, T).
    Backward: returns dx. Built in chapter 3.
    """

    def __init__(self, d_model: int, n_heads: int, rng: Rng):
        check_heads(d_model, n_heads)
        self.n_heads = n_heads
        self.qkv = Linear(d_model, 3 * d_model, rng)
        self.out = Linear(d_model, d_model, rng)

    def forward(self, x: Array, mask: Array | None = None) -> tuple[Array, Backward]:
        check_sequence("SelfAttention", x, self.out.W.shape[0])
        qkv, qkv_backward = self.qkv.forward(x)                   # (B, T, 3D)
        q, k, v = split_parts(qkv, 3, self.n_heads)               # each (B, H, T, K)
        heads, attention_backward = attention(q, k, v, mask)      # (B, H, T, K)
        y, out_backward = self.out.forward(merge_heads(heads))    # (B, T, D)

        def backward(dy: Array) -> Array:
            dheads = split_heads(out_backward(dy), self.n_heads)  # (B, H, T, K)
            dq, dk, dv = attention_backward(dheads)
            return qkv_backward(merge_heads(dq, dk, dv))          # (B, T, D)

        return y, backward

    def step(self, x: Array, cache: KVCache) -> Array:
        """The newest position alone, (B, 1, D): it attends to all that the cache holds."""
        q, k, v = split_parts(self.qkv(x), 3, self.n_heads)
        heads, _ = whole(q, *cache.append(k, v))
        return self.out(heads.reshape(x.shape))     # of one position: they lie side by side


class CrossAttention(Module):
    """Multi-head attention of one sequence to another: queries from x, the rest from memory.

    x is (B, T, D), memory (B, S, D), y (B, T, D); mask broadcasts to (B, H, T, S).
    Backward: returns dx, dmemory. Built in chapter 3.
    """

    def __init__(self, d_model: int, n_heads: int, rng: Rng):
        check_heads(d_model, n_heads)
        self.n_heads = n_heads
        self.q = Linear(d_model, d_model, rng)
        self.kv = Linear(d_model, 2 * d_model, rng)
        self.out = Linear(d_model, d_model, rng)

    def forward(
        self, x: Array, memory: Array, mask: Array | None = None
    ) -> tuple[Array, Backward]:
        check_sequence("CrossAttention", x, self.out.W.shape[0])
        check_sequence("CrossAttention's memory", memory, self.out.W.shape[0])
        q, q_backward = self.q.forward(x)                         # (B, T, D)
        kv, kv_backward = self.kv.forward(memory)                 # (B, S, 2D)
        k, v = split_parts(kv, 2, self.n_heads)                   # each (B, H, S, K)
        heads, attention_backward = attention(split_heads(q, self.n_heads), k, v, mask)
        y, out_backward = self.out.forward(merge_heads(heads))    # (B, T, D)

        def backward(dy: Array) -> tuple[Array, Array]:
            dheads = split_heads(out_backward(dy), self.n_heads)  # (B, H, T, K)
            dq, dk, dv = attention_backward(dheads)
            dmemory = kv_backward(merge_heads(dk, dv))            # (B, S, D)
            dx = q_backward(merge_heads(dq))                      # (B, T, D)
            return dx, dmemory

        return y, backward

    def remember(self, memory: Array) -> list[Array]:
        """The keys and values of a memory, each (B, H, S, K): once for a whole decoding."""
        return split_parts(self.kv(memory), 2, self.n_heads)

    def step(self, x: Array, k: Array, v: Array, mask: Array | None = None) -> Array:
        """The newest position alone, (B, 1, D), over keys and values that were remembered."""
        heads, _ = whole(split_heads(self.q(x), self.n_heads), k, v, mask)
        return self.out(heads.reshape(x.shape))     # of one position: they lie side by side
