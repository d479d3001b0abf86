"""From text to ids and back: chapter 5. Ids 0, 1 and 2 are the special tokens."""

import difflib
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from npt_lib.module import Array
from npt_lib.require import check_flag, check_rows, check_text

SPECIAL = ["<pad>", "<bos>", "<eos>"]
PAD, BOS, EOS = range(3)


class Tokenizer(ABC):
    """A vocabulary, and the way between texts and lists of ids.

    tokens: the vocabulary, with or without the three special tokens in front of it.
    Texts are composed first (NFC), so that "é" is the same token however it was typed.
    decode(encode(text)) is the text; what cannot come back so is a ValueError.
    """

    kind: ClassVar[str]
    unit: ClassVar[str]

    def __init__(self, tokens: Iterable[str]):
        own = [check_text("a token", token) for token in check_rows("tokens", tokens, "texts")]
        own = own[len(SPECIAL):] if own[:len(SPECIAL)] == SPECIAL else own
        for token in own:
            if token in SPECIAL or self.split(token) != [token]:
                raise ValueError(f"{token!r} is not one {self.unit}.")
        self.tokens = SPECIAL + own
        self.ids = {token: i for i, token in enumerate(self.tokens)}
        if len(self.ids) < len(self.tokens):
            twice = sorted({token for token in own if own.count(token) > 1})
            raise ValueError(f"a vocabulary has each {self.unit} once, got {twice[:3]} twice.")

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> Self:
        """The vocabulary of these texts, in alphabetical order."""
        if isinstance(texts, str):
            raise ValueError("from_texts needs a list of texts, got one text.")
        found = check_rows("texts", texts, "texts")
        return cls(sorted({token for text in found for token in cls.split(text)}))

    @classmethod
    @abstractmethod
    def split(cls, text: str) -> list[str]:
        """The tokens of a text."""

    @classmethod
    @abstractmethod
    def join(cls, tokens: Sequence[str]) -> str:
        """The text of these tokens: split, reversed."""

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} tokens)"

    def encode(self, text: str, bos: bool = False, eos: bool = False) -> list[int]:
        """The ids of a text, with the start and end tokens around it if asked for."""
        bos, eos = check_flag("bos", bos), check_flag("eos", eos)
        tokens = self.split(text)
        unknown = [token for token in tokens if token not in self.ids]
        if unknown:
            raise ValueError(self._unknown(unknown[0]))
        return [BOS] * bos + [self.ids[token] for token in tokens] + [EOS] * eos

    def decode(self, ids: Iterable[int]) -> str:
        """The text of a row of ids, up to the first end token; padding is left out."""
        tokens = []
        for i in check_rows("ids", ids, "whole numbers"):
            if not isinstance(i, int | np.integer):
                raise ValueError(f"ids must be whole numbers, got {i}.")
            if not 0 <= i < len(self):
                raise ValueError(f"id {i} is outside the vocabulary of {len(self)}.")
            if i == EOS:
                break
            if i not in (PAD, BOS):
                tokens.append(self.tokens[i])
        return self.join(tokens)

    def encode_batch(self, texts: Iterable[str], bos: bool = False, eos: bool = False) -> Array:
        """The ids of all texts as (B, L), padded at the end."""
        rows = [self.encode(text, bos, eos) for text in check_rows("texts", texts, "texts")]
        if not rows:
            raise ValueError("a batch needs at least one text, got none.")
        batch = np.full((len(rows), max(map(len, rows))), PAD, np.int64)
        for out, row in zip(batch, rows, strict=True):
            out[:len(row)] = row
        return batch

    def decode_batch(self, ids: Iterable[Iterable[int]]) -> list[str]:
        return [self.decode(row) for row in check_rows("ids", ids, "rows of ids")]

    def to_dict(self) -> dict[str, Any]:
        """Kind and vocabulary, ready for JSON; ``from_dict`` makes the tokenizer again."""
        return {"kind": self.kind, "tokens": self.tokens}

    def _unknown(self, token: str) -> str:
        near = difflib.get_close_matches(token, self.tokens[len(SPECIAL):], 1)
        hint = f"; the nearest is {near[0]!r}" if near else ""
        return f"unknown {self.unit} {token!r}: not in the vocabulary of {len(self)}{hint}."


class CharTokenizer(Tokenizer):
    """Each character is a token."""

    kind, unit = "char", "character"

    @classmethod
    def split(cls, text: str) -> list[str]:
        return list(compose(text))

    @classmethod
    def join(cls, tokens: Sequence[str]) -> str:
        return "".join(tokens)


class WordTokenizer(Tokenizer):
    """Each word is a token, and so is a hyphen between two: forty-two is forty, -, two."""

    kind, unit = "word", "word"

    @classmethod
    def split(cls, text: str) -> list[str]:
        text = compose(text)
        tokens = re.findall(r"[^\s-]+|-", text)
        if cls.join(tokens) != text:
            raise ValueError(
                f"words must have single spaces or a hyphen between them, got {text!r}."
            )
        return tokens

    @classmethod
    def join(cls, tokens: Sequence[str]) -> str:
        return " ".join(tokens).replace(" - ", "-")


def compose(text: str) -> str:
    """Unicode's composed form (NFC), of a text without the spelling of a special token."""
    for token in SPECIAL:
        if token in check_text("a text", text):
            raise ValueError(f"{text!r} contains {token}, the spelling of a special token.")
    return unicodedata.normalize("NFC", text)


def from_dict(saved: dict[str, Any]) -> Tokenizer:
    """The tokenizer that ``to_dict`` described."""
    kinds = {cls.kind: cls for cls in (CharTokenizer, WordTokenizer)}
    if saved.get("kind") not in kinds:
        raise ValueError(f"a tokenizer is one of {sorted(kinds)}, got {saved.get('kind')!r}.")
    return kinds[saved["kind"]](saved["tokens"])
