"""What the models of chapter 10 learn: pairs of texts, and the tokenizers that read them.

Every task keeps its held-out pairs apart from those it trains on; only ``next_token`` and
``phrases`` are so small that there is nothing to hold out, and test on what they trained on.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from npt_lib.config import Config
from npt_lib.module import Array, Rng
from npt_lib.noun_phrases import all_noun_phrases, hold_out_pairs
from npt_lib.number_words import draw_numbers, number_to_english, number_to_spanish
from npt_lib.sequences import backwards, distinct_sequences, shuffled
from npt_lib.tokenizer import SPECIAL, CharTokenizer, Tokenizer, WordTokenizer

Pair = tuple[str, str]
LETTERS = "abcdefghijklmnopqrstuvwxyz"


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

    def encode(self, pairs: list[Pair]) -> tuple[Array, Array]:
        """Any pairs as the same two arrays."""
        sources, targets = [a for a, _ in pairs], [b for _, b in pairs]
        return self.encode_sources(sources), self.tgt_tokenizer.encode_batch(
            targets, bos=True, eos=True)

    def encode_sources(self, sources: list[str]) -> Array:
        """Source texts as the model reads them: tokens <eos>, (N, S)."""
        return self.src_tokenizer.encode_batch(sources, eos=True)

    def config(self, **options: Any) -> Config:
        """A Config with this task's vocabularies."""
        return Config(len(self.src_tokenizer), len(self.tgt_tokenizer), **options)

    def __repr__(self) -> str:
        return f"Task({self.name!r}, {len(self.train)} train, {len(self.test)} test)"


def copy_task(rng: Rng, n_train: int = 4000, n_test: int = 400,
              lengths: tuple[int, int] = (3, 8), n_values: int = 10) -> Task:
    """Numbers below n_values, to be written as they are: 3 1 4 -> 3 1 4."""
    numbers = number_tokenizer(n_values)
    return sequence_task("copy", numbers, list, rng, n_train, n_test, lengths)


def reverse_numbers(rng: Rng, n_train: int = 4000, n_test: int = 400,
                    lengths: tuple[int, int] = (3, 8), n_values: int = 10) -> Task:
    """Numbers below n_values, to be written backwards: 3 1 4 -> 4 1 3."""
    numbers = number_tokenizer(n_values)
    return sequence_task("reverse numbers", numbers, backwards, rng, n_train, n_test, lengths)


def sort_numbers(rng: Rng, n_train: int = 4000, n_test: int = 400,
                 lengths: tuple[int, int] = (3, 8), n_values: int = 10) -> Task:
    """Numbers below n_values, to be written in order: 3 1 4 -> 1 3 4."""
    numbers = number_tokenizer(n_values)
    return sequence_task("sort numbers", numbers, sorted, rng, n_train, n_test, lengths)


def identity_strings(rng: Rng, n_train: int = 4000, n_test: int = 400,
                     lengths: tuple[int, int] = (3, 8), letters: str = LETTERS) -> Task:
    """Random words, to be written as they are: cab -> cab."""
    letter = CharTokenizer(letters)
    return sequence_task("identity of strings", letter, list, rng, n_train, n_test, lengths)


def reverse_strings(rng: Rng, n_train: int = 4000, n_test: int = 400,
                    lengths: tuple[int, int] = (3, 8), letters: str = LETTERS) -> Task:
    """Random words, to be written backwards: cab -> bac."""
    letter = CharTokenizer(letters)
    return sequence_task("reverse strings", letter, backwards, rng, n_train, n_test, lengths)


def next_token(length: int = 6) -> Task:
    """One fixed sequence, 1 2 3 4 5 6: every beginning of it, and the number that follows."""
    numbers = [str(i + 1) for i in range(length)]
    pairs = [(" ".join(numbers[:i]), numbers[i]) for i in range(1, length)]
    tokenizer = WordTokenizer(numbers)
    return Task("next token", tokenizer, tokenizer, pairs, pairs)


def phrases() -> Task:
    """Three English phrases and their Spanish translations, to be learned by heart."""
    return translation("phrases", *[[
        ("hello my name", "hola mi nombre"),
        ("hello messi", "hola messi"),
        ("my name is messi", "mi nombre es messi"),
    ]] * 2)


def number_words(rng: Rng, n_train: int = 20_000, n_test: int = 2_000) -> Task:
    """Numbers in English words, to be written in Spanish: forty-two -> cuarenta y dos.

    All numbers below 100 are trained on: they are the words. The held-out numbers, and the rest
    of those trained on, are drawn from 100 to 999,999, by their digits: see ``draw_numbers``.
    """
    if n_train < 200 or n_test < 1:
        raise ValueError(f"number words need n_train >= 200 and n_test >= 1, "
                         f"got {n_train} and {n_test}.")
    drawn = draw_numbers(rng, n_train - 100 + n_test)
    pairs = [(number_to_english(n), number_to_spanish(n)) for n in [*range(100), *drawn]]
    return translation("number words", pairs[:n_train], pairs[n_train:])


def noun_phrases(rng: Rng, held_out: float = 0.15) -> Task:
    """English noun phrases, to be written in Spanish: the red houses -> las casas rojas.

    This share of the pairs (noun, adjective) is held out, with every determiner, in both
    numbers, with and without very: the model has seen both words, but never together.
    """
    pairs = hold_out_pairs(rng, held_out)
    everything = all_noun_phrases()
    seen = [(p.english, p.spanish) for p in everything if p.pair not in pairs]
    unseen = [(p.english, p.spanish) for p in everything if p.pair in pairs]
    return translation("noun phrases", shuffled(rng, seen), shuffled(rng, unseen))


def translation(name: str, train: list[Pair], test: list[Pair]) -> Task:
    """A task between two languages; the vocabularies come from the training pairs alone."""
    return Task(name, WordTokenizer.from_texts(a for a, _ in train),
                WordTokenizer.from_texts(b for _, b in train), train, test)


def sequence_task(name: str, tokenizer: Tokenizer, change: Callable[[list[int]], list[int]],
                  rng: Rng, n_train: int, n_test: int, lengths: tuple[int, int]) -> Task:
    """Distinct random sequences of the tokenizer's own tokens, and what becomes of them."""
    n_values = len(tokenizer) - len(SPECIAL)
    sequences = distinct_sequences(rng, n_train + n_test, n_values, lengths)

    def text(sequence: list[int]) -> str:
        return tokenizer.decode([len(SPECIAL) + i for i in sequence])

    pairs = [(text(sequence), text(change(sequence))) for sequence in sequences]
    return Task(name, tokenizer, tokenizer, pairs[:n_train], pairs[n_train:])


def number_tokenizer(n_values: int) -> WordTokenizer:
    """0, 1, 2 ... as words, so that id and value go up together."""
    return WordTokenizer(str(i) for i in range(n_values))
