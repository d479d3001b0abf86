"""The encoder block (chapter 6) and the stack of them (chapter 7)."""

from typing import Any

from npt_lib.config import Config
from npt_lib.module import Array, Backward, Module, Rng
from npt_lib.multi_head_attention import check_blocks, start_self, step_self
from npt_lib.norm import norm_order


class EncoderBlock(Module):
    """Self-attention, then a feed-forward network, each added to its input and normalised.

    x is (B, T, D), and so is y. Dropout acts when rng is given. Post-norm as in the paper: after
    the sum; with config.pre_norm each part normalises its input instead, before.
    Backward: returns dx. Built in chapter 6.
    """

    def __init__(self, config: Config, rng: Rng):
        self.pre_norm = config.pre_norm
        self.attn = config.make_self_attention(rng)
        self.ffn = config.make_feed_forward(rng)
        self.norm1, self.norm2 = config.make_norm(), config.make_norm()
        self.drop = config.make_dropout()              # one object, used twice: it holds no state

    def forward(
        self, x: Array, mask: Array | None = None, rng: Rng | None = None
    ) -> tuple[Array, Backward]:
        before, after = norm_order(self.pre_norm)
        h, before1_backward = before(self.norm1, x)
        h, attn_backward = self.attn.forward(h, mask, rng)
        h, drop1_backward = self.drop.forward(h, rng)
        a, after1_backward = after(self.norm1, x + h)
        h, before2_backward = before(self.norm2, a)
        h, ffn_backward = self.ffn.forward(h, rng)
        h, drop2_backward = self.drop.forward(h, rng)
        y, after2_backward = after(self.norm2, a + h)

        def backward(dy: Array) -> Array:
            du = after2_backward(dy)                          # u is the sum x + h, a + h
            da = du + before2_backward(ffn_backward(drop2_backward(du)))
            du = after1_backward(da)
            return du + before1_backward(attn_backward(drop1_backward(du)))

        return y, backward

    def start(self, n_rows: int, max_len: int) -> Any:
        """What the block keeps while a model without an encoder writes."""
        return start_self(self.attn, n_rows, max_len)

    def step(self, x: Array, past: Any) -> Array:
        """The next positions alone, (B, T, D): forward without dropout and without a way back."""
        before, after = norm_order(self.pre_norm)
        h, _ = before(self.norm1, x)
        a, _ = after(self.norm1, x + step_self(self.attn, h, past))
        h, _ = before(self.norm2, a)
        y, _ = after(self.norm2, a + self.ffn(h))
        return y


class Encoder(Module):
    """A stack of encoder blocks, each reading what the one below wrote.

    x is (B, T, D), and so is y. Pre-norm stacks end in a norm, since no block does.
    With a causal mask, it is the body of a model without an encoder, which writes by ``step``.
    Backward: returns dx, through the blocks in reverse. Built in chapter 7.
    """

    def __init__(self, config: Config, rng: Rng):
        self.blocks = [EncoderBlock(config, rng) for _ in range(config.n_layers)]
        self.norm = config.make_final_norm()

    def forward(
        self, x: Array, mask: Array | None = None, rng: Rng | None = None
    ) -> tuple[Array, Backward]:
        block_backwards = []
        for block in self.blocks:
            x, block_backward = block.forward(x, mask, rng)
            block_backwards.append(block_backward)
        y, norm_backward = self.norm.forward(x) if self.norm else (x, lambda dy: dy)

        def backward(dy: Array) -> Array:
            dx = norm_backward(dy)
            for undo in reversed(block_backwards):
                dx = undo(dx)
            return dx

        return y, backward

    def start(self, n_rows: int, max_len: int) -> list[Any]:
        """What each block keeps while a model without an encoder writes."""
        check_blocks([self, *self.blocks])
        return [block.start(n_rows, max_len) for block in self.blocks]

    def step(self, x: Array, pasts: list[Any]) -> Array:
        """The next positions alone, (B, T, D), through all blocks; each sees what came before."""
        for block, past in zip(self.blocks, pasts, strict=True):
            x = block.step(x, past)
        return self.norm(x) if self.norm else x
