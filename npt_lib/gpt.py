"""A language model: the decoder alone, in GPT-2's architecture. Chapter 11."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from npt_lib.config import Config
from npt_lib.embedding import Embedding, Unembedding
from npt_lib.encoder import Encoder
from npt_lib.generate import DecodingState
from npt_lib.long_attention import Pattern, causal_view, check_pattern
from npt_lib.loss import cross_entropy
from npt_lib.module import Array, Backward, Module, Rng
from npt_lib.multi_head_attention import SelfAttention, check_blocks
from npt_lib.pattern_attention import PatternAttention
from npt_lib.require import (
    as_ids,
    check_count,
    check_ids,
    check_kind,
    check_length,
    check_padding,
    check_rows,
)
from npt_lib.transformer import InputEmbedding


@dataclass(frozen=True)
class GPTConfig(Config):
    """The sizes of a GPT; ``gpt_config`` makes one with GPT-2's choices.

    pad_id None: no id is padding. bos_id None: no id only begins a text. pattern: who may see
    whom, such as Window(64); attention's weights have no dropout then.
    """

    pattern: Pattern | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pattern is not None:
            check_pattern(self.pattern)

    @staticmethod
    def may_be_none() -> tuple[str, ...]:
        return *Config.may_be_none(), "pad_id", "bos_id"

    def make_self_attention(self, rng: Rng) -> Module:
        if self.pattern is not None:
            return PatternAttention(self.d_model, self.n_heads, rng, self.pattern)
        return SelfAttention(self.d_model, self.n_heads, rng, dropout=self.dropout)


def gpt_config(n_vocab: int, kind: type[GPTConfig] = GPTConfig, **options: Any) -> GPTConfig:
    """GPT-2's choices: pre-norm with a last norm, learned positions, GELU, tied and unscaled table.

    options are those of the config, sizes or other choices. kind is its class: a subclass
    of GPTConfig whose ``make_…`` exchange parts.
    """
    return check_kind(kind, GPTConfig)(n_vocab, n_vocab, **(GPT_2 | options))


GPT_2: dict[str, Any] = {"pre_norm": True, "positions": "learned", "activation": "gelu",
                         "tie_embeddings": True, "scale_embeddings": False}


class GPT(Module):
    """Ids in, logits for each next id out: it reads from left to right, and writes so.

    ids is (B, T), logits are (B, T, V). Each place sees itself and what is before it.
    Backward: dlogits in; returns nothing, since ids have no gradient. Built in chapter 11.
    """

    def __init__(self, config: Config, rng: Rng):
        self.config = config
        self.embed = InputEmbedding(config.n_tgt_vocab, config, rng)
        self.body = Encoder(config, rng)               # with a causal mask, a decoder without cross
        own = Embedding(config.n_tgt_vocab, config.d_model, rng).table
        tied = self.embed.tokens.table if config.tie_embeddings else own
        self.unembed = Unembedding(tied, config.output_bias)

    def forward(self, ids: Array, rng: Rng | None = None) -> tuple[Array, Backward]:
        ids = self._check(ids)
        T = ids.shape[1]
        x, embed_backward = self.embed.forward(ids, rng)                  # (B, T, D)
        h, body_backward = self.body.forward(x, causal_view(T, T), rng)
        logits, unembed_backward = self.unembed.forward(h)                # (B, T, V)

        def backward(dlogits: Array) -> None:
            embed_backward(body_backward(unembed_backward(dlogits)))

        return logits, backward

    def loss(
        self, batch: tuple[Array], rng: Rng | None = None, label_smoothing: float = 0.0
    ) -> tuple[float, Backward]:
        """The mean cross-entropy of a batch (ids,): each id but the first is predicted.

        Backward: called with dloss, 1.0 if left out; returns nothing.
        """
        ids = self._only(batch)
        logits, model_backward = self.forward(ids[:, :-1], rng)
        loss, loss_backward = cross_entropy(
            logits, ids[:, 1:], self.config.pad_id, label_smoothing)

        def backward(dloss: float = 1.0) -> None:
            model_backward(loss_backward(dloss))

        return loss, backward

    def n_targets(self, batch: tuple[Array]) -> int:
        """How many ids the loss of this batch is a mean over: those that are not padding."""
        return int(np.sum(self._only(batch)[:, 1:] != self.config.pad_id))

    def scores(self, batch: tuple[Array]) -> dict[str, Array]:
        """Right or wrong, for each id given those before it."""
        ids = self._only(batch)
        wanted = ids[:, 1:]
        right = self(ids[:, :-1]).argmax(axis=-1) == wanted
        return {"token_accuracy": right[wanted != self.config.pad_id]}

    def start(self, prompt: Array, max_len: int) -> DecodingState:
        """Read a prompt (B, T), all rows equally long, at once; ready to write max_len ids."""
        check_blocks([self])
        prompt, max_len = self._check(prompt), check_count("max_len", max_len)
        if (prompt == self.config.pad_id).any():
            raise ValueError("a prompt needs rows of one length, without padding.")
        room = check_length(prompt.shape[1] - 1 + max_len, self.config.max_len)
        state = DecodingState(self.body.start(len(prompt), room), prompt[:, -1])
        if prompt.shape[1] > 1:
            self._read(prompt[:, :-1], state)
        return state

    def step(self, ids: Array, state: DecodingState) -> Array:
        """Logits (B, V) for the id after ids (B,); state moves one position on."""
        ids = as_ids("token", ids)
        if ids.shape != state.last.shape:
            raise ValueError(f"ids must be {state.last.shape}, one for each row, got {ids.shape}.")
        return self.unembed(self._read(ids[:, None], state))[:, 0]

    def _read(self, ids: Array, state: DecodingState) -> Array:
        """The next positions (B, T) alone, as vectors (B, T, D)."""
        x = self.embed(ids, start=state.length)
        state.length += ids.shape[1]
        return self.body.step(x, state.caches)

    def _only(self, batch: tuple[Array]) -> Array:
        """The ids of a batch of one array, at least two in a row."""
        arrays = check_rows("batch", batch, "one array, ids")
        ids = as_ids("token", arrays[0]) if len(arrays) == 1 else None
        if ids is None or ids.ndim != 2 or ids.shape[1] < 2:
            raise ValueError(f"a batch must be (ids,), ids (B, T) with T at least 2, got "
                             f"{[np.shape(x) for x in arrays]}.")
        check_padding("ids", ids, self.config.pad_id)
        return ids

    def _check(self, ids: Array) -> Array:
        ids = as_ids("token", ids)
        if ids.ndim != 2 or 0 in ids.shape:
            raise ValueError(f"ids must be (batch, length), both at least 1, "
                             f"got shape {ids.shape}.")
        check_length(ids.shape[1], self.config.max_len)
        return check_ids("token", ids, self.config.n_tgt_vocab)
