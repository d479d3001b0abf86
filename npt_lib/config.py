"""The sizes of a Transformer, checked once, in one place."""

from dataclasses import dataclass

from npt_lib.feed_forward import check_activation
from npt_lib.require import check_heads

POSITIONS = ("sinusoidal", "learned")


@dataclass(frozen=True)
class Config:
    """Every size and choice of an encoder-decoder; frozen, so a model cannot drift from it.

    Defaults follow the paper in kind (post-norm, ReLU, sinusoidal positions), not in size.
    tie_embeddings: the output layer shares the target embedding's table.
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

    def __post_init__(self) -> None:
        for name in ("n_src_vocab", "n_tgt_vocab", "d_model", "n_heads", "d_ff",
                     "n_layers", "max_len"):
            value = getattr(self, name)
            if not is_whole(value) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}.")
        check_heads(self.d_model, self.n_heads)
        check_activation(self.activation)
        if not isinstance(self.dropout, int | float) or not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {self.dropout}.")
        if self.positions not in POSITIONS:
            raise ValueError(f"positions must be one of {POSITIONS}, got {self.positions!r}.")
        self._check_special_ids()

    def _check_special_ids(self) -> None:
        special = {"pad_id": self.pad_id, "bos_id": self.bos_id, "eos_id": self.eos_id}
        for name, value in special.items():
            if not is_whole(value) or not 0 <= value < self.n_tgt_vocab:
                raise ValueError(
                    f"{name}={value} is outside the target vocabulary of {self.n_tgt_vocab}."
                )
        if len(set(special.values())) < 3:
            raise ValueError(f"pad_id, bos_id and eos_id must differ, got {special}.")


def is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
