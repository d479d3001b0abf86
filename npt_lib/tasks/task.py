"""A task: pairs of texts to learn from and to be tested on, and the tokenizers that read them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from npt_lib.config import Config
from npt_lib.module import Array, Rng
from npt_lib.require import check_kind
from npt_lib.tokenizer import PAD, Tokenizer, WordTokenizer
from npt_lib.training import Batches

Pair = tuple[str, str]
T = TypeVar("T")


@dataclass(frozen=True)
class Task:
    """Pairs (source text, target text) to train on and to test on, and both tokenizers."""

    name: str
    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer
    train: list[Pair]
    test: list[Pair]

    def arrays(self, part: str = "train") -> tuple[Array, Array]:
        """The pairs of "train" or "test" as ids: src is tokens <eos>, tgt is <bos> tokens <eos>.

        src is (N, S) and tgt is (N, L), both padded at the end.
        """
        if part not in ("train", "test"):
            raise ValueError(f"part must be 'train' or 'test', got {part!r}.")
        return self.encode(self.train if part == "train" else self.test)

    def batches(
        self, batch_size: int, rng: Rng, part: str = "train", by_length: bool = False
    ) -> Batches:
        """Mini-batches of the pairs of "train" or "test", cut to their longest rows."""
        return Batches(self.arrays(part), batch_size, rng, PAD, by_length)

    def encode(self, pairs: list[Pair]) -> tuple[Array, Array]:
        """Any pairs as the same two arrays."""
        sources, targets = [a for a, _ in pairs], [b for _, b in pairs]
        return self.encode_sources(sources), self.tgt_tokenizer.encode_batch(
            targets, bos=True, eos=True)

    def encode_sources(self, sources: list[str]) -> Array:
        """Source texts as the model reads them: tokens <eos>, (N, S)."""
        return self.src_tokenizer.encode_batch(sources, eos=True)

    def config(self, kind: type[Config] = Config, **options: Any) -> Config:
        """A config with this task's vocabularies: a Config, or one of a class of your own."""
        sizes = len(self.src_tokenizer), len(self.tgt_tokenizer)
        return check_kind(kind, Config)(*sizes, **options)

    def __repr__(self) -> str:
        return f"Task({self.name!r}, {len(self.train)} train, {len(self.test)} test)"


def translation(name: str, train: list[Pair], test: list[Pair]) -> Task:
    """A task between two languages; the vocabularies come from the training pairs alone."""
    return Task(name, WordTokenizer.from_texts(a for a, _ in train),
                WordTokenizer.from_texts(b for _, b in train), train, test)


def shuffled(rng: Rng, items: Sequence[T]) -> list[T]:
    return [items[i] for i in rng.permutation(len(items))]
