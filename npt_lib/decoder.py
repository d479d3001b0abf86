"""The decoder block and the stack of them: chapter 8."""

from typing import Any

import numpy as np

from npt_lib.config import Config
from npt_lib.module import Array, Backward, Module, Rng
from npt_lib.multi_head_attention import (
    check_blocks,
    start_cross,
    start_self,
    step_cross,
    step_self,
)
from npt_lib.norm import norm_order


class DecoderBlock(Module):
    """Self-attention, attention to the encoder's output, a feed-forward network.

    x is (B, T, D), memory (B, S, D), y (B, T, D). mask is for x, memory_mask for memory.
    Dropout acts when rng is given. Post-norm; config.pre_norm normalises the inputs instead.
    Backward: returns dx, dmemory. Built in chapter 8.
    """

    def __init__(self, config: Config, rng: Rng):
        self.pre_norm = config.pre_norm
        self.attn = config.make_self_attention(rng)
        self.cross = config.make_cross_attention(rng)
        self.ffn = config.make_feed_forward(rng)
        self.norm1, self.norm2 = config.make_norm(), config.make_norm()
        self.norm3 = config.make_norm()
        self.drop = config.make_dropout()

    def forward(
        self,
        x: Array,
        memory: Array,
        mask: Array | None = None,
        memory_mask: Array | None = None,
        rng: Rng | None = None,
    ) -> tuple[Array, Backward]:
        before, after = norm_order(self.pre_norm)
        h, before1_backward = before(self.norm1, x)
        h, attn_backward = self.attn.forward(h, mask, rng)
        h, drop1_backward = self.drop.forward(h, rng)
        a, after1_backward = after(self.norm1, x + h)
        h, before2_backward = before(self.norm2, a)
        h, cross_backward = self.cross.forward(h, memory, memory_mask, rng)
        h, drop2_backward = self.drop.forward(h, rng)
        c, after2_backward = after(self.norm2, a + h)
        h, before3_backward = before(self.norm3, c)
        h, ffn_backward = self.ffn.forward(h, rng)
        h, drop3_backward = self.drop.forward(h, rng)
        y, after3_backward = after(self.norm3, c + h)

        def backward(dy: Array) -> tuple[Array, Array]:
            du = after3_backward(dy)                          # u is the sum x + h, a + h, c + h
            dc = du + before3_backward(ffn_backward(drop3_backward(du)))
            du = after2_backward(dc)
            dh, dmemory = cross_backward(drop2_backward(du))
            da = du + before2_backward(dh)
            du = after1_backward(da)
            return du + before1_backward(attn_backward(drop1_backward(du))), dmemory

        return y, backward

    def start(self, memory: Array, memory_mask: Array | None, max_len: int) -> "BlockCache":
        """An empty past with room for max_len positions, and what there is to see of memory."""
        return BlockCache(start_self(self.attn, len(memory), max_len),
                          start_cross(self.cross, memory, memory_mask))

    def step(self, x: Array, cache: "BlockCache") -> Array:
        """The next positions alone, (B, T, D): forward without dropout and without a way back."""
        before, after = norm_order(self.pre_norm)
        h, _ = before(self.norm1, x)
        a, _ = after(self.norm1, x + step_self(self.attn, h, cache.past))
        h, _ = before(self.norm2, a)
        c, _ = after(self.norm2, a + step_cross(self.cross, h, cache.memory))
        h, _ = before(self.norm3, c)
        y, _ = after(self.norm3, c + self.ffn(h))
        return y


class BlockCache:
    """What one block keeps while decoding: of its own past, and of the memory."""

    def __init__(self, past: Any, memory: Any):
        self.past, self.memory = past, memory

    def select(self, rows: Array) -> None:
        """Keep these rows, in this order; a row may appear several times."""
        self.past.select(rows)
        self.memory.select(rows)


class Decoder(Module):
    """A stack of decoder blocks that all read the same memory.

    x is (B, T, D), memory (B, S, D), y (B, T, D).
    Backward: returns dx, dmemory; the memory's gradient adds up over the blocks.
    Built in chapter 8.
    """

    def __init__(self, config: Config, rng: Rng):
        n_blocks = config.n_decoder_layers or config.n_layers
        self.blocks = [DecoderBlock(config, rng) for _ in range(n_blocks)]
        self.norm = config.make_final_norm()

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

    def start(self, memory: Array, memory_mask: Array | None, max_len: int) -> list[BlockCache]:
        """What each block keeps while the model writes up to max_len tokens."""
        check_blocks([self, *self.blocks])
        return [block.start(memory, memory_mask, max_len) for block in self.blocks]

    def step(self, x: Array, caches: list[BlockCache]) -> Array:
        """The next positions alone, (B, T, D), through all blocks."""
        for block, cache in zip(self.blocks, caches, strict=True):
            x = block.step(x, cache)
        return self.norm(x) if self.norm else x
