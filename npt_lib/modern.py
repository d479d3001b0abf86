"""What models are made of today: RMSNorm, positions by turning, gates, shared keys. Chapter 12."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from npt_lib.config import Config
from npt_lib.dot_product_attention import attention, attention_at_once
from npt_lib.feed_forward import FeedForward
from npt_lib.gpt import GPT_2, GPTConfig
from npt_lib.layers import Linear, normal, sum_rows
from npt_lib.module import Array, Backward, Module, Parameter, Rng
from npt_lib.multi_head_attention import (
    KVCache,
    head_sizes,
    merge_heads,
    on_weights,
    split_heads,
    split_parts,
)
from npt_lib.norm import Dropout, LayerNorm, row_mean
from npt_lib.require import (
    check_axes,
    check_callable,
    check_count,
    check_dy,
    check_flag,
    check_floats,
    check_has,
    check_kind,
    check_length,
    check_positive,
    check_sequence,
    check_width,
)


class RMSNorm(Module):
    """Each vector is divided by its root mean square, then scaled by a learned gain.

    x is (..., D), and so is y: a LayerNorm without the mean and without the bias.
    Backward: returns dx, by two paths: directly, and through the root mean square.
    Built and derived in chapter 12.
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        D = check_count("d_model", d_model)
        self.eps = check_positive("eps", eps)
        self.gain = Parameter(np.ones(D, np.float32))

    def forward(self, x: Array) -> tuple[Array, Backward]:
        gain = self.gain.value
        D = gain.shape[0]
        check_width("RMSNorm", x, D)
        rms = np.sqrt(row_mean(x, x) + self.eps)                      # (..., 1)
        n = x / rms

        def backward(dy: Array) -> Array:
            check_dy("RMSNorm", dy, n.shape)
            self.gain.add_grad(sum_rows((dy * n).reshape(-1, D)))
            dx = dy * gain
            dx -= n * row_mean(dx, n)
            dx /= rms
            return dx

        return n * gain, backward


class Rotary(Module):
    """Turns each pair of numbers of a vector by an angle that grows with its position.

    x is (..., T, K), and so is y; start is the position of x's first vector. Number i makes a pair
    with number i + K / 2; the first pair turns by 1 a position, the last by base ** (2 / K) / base.
    Nothing is learned. Of two positions, a match of turned vectors knows only the difference.
    Backward: turns dy back. Built in chapter 12.
    """

    def __init__(self, max_len: int, d_head: int, base: float = 10000.0):
        n, K = check_count("max_len", max_len), check_count("d_head", d_head)
        if K % 2:
            raise ValueError(f"Rotary turns pairs: d_head must be even, got {K}.")
        rates = check_positive("base", base) ** (-np.arange(0, K, 2) / K)      # (K/2,)
        angles = np.arange(n)[:, None] * rates                                 # (n, K/2)
        self.cos, self.sin = np.cos(angles), np.sin(angles)

    def forward(self, x: Array, start: int = 0) -> tuple[Array, Backward]:
        check_width("Rotary", x, 2 * self.cos.shape[1])
        if x.ndim < 2:
            raise ValueError(f"Rotary needs x (..., T, K), got shape {x.shape}.")
        first = check_count("start", start, 0)
        stop = check_length(first + x.shape[-2], len(self.cos))
        cos, sin = (table[first:stop].astype(x.dtype) for table in (self.cos, self.sin))

        def backward(dy: Array) -> Array:
            return turn(dy, cos, -sin)

        return turn(x, cos, sin), backward


