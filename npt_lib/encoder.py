"""The encoder block (chapter 6) and the stack of them (chapter 7)."""

from npt_lib.config import Config
from npt_lib.feed_forward import FeedForward
from npt_lib.module import Array, Backward, Module, Rng
from npt_lib.multihead import SelfAttention
from npt_lib.norm import Dropout, LayerNorm


class EncoderBlock(Module):
    """Self-attention, then a feed-forward network, each added to its input and normalised.

    x is (B, T, D), and so is y. Dropout acts when rng is given. Post-norm as in the paper;
    with config.pre_norm each part normalises its input instead.
    Backward: returns dx. Built in chapter 6.
    """

    def __init__(self, config: Config, rng: Rng):
        self.pre_norm = config.pre_norm
        self.attn = SelfAttention(config.d_model, config.n_heads, rng)
        self.ffn = FeedForward(config.d_model, config.d_ff, rng, config.activation)
        self.norm1, self.norm2 = LayerNorm(config.d_model), LayerNorm(config.d_model)
        self.drop = Dropout(config.dropout)              # one object, used twice: it holds no state

    def forward(
        self, x: Array, mask: Array | None = None, rng: Rng | None = None
    ) -> tuple[Array, Backward]:
        return (self._pre_norm if self.pre_norm else self._post_norm)(x, mask, rng)

    def _post_norm(
        self, x: Array, mask: Array | None, rng: Rng | None
    ) -> tuple[Array, Backward]:
        h, attn_backward = self.attn.forward(x, mask)
        h, drop1_backward = self.drop.forward(h, rng)
        a, norm1_backward = self.norm1.forward(x + h)
        h, ffn_backward = self.ffn.forward(a)
        h, drop2_backward = self.drop.forward(h, rng)
        y, norm2_backward = self.norm2.forward(a + h)

        def backward(dy: Array) -> Array:
            da = norm2_backward(dy)
            da = da + ffn_backward(drop2_backward(da))
            dx = norm1_backward(da)
            return dx + attn_backward(drop1_backward(dx))

        return y, backward

    def _pre_norm(
        self, x: Array, mask: Array | None, rng: Rng | None
    ) -> tuple[Array, Backward]:
        h, norm1_backward = self.norm1.forward(x)
        h, attn_backward = self.attn.forward(h, mask)
        h, drop1_backward = self.drop.forward(h, rng)
        a = x + h
        h, norm2_backward = self.norm2.forward(a)
        h, ffn_backward = self.ffn.forward(h)
        h, drop2_backward = self.drop.forward(h, rng)
        y = a + h

        def backward(dy: Array) -> Array:
            da = dy + norm2_backward(ffn_backward(drop2_backward(dy)))
            return da + norm1_backward(attn_backward(drop1_backward(da)))

        return y, backward


class Encoder(Module):
    """A stack of encoder blocks, each reading what the one below wrote.

    x is (B, T, D), and so is y. Pre-norm stacks end in a LayerNorm, since no block does.
    Backward: returns dx, through the blocks in reverse. Built in chapter 7.
    """

    def __init__(self, config: Config, rng: Rng):
        self.blocks = [EncoderBlock(config, rng) for _ in range(config.n_layers)]
        self.norm = LayerNorm(config.d_model) if config.pre_norm else None

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
