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
    """A vocabulary, ``tokens``, and the way between texts and lists of ids.

    decode(encode(text)) is the text, in composed form (NFC) where tokens are whole words or
    letters; what cannot come back so is a ValueError. One of your own has kind, its name
    in files, and ids_of, text_of, to_dict and the classmethod from_dict, which reads that dict.
    """

    kind: ClassVar[str]
    kinds: ClassVar[dict[str, type["Tokenizer"]]] = {}
    pad_id: int | None = PAD
    bos_id: int = BOS
    eos_id: int = EOS
    tokens: list[str]

    def __init_subclass__(cls) -> None:
        if "kind" in vars(cls):
            Tokenizer.kinds[cls.kind] = cls

    @abstractmethod
    def ids_of(self, text: str) -> list[int]:
        """The ids of a text, without special tokens."""

    @abstractmethod
    def text_of(self, ids: list[int]) -> str:
        """The text of ids that are no special tokens."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Its kind and all else that ``from_dict`` makes it from again, ready for JSON."""

    @classmethod
    @abstractmethod
    def from_dict(cls, saved: dict[str, Any]) -> Self:
        """The tokenizer that ``to_dict`` described."""

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} tokens)"

    def encode(self, text: str, bos: bool = False, eos: bool = False) -> list[int]:
        """The ids of a text, with the start and end tokens around it if asked for."""
        bos, eos = check_flag("bos", bos), check_flag("eos", eos)
        return [self.bos_id] * bos + self.ids_of(check_text("a text", text)) + [self.eos_id] * eos

    def decode(self, ids: Iterable[int]) -> str:
        """The text of a row of ids, up to the first end token; padding is left out."""
        content = []
        for i in check_rows("ids", ids, "whole numbers"):
            if not isinstance(i, int | np.integer):
                raise ValueError(f"ids must be whole numbers, got {i}.")
            if not 0 <= i < len(self):
                raise ValueError(f"id {i} is outside the vocabulary of {len(self)}.")
            if i == self.eos_id:
                break
            if i not in (self.pad_id, self.bos_id):
                content.append(int(i))
        return self.text_of(content)

    def encode_batch(self, texts: Iterable[str], bos: bool = False, eos: bool = False) -> Array:
        """The ids of all texts as (B, L), padded at the end."""
        if isinstance(texts, str):
            raise ValueError("encode_batch needs a list of texts, got one text.")
        rows = [self.encode(text, bos, eos) for text in check_rows("texts", texts, "texts")]
        if not rows:
            raise ValueError("a batch needs at least one text, got none.")
        lengths = {len(row) for row in rows}
        if self.pad_id is None and len(lengths) > 1:
            raise ValueError(f"{self} has no padding: a batch needs rows of one length, got "
                             f"{sorted(lengths)}.")
        batch = np.full((len(rows), max(lengths)), self.pad_id or PAD, np.int64)
        for out, row in zip(batch, rows, strict=True):
            out[:len(row)] = row
        return batch

    def decode_batch(self, ids: Iterable[Iterable[int]]) -> list[str]:
        return [self.decode(row) for row in check_rows("ids", ids, "rows of ids")]


class ListTokenizer(Tokenizer):
    """A tokenizer with a list of all tokens that it knows; ``split`` says what a token is.

    tokens: the vocabulary, with or without the three special tokens in front of it.
    Texts are composed first (NFC), so that "é" is the same token however it was typed.
    """

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
        return cls(sorted({token for text in check_texts(texts) for token in cls.split(text)}))

    @classmethod
    @abstractmethod
    def split(cls, text: str) -> list[str]:
        """The tokens of a text."""

    @classmethod
    @abstractmethod
    def join(cls, tokens: Sequence[str]) -> str:
        """The text of these tokens: split, reversed."""

    def ids_of(self, text: str) -> list[int]:
        tokens = self.split(text)
        unknown = [token for token in tokens if token not in self.ids]
        if unknown:
            raise ValueError(self._unknown(unknown[0]))
        return [self.ids[token] for token in tokens]

    def text_of(self, ids: list[int]) -> str:
        return self.join([self.tokens[i] for i in ids])

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "tokens": self.tokens}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Self:
        return cls(saved["tokens"])

    def _unknown(self, token: str) -> str:
        near = difflib.get_close_matches(token, self.tokens[len(SPECIAL):], 1)
        hint = f"; the nearest is {near[0]!r}" if near else ""
        return f"unknown {self.unit} {token!r}: not in the vocabulary of {len(self)}{hint}."


class CharTokenizer(ListTokenizer):
    """Each character is a token."""

    kind, unit = "char", "character"

    @classmethod
    def split(cls, text: str) -> list[str]:
        return list(compose(text))

    @classmethod
    def join(cls, tokens: Sequence[str]) -> str:
        return "".join(tokens)


class WordTokenizer(ListTokenizer):
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


def check_texts(texts: Iterable[str]) -> list[str]:
    """Texts to learn a vocabulary from; one text alone would be taken for its letters."""
    if isinstance(texts, str):
        raise ValueError("from_texts needs a list of texts, got one text.")
    return [check_text("a text", text) for text in check_rows("texts", texts, "texts")]


def from_dict(saved: dict[str, Any]) -> Tokenizer:
    """The tokenizer that ``to_dict`` described."""
    kinds = Tokenizer.kinds
    if saved.get("kind") not in kinds:
        raise ValueError(f"a tokenizer is one of {sorted(kinds)}, got {saved.get('kind')!r}.")
    return kinds[saved["kind"]].from_dict(saved)
