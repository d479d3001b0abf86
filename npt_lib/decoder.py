"""The decoder block and the stack of them: chapter 8."""

import numpy as np

from npt_lib.config import Config
from npt_lib.feed_forward import FeedForward
from npt_lib.module import Array, Backward, Module, Rng
from npt_lib.multihead import CrossAttention, KVCache, SelfAttention
from npt_lib.norm import Dropout, LayerNorm


class DecoderBlock(Module):
    """Self-attention, attention to the encoder's output, a feed-forward network.

    x is (B, T, D), memory (B, S, D), y (B, T, D). mask is for x, memory_mask for memory.
    Dropout acts when rng is given. Post-norm; config.pre_norm normalises the inputs instead.
    Backward: returns dx, dmemory. Built in chapter 8.
    """

    def __init__(self, config: Config, rng: Rng):
        self.pre_norm = config.pre_norm
        self.attn = SelfAttention(config.d_model, config.n_heads, rng)
        self.cross = CrossAttention(config.d_model, config.n_heads, rng)
        self.ffn = FeedForward(config.d_model, config.d_ff, rng, config.activation)
        self.norm1, self.norm2 = LayerNorm(config.d_model), LayerNorm(config.d_model)
        self.norm3 = LayerNorm(config.d_model)
        self.drop = Dropout(config.dropout)

    def forward(
        self,
        x: Array,
        memory: Array,
        mask: Array | None = None,
        memory_mask: Array | None = None,
        rng: Rng | None = None,
    ) -> tuple[Array, Backward]:
        run = self._pre_norm if self.pre_norm else self._post_norm
        return run(x, memory, mask, memory_mask, rng)

    def _post_norm(
        self, x: Array, memory: Array, mask: Array | None,
        memory_mask: Array | None, rng: Rng | None,
    ) -> tuple[Array, Backward]:
        h, attn_backward = self.attn.forward(x, mask)
        h, drop1_backward = self.drop.forward(h, rng)
        a, norm1_backward = self.norm1.forward(x + h)
        h, cross_backward = self.cross.forward(a, memory, memory_mask)
        h, drop2_backward = self.drop.forward(h, rng)
        c, norm2_backward = self.norm2.forward(a + h)
        h, ffn_backward = self.ffn.forward(c)
        h, drop3_backward = self.drop.forward(h, rng)
        y, norm3_backward = self.norm3.forward(c + h)

        def backward(dy: Array) -> tuple[Array, Array]:
            dc = norm3_backward(dy)
            dc = dc + ffn_backward(drop3_backward(dc))
            da = norm2_backward(dc)
            dh, dmemory = cross_backward(drop2_backward(da))
            dx = norm1_backward(da + dh)
            return dx + attn_backward(drop1_backward(dx)), dmemory

        return y, backward

    def _pre_norm(
        self, x: Array, memory: Array, mask: Array | None,
        memory_mask: Array | None, rng: Rng | None,
    ) -> tuple[Array, Backward]:
        h, norm1_backward = self.norm1.forward(x)
        h, attn_backward = self.attn.forward(h, mask)
        h, drop1_backward = self.drop.forward(h, rng)
        a = x + h
        h, norm2_backward = self.norm2.forward(a)
        h, cross_backward = self.cross.forward(h, memory, memory_mask)
        h, drop2_backward = self.drop.forward(h, rng)
        c = a + h
        h, norm3_backward = self.norm3.forward(c)
        h, ffn_backward = self.ffn.forward(h)
        h, drop3_backward = self.drop.forward(h, rng)
        y = c + h

        def backward(dy: Array) -> tuple[Array, Array]:
            dc = dy + norm3_backward(ffn_backward(drop3_backward(dy)))
            dh, dmemory = cross_backward(drop2_backward(dc))
            da = dc + norm2_backward(dh)
            return da + norm1_backward(attn_backward(drop1_backward(da))), dmemory

        return y, backward

    def step(self, x: Array, cache: "BlockCache", memory_mask: Array | None) -> Array:
        """The newest position alone, (B, 1, D): forward without dropout and without a way back."""
        if self.pre_norm:
            a = x + self.attn.step(self.norm1(x), cache.past)
            c = a + self.cross.step(self.norm2(a), cache.k, cache.v, memory_mask)
            return c + self.ffn(self.norm3(c))
        a = self.norm1(x + self.attn.step(x, cache.past))
        c = self.norm2(a + self.cross.step(a, cache.k, cache.v, memory_mask))
        return self.norm3(c + self.ffn(c))


class BlockCache:
    """What one block keeps while decoding: its own past, and the memory's keys and values."""

    def __init__(self, past: KVCache, k: Array, v: Array):
        self.past, self.k, self.v = past, k, v

    def select(self, rows: Array) -> None:
        """Keep these rows, in this order; a row may appear several times."""
        self.past.select(rows)
        self.k, self.v = self.k[rows], self.v[rows]


class Decoder(Module):
    """A stack of decoder blocks that all read the same memory.

    x is (B, T, D), memory (B, S, D), y (B, T, D).
    Backward: returns dx, dmemory; the memory's gradient adds up over the blocks.
    Built in chapter 8.
    """

    def __init__(self, config: Config, rng: Rng):
        self.blocks = [DecoderBlock(config, rng) for _ in range(config.n_layers)]
        self.norm = LayerNorm(config.d_model) if config.pre_norm else None

    def forward(
        self,
        x: Array,
        memory: Array,
        mask: Array | None = None,
        memory_mask: Array | None = None,
        rng: Rng | None = None,
    ) -> tuple[Array, Backward]:
        block_backwards = []
        for block in self.blocks:
            x, block_backward = block.forward(x, memory, mask, memory_mask, rng)
            block_backwards.append(block_backward)
        y, norm_backward = self.norm.forward(x) if self.norm else (x, lambda dy: dy)

        def backward(dy: Array) -> tuple[Array, Array]:
            dx = norm_backward(dy)
            dmemory = np.zeros_like(memory)
            for undo in reversed(block_backwards):
                dx, dm = undo(dx)
                dmemory = dmemory + dm
            return dx, dmemory

        return y, backward

    def start(self, memory: Array, max_len: int) -> list[BlockCache]:
        """For each block an empty past with room for max_len, and the memory's keys and values."""
        B, _, D = memory.shape
        caches = []
        for block in self.blocks:
            H = block.attn.n_heads
            past = KVCache(B, H, max_len, D // H, memory.dtype)
            caches.append(BlockCache(past, *block.cross.remember(memory)))
        return caches

    def step(self, x: Array, caches: list[BlockCache], memory_mask: Array | None) -> Array:
        """The newest position alone, (B, 1, D), through all blocks."""
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block.step(x, cache, memory_mask)
        return self.norm(x) if self.norm else x
