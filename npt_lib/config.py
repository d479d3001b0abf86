"""The sizes of a Transformer, checked once, in one place, and the parts that they make."""

from dataclasses import dataclass, fields
from typing import Any

from npt_lib.embedding import LearnedPositions, SinusoidalPositions
from npt_lib.feed_forward import FeedForward, check_activation
from npt_lib.module import Module, Rng
from npt_lib.multi_head_attention import CrossAttention, SelfAttention
from npt_lib.norm import Dropout, LayerNorm
from npt_lib.require import check_count, check_flag, check_heads, check_share


@dataclass(frozen=True)
class Config:
    """Every size and choice of an encoder-decoder; frozen, so a model cannot drift from it.

    Defaults follow the paper in kind (post-norm, ReLU, sinusoidal positions), not in size.
    tie_embeddings: the output layer shares the target embedding's table; share_embeddings: so do
    source and target. n_decoder_layers: n_layers if None. final_norm: at the end of a stack, in
    pre-norm alone if None. activation: a name, or a function x -> (y, backward); a model with a
    function cannot be saved. To exchange a part, make it in a subclass's ``make_…``: the model,
    its decoding and its checkpoints follow.
    """

    n_src_vocab: int
    n_tgt_vocab: int
    d_model: int = 64
    n_heads: int = 4
    d_ff: int = 256
    n_layers: int = 2
    dropout: float = 0.1
    max_len: int = 128
    pad_id: int = 0
    pre_norm: bool = False
    tie_embeddings: bool = False
    bos_id: int = 1
    eos_id: int = 2
    activation: str = "relu"
    positions: str = "sinusoidal"
    n_decoder_layers: int | None = None
    share_embeddings: bool = False
    scale_embeddings: bool = True
    output_bias: bool = False
    final_norm: bool | None = None

    def __post_init__(self) -> None:
        for field in fields(Config):
            name, value = field.name, getattr(self, field.name)
            if value is None and name in self.may_be_none():
                continue
            if field.type in (int, int | None):
                self._set(name, check_count(name, value, 0 if name.endswith("_id") else 1))
            if field.type in (bool, bool | None):
                self._set(name, check_flag(name, value))
        self._set("dropout", check_share("dropout", self.dropout))
        check_heads(self.d_model, self.n_heads)
        check_activation(self.activation)
        if not isinstance(self.positions, str) or self.positions not in self.known_positions():
            raise ValueError(f"positions must be one of {self.known_positions()}, "
                             f"got {self.positions!r}.")
        if self.share_embeddings and self.n_src_vocab != self.n_tgt_vocab:
            raise ValueError(f"share_embeddings needs vocabularies of one size, got "
                             f"n_src_vocab={self.n_src_vocab}, n_tgt_vocab={self.n_tgt_vocab}.")
        self._check_special_ids()

    @staticmethod
    def known_positions() -> tuple[str, ...]:
        """What ``positions`` may be: what ``make_positions`` can make."""
        return "sinusoidal", "learned"

    @staticmethod
    def may_be_none() -> tuple[str, ...]:
        """Fields that may be None."""
        return "n_decoder_layers", "final_norm"

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _check_special_ids(self) -> None:
        ids = {"pad_id": self.pad_id, "bos_id": self.bos_id, "eos_id": self.eos_id}
        special = {name: value for name, value in ids.items() if value is not None}
        for name, value in special.items():
            if value >= self.n_tgt_vocab:
                raise ValueError(
                    f"{name}={value} is outside the target vocabulary of {self.n_tgt_vocab}."
                )
        if len(set(special.values())) < len(special):
            raise ValueError(f"pad_id, bos_id and eos_id must differ, got {special}.")

    # the parts: override one to exchange it everywhere

    def make_self_attention(self, rng: Rng) -> Module:
        """Has forward(x, mask=None, rng=None) -> (y, backward); start and step are optional."""
        return SelfAttention(self.d_model, self.n_heads, rng)

    def make_cross_attention(self, rng: Rng) -> Module:
        """Has forward(x, memory, mask=None, rng=None) -> (y, backward); start, step optional."""
        return CrossAttention(self.d_model, self.n_heads, rng)

    def make_feed_forward(self, rng: Rng) -> Module:
        """Has forward(x, rng=None) -> (y, backward)."""
        return FeedForward(self.d_model, self.d_ff, rng, self.activation)

    def make_norm(self) -> Module:
        """Has forward(x) -> (y, backward)."""
        return LayerNorm(self.d_model)

    def make_final_norm(self) -> Module | None:
        """What a stack ends in: forward(x) -> (y, backward), or None; a norm in pre-norm alone."""
        wanted = self.pre_norm if self.final_norm is None else self.final_norm
        return self.make_norm() if wanted else None

    def make_dropout(self) -> Module:
        """Has forward(x, rng=None) -> (y, backward)."""
        return Dropout(self.dropout)

    def make_positions(self, rng: Rng) -> Module:
        """Has forward(x, start=0) -> (y, backward), where start is the first vector's position."""
        if self.positions == "learned":
            return LearnedPositions(self.max_len, self.d_model, rng)
        return SinusoidalPositions(self.max_len, self.d_model)