def turn(x: Array, cos: Array, sin: Array) -> Array:
    """Each pair (a, b) of x (..., T, K), half a vector apart, turned by the angle of its place."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    y = np.empty_like(x)
    y[..., :half] = a * cos - b * sin
    y[..., half:] = b * cos + a * sin
    return y


class RelativeBias(Module):
    """Adds a learned number to each score, one for each distance and head.

    scores is (B, H, T, S), and so is y. The queries are the last T of the S positions. Distances
    beyond ``far`` share the number of ``far``.
    Backward: returns dscores; a distance's number sums over all places that lie so far apart.
    Built in chapter 12.
    """

    def __init__(self, far: int, n_heads: int, rng: Rng):
        self.far = check_count("far", far)
        self.table = Parameter(normal((check_count("n_heads", n_heads), 2 * far + 1), 0.02, rng))

    def forward(self, scores: Array) -> tuple[Array, Backward]:
        check_axes("RelativeBias", scores, "(B, H, T, S)")
        table, (T, S) = self.table.value, scores.shape[-2:]
        if scores.shape[1] != len(table):
            raise ValueError(f"RelativeBias needs scores of {len(table)} heads, got "
                             f"shape {scores.shape}.")
        ahead = np.arange(S) - np.arange(S - T, S)[:, None]               # (T, S)
        place = np.clip(ahead, -self.far, self.far) + self.far

        def backward(dscores: Array) -> Array:
            each = dscores.sum(axis=0).reshape(len(table), -1)            # (H, T * S)
            self.table.add_grad(np.stack([
                np.bincount(place.ravel(), d, table.shape[1]) for d in each]).astype(table.dtype))
            return dscores

        return scores + table[:, place], backward


def silu(x: Array) -> tuple[Array, Backward]:
    """x / (1 + exp(-x)): nearly 0 on the far left, nearly x on the far right.

    Backward: returns dx. Built in chapter 12.
    """
    check_floats("silu", x)
    s = 0.5 * (1 + np.tanh(0.5 * x))                     # 1 / (1 + exp(-x)), and no overflow
    y = x * s

    def backward(dy: Array) -> Array:
        return dy * (s + y * (1 - s))

    return y, backward


class GatedFeedForward(Module):
    """Two linear layers whose outputs are multiplied, one of them as a gate; then a third.

    x is (..., D), and so is y: with silu for the gate, it is called SwiGLU. activation is a
    function x -> (y, backward).
    Backward: returns dx. Built in chapter 12.
    """

    def __init__(
        self, d_model: int, d_ff: int, rng: Rng,
        activation: Callable[[Array], tuple[Array, Backward]] = silu, bias: bool = False,
    ):
        check_callable("activation", activation)
        self.activation = activation
        self.gate_and_up = Linear(d_model, 2 * check_count("d_ff", d_ff), rng, bias)
        self.down = Linear(d_ff, d_model, rng, bias)

    def forward(self, x: Array, rng: Rng | None = None) -> tuple[Array, Backward]:
        F = self.down.W.shape[0]
        both, both_backward = self.gate_and_up.forward(x)             # (..., 2F)
        gate, gate_backward = self.activation(both[..., :F])
        up = both[..., F:]
        y, down_backward = self.down.forward(gate * up)               # (..., D)

        def backward(dy: Array) -> Array:
            dh = down_backward(dy)                                    # (..., F)
            dboth = np.empty(both.shape, both.dtype)
            dboth[..., :F] = gate_backward(dh * up)
            dboth[..., F:] = dh * gate
            return both_backward(dboth)

        return y, backward


class GroupedAttention(Module):
    """Self-attention whose heads share keys and values, in groups, and know their distances.

    x is (B, T, D), and so is y; mask broadcasts to (B, H, T, T). Each of n_kv_heads pairs of keys
    and values serves n_heads / n_kv_heads heads, so the cache is so many times smaller. rotary
    turns queries and keys; relative adds a number to each score; either may be None.
    Backward: returns dx; what shares a key adds up in it. Built in chapter 12.
    """

    def __init__(
        self, d_model: int, n_heads: int, rng: Rng, n_kv_heads: int | None = None,
        rotary: Module | None = None, relative: Module | None = None,
        d_head: int | None = None, bias: bool = True, dropout: float = 0.0,
    ):
        self.n_heads, self.d_head = head_sizes(d_model, n_heads, d_head)
        self.n_kv_heads = check_groups(self.n_heads, n_kv_heads)
        check_distances(self.n_heads, self.d_head, rotary, relative)
        self.q = Linear(d_model, self.n_heads * self.d_head, rng, bias)
        self.kv = Linear(d_model, 2 * self.n_kv_heads * self.d_head, rng, bias)
        self.out = Linear(self.n_heads * self.d_head, d_model, rng, bias)
        self.rotary, self.relative, self.drop = rotary, relative, Dropout(dropout)

    def forward(
        self, x: Array, mask: Array | None = None, rng: Rng | None = None
    ) -> tuple[Array, Backward]:
        check_sequence("GroupedAttention", x, self.out.W.shape[1])
        q, q_backward = self.q.forward(x)                         # (B, T, HK)
        kv, kv_backward = self.kv.forward(x)                      # (B, T, 2GK)
        k, v = split_parts(kv, 2, self.n_kv_heads)                # each (B, G, T, K)
        q, turn_q_backward = self._turned(split_heads(q, self.n_heads))
        k, turn_k_backward = self._turned(k)
        ks, share_k_backward = share(k, self.n_heads)             # each (B, H, T, K)
        vs, share_v_backward = share(v, self.n_heads)
        shift = self.relative.forward if self.relative else None
        heads, attention_backward = attention(
            q, ks, vs, mask, on_weights(self.drop, rng), shift)
        y, out_backward = self.out.forward(merge_heads(heads))    # (B, T, D)

        def backward(dy: Array) -> Array:
            dheads = split_heads(out_backward(dy), self.n_heads)  # (B, H, T, K)
            dq, dks, dvs = attention_backward(dheads)
            dk, dv = turn_k_backward(share_k_backward(dks)), share_v_backward(dvs)
            dx = q_backward(merge_heads(turn_q_backward(dq)))     # (B, T, D)
            return dx + kv_backward(merge_heads(dk, dv))

        return y, backward

    def start(self, n_rows: int, max_len: int) -> KVCache:
        """An empty cache, with room for max_len positions."""
        return KVCache(n_rows, self.n_kv_heads, max_len, self.d_head, self.out.W.value.dtype)

    def step(self, x: Array, cache: KVCache) -> Array:
        """The next positions alone, (B, T, D): they attend to the cache and to themselves.

        The queries of one group are more queries of the same keys: nothing is copied.
        """
        check_sequence("GroupedAttention", x, self.out.W.shape[1])
        k, v = split_parts(self.kv(x), 2, self.n_kv_heads)
        q, _ = self._turned(split_heads(self.q(x), self.n_heads), cache.length)
        k, _ = self._turned(k, cache.length)
        keys, values = cache.append(k, v)
        (B, H, T, K), (_, G, S, _) = q.shape, keys.shape
        past = np.tri(T, S, S - T, dtype=bool)                    # T at the end of S
        if self.relative:
            ks, vs = share(keys, H)[0], share(values, H)[0]
            heads, _ = attention_at_once(q, ks, vs, past, shift=self.relative.forward)
        else:
            group = q.reshape(B, G, H // G * T, K)
            masks = np.tile(past, (H // G, 1)) if T > 1 else None
            heads = attention_at_once(group, keys, values, masks)[0].reshape(q.shape)
        return self.out(merge_heads(heads))

    def _turned(self, x: Array, start: int = 0) -> tuple[Array, Backward]:
        return self.rotary.forward(x, start) if self.rotary else (x, lambda dy: dy)


def share(x: Array, n_heads: int) -> tuple[Array, Backward]:
    """Keys or values (B, G, S, K) for all heads, (B, H, S, K): each serves H / G of them.

    Backward: adds up what the heads of a group return.
    """
    B, G, S, K = x.shape
    if n_heads == G:
        return x, lambda dy: dy

    def backward(dy: Array) -> Array:
        return dy.reshape(B, G, n_heads // G, S, K).sum(axis=2)

    return np.repeat(x, n_heads // G, axis=1), backward


def check_groups(n_heads: int, n_kv_heads: int | None) -> int:
    """How many heads of keys and values there are: as many as heads if None."""
    n_kv_heads = n_heads if n_kv_heads is None else check_count("n_kv_heads", n_kv_heads)
    if n_heads % n_kv_heads:
        raise ValueError(f"n_heads={n_heads} must be divisible by n_kv_heads={n_kv_heads}.")
    return n_kv_heads


def check_distances(n_heads: int, d_head: int, rotary: Any, relative: Any) -> None:
    """Refuse what knows distances of other heads than these; a reader's own knows its sizes."""
    for name, part in (("rotary", rotary), ("relative", relative)):
        if part is not None:
            check_has(name, part, ("forward",))
    if isinstance(rotary, Rotary) and 2 * rotary.cos.shape[1] != d_head:
        raise ValueError(f"rotary must turn heads of width {d_head}, got a Rotary of width "
                         f"{2 * rotary.cos.shape[1]}.")
    if isinstance(relative, RelativeBias) and len(relative.table.value) != n_heads:
        raise ValueError(f"relative must be of {n_heads} heads, got a RelativeBias of "
                         f"{len(relative.table.value)}.")


