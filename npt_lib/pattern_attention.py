"""Self-attention in which a pattern says who sees whom, such as a window: chapter 13."""

import numpy as np

from npt_lib.dot_product_attention import attention_at_once
from npt_lib.long_attention import (
    Pattern,
    Window,
    attention_in_tiles,
    causal_view,
    check_pattern,
    pattern_table,
)
from npt_lib.module import Array, Backward, Rng
from npt_lib.multi_head_attention import (
    KVCache,
    SelfAttention,
    merge_heads,
    split_heads,
    split_parts,
)
from npt_lib.require import check_attention, check_length, check_sequence

SHORT = 1 << 16                # scores T * S, up to which all at once is quicker than in tiles


class PatternAttention(SelfAttention):
    """Self-attention, each position to those that its pattern shows it: ``Window(64)``, say.

    The parameters are SelfAttention's. A long sequence is read in tiles, so memory grows with its
    length, not with the square. mask, if given, hides more, such as padding. Weights have no
    dropout.
    Backward: returns dx. Built in chapter 13.
    """

    def __init__(
        self, d_model: int, n_heads: int, rng: Rng, pattern: Pattern,
        d_head: int | None = None, bias: bool = True,
    ):
        check_pattern(pattern)
        super().__init__(d_model, n_heads, rng, d_head, bias)
        self.pattern = pattern

    def forward(
        self, x: Array, mask: Array | None = None, rng: Rng | None = None
    ) -> tuple[Array, Backward]:
        check_sequence("PatternAttention", x, self.out.W.shape[1])
        qkv, qkv_backward = self.qkv.forward(x)                   # (B, T, 3HK)
        q, k, v = split_parts(qkv, 3, self.n_heads)               # each (B, H, T, K)
        heads, attention_backward = attention_under(self.pattern, q, k, v, mask)
        y, out_backward = self.out.forward(merge_heads(heads))    # (B, T, D)

        def backward(dy: Array) -> Array:
            dheads = split_heads(out_backward(dy), self.n_heads)  # (B, H, T, K)
            dq, dk, dv = attention_backward(dheads)
            return qkv_backward(merge_heads(dq, dk, dv))          # (B, T, D)

        return y, backward

    def start(self, n_rows: int, max_len: int) -> KVCache:
        """An empty cache; that of a window has room for what can still be seen.

        (Of a Window itself: a subclass may see more.)
        """
        width = self.pattern.width if type(self.pattern) is Window else None
        dtype = self.out.W.value.dtype
        if width is None or width >= max_len:
            return KVCache(n_rows, self.n_heads, max_len, self.d_head, dtype)
        return WindowCache(n_rows, self.n_heads, max_len, self.d_head, dtype, width)

    def step(self, x: Array, cache: KVCache) -> Array:
        """The next positions alone, (B, T, D): they attend to the cache and to themselves."""
        check_sequence("PatternAttention", x, self.out.W.shape[1])
        q, k, v = split_parts(self.qkv(x), 3, self.n_heads)
        keys, values = cache.append(k, v)
        past = causal_view(q.shape[2], keys.shape[2])
        heads, _ = attention_under(self.pattern, q, keys, values, past)
        return self.out(merge_heads(heads))


class WindowCache(KVCache):
    """The keys and values that a window's next position may see: the last width - 1 alone."""

    def __init__(
        self, n_rows: int, n_heads: int, max_len: int, d_head: int, dtype: np.dtype, width: int
    ):
        super().__init__(n_rows, n_heads, 0, d_head, dtype)
        self.width, self.max_len = width, max_len

    def append(self, k: Array, v: Array) -> tuple[Array, Array]:
        """Returns the keys and values that were kept and these; keeps the last of them."""
        self.length = check_length(self.length + k.shape[2], self.max_len)
        keys, values = (np.concatenate(x, axis=2) for x in ((self.keys, k), (self.values, v)))
        first = max(0, keys.shape[2] - self.width + 1)
        self.keys, self.values = keys[:, :, first:].copy(), values[:, :, first:].copy()
        return keys, values


def attention_under(
    pattern: Pattern, q: Array, k: Array, v: Array, mask: Array | None
) -> tuple[Array, Backward]:
    """Attention under a pattern: in tiles, or at once where it is short."""
    T, S = q.shape[-2], k.shape[-2]
    if T * S > SHORT:
        return attention_in_tiles(q, k, v, mask, pattern)
    check_attention(q, k, v, mask)
    seen = pattern_table(pattern, T, S)
    return attention_at_once(q, k, v, seen if mask is None else seen & mask)
