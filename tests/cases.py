"""One case for each differentiable thing in npt_lib: the gradient, contract and parity tests
run over this list, and fail if something public is missing from it.

Sizes are pairwise different, batches hold several rows, gains and biases are random, dropout is
on and masks hide something: convenient values have hidden wrong gradients before.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import npt_lib as npt

B, T, S, H, K, F, V = 3, 5, 6, 2, 4, 7, 11
D = H * K                                         # 8
N_SRC = 13

CONFIG = npt.Config(
    n_src_vocab=N_SRC, n_tgt_vocab=V, d_model=D, n_heads=H, d_ff=F, n_layers=2, dropout=0.2,
    max_len=9,
)

OPTIONS = replace(CONFIG, n_src_vocab=V, n_decoder_layers=1, share_embeddings=True,
                  tie_embeddings=True, scale_embeddings=False, output_bias=True, final_norm=True)

LINEAR = D * F + F
SELF = D * 3 * D + 3 * D + D * D + D
CROSS = D * D + D + D * 2 * D + 2 * D + D * D + D
FFN = D * F + F + F * D + D
NORM = 2 * D
ENCODER_BLOCK = SELF + FFN + 2 * NORM
DECODER_BLOCK = SELF + CROSS + FFN + 3 * NORM
GPT = npt.gpt_config(V, d_model=D, n_heads=H, d_ff=F, n_layers=2, dropout=0.2, max_len=9)
LLAMA = npt.llama_config(V, d_model=H * 2 * K, n_heads=2 * H, d_ff=F, n_layers=2, dropout=0.2,
                         max_len=9, n_kv_heads=2)
RELATIVE = npt.modern_config(V, d_model=D, n_heads=H, d_ff=F, n_layers=2, dropout=0.2, max_len=9,
                             positions="relative", n_kv_heads=1, tie_embeddings=False)
TRANSFORMER = (N_SRC + V + V) * D + 2 * (ENCODER_BLOCK + DECODER_BLOCK)


def no_module(rng):
    return None


@dataclass(frozen=True)
class Case:
    """How to make and run one thing.

    ``run(module, inputs, rng)`` returns (y, backward); rng is a fresh generator where dropout
    should act, or None. ``inputs(rng)`` gives float64 arrays, and integers or booleans where no
    gradient is wanted.
    """

    name: str
    covers: str                                   # the public name
    inputs: Callable[[np.random.Generator], tuple[Any, ...]]
    build: Callable[[np.random.Generator], Any] = no_module
    run: Callable[..., Any] = field(default=lambda m, xs, rng: m.forward(*xs))
    n_parameters: int = 0                         # numbers, not arrays; asserted

    def make(self, seed: int = 0):
        """The module in float64 (or None) with random gains and biases, and its inputs."""
        rng = np.random.default_rng(seed)
        module = self.build(rng)
        if module is not None:
            module = module.astype(np.float64)
            for p in module.parameters().values():
                if p.value.ndim == 1:
                    p.value = p.value + 0.5 * rng.standard_normal(p.shape)
        return module, self.inputs(rng)


def floats(*shapes):
    return lambda rng: tuple(rng.standard_normal(shape) for shape in shapes)


def masked(*shapes, mask):
    """Float inputs, and after them a boolean mask of this shape with every row partly open."""
    def make(rng):
        open_ = rng.random(mask) < 0.6
        open_[..., 0] = True
        return (*(rng.standard_normal(shape) for shape in shapes), open_)
    return make


def empty_row(*shapes, mask):
    """Like masked, but the last query of every table may attend to nothing."""
    def make(rng):
        *xs, open_ = masked(*shapes, mask=mask)(rng)
        open_[..., -1, :] = False
        return (*xs, open_)
    return make


def source_and_target(rng):
    """Ids with padding at the end, of every kind: none, some, and a source that is all padding."""
    src, tgt = rng.integers(3, N_SRC, (B, S)), rng.integers(3, V, (B, T))
    src[0, 4:], src[1] = 0, 0
    tgt[:, 0], tgt[2, 3:] = 1, 0
    return src, tgt


def logits_and_targets(rng):
    targets = rng.integers(1, V, (B, T))
    targets[0, 3:] = 0
    return rng.standard_normal((B, T, V)), targets


def function(f, **options):
    return lambda m, xs, rng: f(*xs, **options)


def with_dropout(m, xs, rng):
    """For forwards that end in (…, mask, rng)."""
    return m.forward(*xs, rng=rng)


def decoder_run(m, xs, rng):
    x, memory, memory_mask = xs
    return m.forward(x, memory, npt.causal_mask(T), memory_mask, rng)


def both_norms(case: Case, make, config=CONFIG, extra: int = 0):
    """The case twice: post-norm and pre-norm; a pre-norm stack has ``extra`` parameters more."""
    pre = replace(config, pre_norm=True)
    return [
        replace(case, build=lambda rng: make(config, rng)),
        replace(case, name=case.name + ", pre-norm", build=lambda rng: make(pre, rng),
                n_parameters=case.n_parameters + extra),
    ]


HEADS = (B, H, T, K), (B, H, S, K), (B, H, S, K)
BATCH, MEMORY = (B, T, D), (B, S, D)
SELF_MASK, MEMORY_MASK = (B, 1, T, T), (B, 1, 1, S)

CASES = [
    Case("softmax", "softmax", floats((B, T, S)), run=function(npt.softmax)),
    Case("softmax, masked", "softmax", empty_row((B, T, S), mask=(B, T, S)),
         run=function(npt.softmax)),
    Case("relu", "relu", floats((B, T, F)), run=function(npt.relu)),
    Case("gelu", "gelu", floats((B, T, F)), run=function(npt.gelu)),
    Case("exact gelu", "exact_gelu", floats((B, T, F)), run=function(npt.exact_gelu)),
    Case("attention", "attention", floats(*HEADS), run=function(npt.attention)),
    Case("attention, masked", "attention", empty_row(*HEADS, mask=(B, 1, T, S)),
         run=function(npt.attention)),
    Case("attention in tiles", "attention_in_tiles", empty_row(*HEADS, mask=(B, 1, T, S)),
         run=function(npt.attention_in_tiles, tile=(2, 4))),
    Case("attention in tiles, causal", "attention_in_tiles", floats(*HEADS),
         run=function(npt.attention_in_tiles, pattern=npt.Causal(), tile=(3, 2))),
    Case("attention in tiles, window", "attention_in_tiles",
         empty_row(*HEADS, mask=(B, 1, T, S)),
         run=function(npt.attention_in_tiles, pattern=npt.Window(3), tile=(2, 3))),
    Case("attention in tiles, block-sparse", "attention_in_tiles", floats(*HEADS),
         run=function(npt.attention_in_tiles, pattern=npt.BlockSparse(2, 3, near=1), tile=(3, 2))),
    Case("linear", "Linear", floats((B, T, D)), lambda rng: npt.Linear(D, F, rng),
         n_parameters=LINEAR),
    Case("linear, no bias", "Linear", floats((B, T, D)),
         lambda rng: npt.Linear(D, F, rng, bias=False),
         n_parameters=D * F),
    Case("self-attention", "SelfAttention", masked(BATCH, mask=SELF_MASK),
         lambda rng: npt.SelfAttention(D, H, rng), n_parameters=SELF),
    Case("cross-attention", "CrossAttention", masked(BATCH, MEMORY, mask=MEMORY_MASK),
         lambda rng: npt.CrossAttention(D, H, rng), n_parameters=CROSS),
    Case("self-attention, narrow", "SelfAttention", masked(BATCH, mask=SELF_MASK),
         lambda rng: npt.SelfAttention(D, H, rng, d_head=3, bias=False, dropout=0.4),
         run=with_dropout, n_parameters=4 * D * H * 3),
    Case("cross-attention, wide", "CrossAttention", masked(BATCH, MEMORY, mask=MEMORY_MASK),
         lambda rng: npt.CrossAttention(D, H, rng, d_head=5, dropout=0.4),
         run=with_dropout, n_parameters=4 * D * H * 5 + 3 * H * 5 + D),
    Case("pattern attention", "PatternAttention", masked(BATCH, mask=SELF_MASK),
         lambda rng: npt.PatternAttention(D, H, rng, npt.Window(3)), n_parameters=SELF),
    Case("feed-forward", "FeedForward", floats(BATCH),
         lambda rng: npt.FeedForward(D, F, rng), n_parameters=FFN),
    Case("feed-forward, gelu", "FeedForward", floats(BATCH),
         lambda rng: npt.FeedForward(D, F, rng, "gelu"), n_parameters=FFN),
    Case("feed-forward, exact gelu and dropout", "FeedForward", floats(BATCH),
         lambda rng: npt.FeedForward(D, F, rng, npt.exact_gelu, bias=False, dropout=0.3),
         run=with_dropout, n_parameters=2 * D * F),
    Case("embedding", "Embedding", lambda rng: (rng.integers(0, 4, (B, T)),),   # ids repeat
         lambda rng: npt.Embedding(V, D, rng), n_parameters=V * D),
    Case("unembedding", "Unembedding", floats(BATCH),
         lambda rng: npt.Unembedding(npt.Embedding(V, D, rng).table), n_parameters=V * D),
    Case("unembedding with bias", "Unembedding", floats(BATCH),
         lambda rng: npt.Unembedding(npt.Embedding(V, D, rng).table, bias=True),
         n_parameters=V * D + V),
    Case("sinusoidal positions", "SinusoidalPositions", floats(BATCH),
         lambda rng: npt.SinusoidalPositions(9, D)),
    Case("learned positions", "LearnedPositions", floats(BATCH),
         lambda rng: npt.LearnedPositions(9, D, rng), n_parameters=9 * D),
    Case("input embedding", "InputEmbedding", lambda rng: (rng.integers(0, V, (B, T)),),
         lambda rng: npt.InputEmbedding(V, CONFIG, rng), run=with_dropout, n_parameters=V * D),
    Case("layer norm", "LayerNorm", floats(BATCH), lambda rng: npt.LayerNorm(D),
         n_parameters=NORM),
    Case("dropout", "Dropout", floats(BATCH), lambda rng: npt.Dropout(0.3), run=with_dropout),
    *both_norms(Case("encoder block", "EncoderBlock", masked(BATCH, mask=SELF_MASK),
                     run=with_dropout, n_parameters=ENCODER_BLOCK), npt.EncoderBlock),
    *both_norms(Case("encoder", "Encoder", masked(BATCH, mask=SELF_MASK),
                     run=with_dropout, n_parameters=2 * ENCODER_BLOCK), npt.Encoder, extra=NORM),
    *both_norms(Case("decoder block", "DecoderBlock", masked(BATCH, MEMORY, mask=MEMORY_MASK),
                     run=decoder_run, n_parameters=DECODER_BLOCK), npt.DecoderBlock),
    *both_norms(Case("decoder", "Decoder", masked(BATCH, MEMORY, mask=MEMORY_MASK),
                     run=decoder_run, n_parameters=2 * DECODER_BLOCK), npt.Decoder, extra=NORM),
    Case("cross-entropy", "cross_entropy", logits_and_targets, run=function(npt.cross_entropy)),
    Case("cross-entropy, padded and smoothed", "cross_entropy", logits_and_targets,
         run=function(npt.cross_entropy, pad_id=0, label_smoothing=0.1)),
    *both_norms(Case("transformer", "Transformer", source_and_target,
                     run=with_dropout, n_parameters=TRANSFORMER), npt.Transformer, extra=2 * NORM),
    *both_norms(Case("transformer, tied and learned", "Transformer", source_and_target,
                     run=with_dropout, n_parameters=TRANSFORMER - V * D + 2 * 9 * D),
                npt.Transformer, extra=2 * NORM,
                config=replace(CONFIG, tie_embeddings=True, positions="learned",
                               activation="gelu")),
    Case("transformer, all options", "Transformer",
         lambda rng: tuple(np.where(ids < V, ids, 3) for ids in source_and_target(rng)),
         lambda rng: npt.Transformer(OPTIONS, rng), run=with_dropout,
         n_parameters=V * D + V + 2 * ENCODER_BLOCK + DECODER_BLOCK + 2 * NORM),
    Case("silu", "silu", floats((B, T, F)), run=function(npt.silu)),
    Case("rms norm", "RMSNorm", floats(BATCH), lambda rng: npt.RMSNorm(D), n_parameters=D),
    Case("rotary", "Rotary", floats((B, H, T, K)), lambda rng: npt.Rotary(9, K),
         run=lambda m, xs, rng: m.forward(*xs, start=2)),
    Case("relative bias", "RelativeBias", floats((B, H, T, S)),
         lambda rng: npt.RelativeBias(3, H, rng), n_parameters=H * 7),
    Case("no positions", "NoPositions", floats(BATCH), lambda rng: npt.NoPositions()),
    Case("gated feed-forward", "GatedFeedForward", floats(BATCH),
         lambda rng: npt.GatedFeedForward(D, F, rng), n_parameters=3 * D * F),
    Case("gated feed-forward, gelu and bias", "GatedFeedForward", floats(BATCH),
         lambda rng: npt.GatedFeedForward(D, F, rng, npt.gelu, bias=True),
         n_parameters=3 * D * F + 2 * F + D),
    Case("grouped attention, rotary", "GroupedAttention", masked(BATCH, mask=SELF_MASK),
         lambda rng: npt.GroupedAttention(D, 4, rng, 2, npt.Rotary(9, 2), dropout=0.4),
         run=with_dropout, n_parameters=D * D + D + D * 2 * 4 + 2 * 4 + D * D + D),
    Case("grouped attention, relative", "GroupedAttention", masked(BATCH, mask=SELF_MASK),
         lambda rng: npt.GroupedAttention(D, 4, rng, 1, None, npt.RelativeBias(3, 4, rng),
                                          d_head=3, bias=False),
         run=with_dropout, n_parameters=D * 12 + D * 6 + 12 * D + 4 * 7),
    Case("gpt, llama", "GPT", lambda rng: source_and_target(rng)[1:],
         lambda rng: npt.GPT(LLAMA, rng), run=with_dropout, n_parameters=2 * V * 2 * D
         + 2 * (2 * 2 * D * 2 * D + 2 * D * 2 * D + 3 * 2 * D * F + 2 * 2 * D) + 2 * D),
    Case("gpt, relative", "GPT", lambda rng: source_and_target(rng)[1:],
         lambda rng: npt.GPT(RELATIVE, rng), run=with_dropout, n_parameters=2 * V * D
         + 2 * (2 * D * D + 2 * D + 2 * D * K + 2 * K + H * 17 + FFN + 2 * NORM) + NORM),
    Case("gpt", "GPT", lambda rng: source_and_target(rng)[1:], lambda rng: npt.GPT(GPT, rng),
         run=with_dropout, n_parameters=(V + 9) * D + 2 * ENCODER_BLOCK + NORM),
    Case("gpt, window", "GPT", lambda rng: source_and_target(rng)[1:],
         lambda rng: npt.GPT(replace(GPT, pattern=npt.Window(3)), rng),
         run=with_dropout, n_parameters=(V + 9) * D + 2 * ENCODER_BLOCK + NORM),
]