class NoPositions(Module):
    """Adds nothing: for models whose attention knows the distances.

    Backward: dy unchanged. Built in chapter 12.
    """

    def forward(self, x: Array, start: int = 0) -> tuple[Array, Backward]:
        check_floats("NoPositions", x)
        return x, lambda dy: dy


@dataclass(frozen=True)
class ModernConfig(GPTConfig):
    """A GPT whose parts can be exchanged for those of today, one at a time.

    norm: "layer" or "rms". positions: also "rotary", "relative" or "none". gated: a gate in the
    feed-forward network, SwiGLU, where activation does not count. n_kv_heads: heads of keys and
    values, n_heads if None. bias: of the linear layers. ``modern_config`` and ``llama_config``
    make one.
    """

    norm: str = "layer"
    gated: bool = False
    n_kv_heads: int | None = None
    bias: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.norm, str) or self.norm not in NORMS:
            raise ValueError(f"norm must be one of {sorted(NORMS)}, got {self.norm!r}.")
        for name in ("gated", "bias"):
            self._set(name, check_flag(name, getattr(self, name)))
        check_groups(self.n_heads, self.n_kv_heads)
        if self.pattern is not None:
            raise ValueError(f"pattern must be None: GroupedAttention has none, GPTConfig's "
                             f"attention has; got {self.pattern!r}.")
        d_head = self.d_model // self.n_heads
        if self.positions == "rotary" and d_head % 2:
            raise ValueError(f"positions='rotary' turns pairs: d_model / n_heads must be even, "
                             f"got {d_head}.")

    @staticmethod
    def known_positions() -> tuple[str, ...]:
        """What ``positions`` may be: added to the vectors, or known to the attention."""
        return *Config.known_positions(), "rotary", "relative", "none"

    def make_self_attention(self, rng: Rng) -> Module:
        rotary = relative = None
        if self.positions == "rotary":
            rotary = Rotary(self.max_len, self.d_model // self.n_heads)
        if self.positions == "relative":
            relative = RelativeBias(self.max_len - 1, self.n_heads, rng)
        return GroupedAttention(self.d_model, self.n_heads, rng, self.n_kv_heads, rotary, relative,
                                bias=self.bias, dropout=self.dropout)

    def make_feed_forward(self, rng: Rng) -> Module:
        if self.gated:
            return GatedFeedForward(self.d_model, self.d_ff, rng, bias=self.bias)
        return FeedForward(self.d_model, self.d_ff, rng, self.activation, self.bias)

    def make_norm(self) -> Module:
        return NORMS[self.norm](self.d_model)

    def make_positions(self, rng: Rng) -> Module:
        added = self.positions in Config.known_positions()
        return super().make_positions(rng) if added else NoPositions()


NORMS: dict[str, Callable[[int], Module]] = {"layer": LayerNorm, "rms": RMSNorm}


def modern_config(
    n_vocab: int, kind: type[ModernConfig] = ModernConfig, **options: Any
) -> ModernConfig:
    """GPT-2's choices, but for those that the options exchange; kind is as in ``gpt_config``."""
    return check_kind(kind, ModernConfig)(n_vocab, n_vocab, **(GPT_2 | options))


def llama_config(
    n_vocab: int, kind: type[ModernConfig] = ModernConfig, **options: Any
) -> ModernConfig:
    """Llama's choices: pre-norm with RMSNorm, turned positions, SwiGLU, no biases.

    options are those of ``ModernConfig``, sizes (n_kv_heads among them) or other choices. kind is
    the config's class: a subclass of ModernConfig whose ``make_…`` exchange parts.
    """
    return check_kind(kind, ModernConfig)(n_vocab, n_vocab, **(LLAMA | options))


LLAMA: dict[str, Any] = {"pre_norm": True, "norm": "rms", "positions": "rotary", "gated": True,
                         "bias": False, "scale_embeddings": False}
