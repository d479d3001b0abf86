"""What a language model reads: NumPy's own documentation, which every reader has installed."""

import importlib
import inspect
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from npt_lib.module import Array
from npt_lib.require import check_count
from npt_lib.tokenizer import Tokenizer

# the public modules; the other polynomials repeat the first one word by word
MODULES = ("numpy", "numpy.char", "numpy.fft", "numpy.lib.format", "numpy.linalg", "numpy.ma",
           "numpy.polynomial.polynomial", "numpy.random", "numpy.testing")
HELD_OUT = 12                          # one name of so many


@dataclass(frozen=True)
class Texts:
    """Texts to learn from, and texts that are held out."""

    name: str
    train: list[str]
    test: list[str]

    def rows(self, tokenizer: Tokenizer, length: int, part: str = "train") -> tuple[Array]:
        """All texts of "train" or "test", an end token after each, as rows of length + 1 ids.

        A row's last id is the next row's first, so each id but the very first is predicted once.
        What does not fill a row at the end is left out.
        """
        if part not in ("train", "test"):
            raise ValueError(f"part must be 'train' or 'test', got {part!r}.")
        texts = self.train if part == "train" else self.test
        ids = np.array([i for text in texts for i in tokenizer.encode(text, eos=True)])
        n_rows = (len(ids) - 1) // check_count("length", length)
        if n_rows < 1:
            raise ValueError(f"length={length} is longer than the texts, {len(ids)} ids in all.")
        starts = length * np.arange(n_rows)[:, None]
        return (ids[starts + np.arange(length + 1)],)

    def __repr__(self) -> str:
        return f"Texts({self.name!r}, {len(self.train)} train, {len(self.test)} test)"


def numpy_documentation() -> Texts:
    """Every docstring of NumPy's public modules once, in order of their names.

    A function with one name in several modules (numpy.sum, numpy.ma.sum) is held out in all of
    them or in none: which, its name alone decides.
    """
    texts: dict[str, list[str]] = {"train": [], "test": []}
    seen: set[str] = set()
    for name, text in docstrings(MODULES):
        if text not in seen:
            seen.add(text)
            held_out = zlib.crc32(name.split(".")[-1].encode()) % HELD_OUT == 0
            texts["test" if held_out else "train"].append(text)
    return Texts("numpy documentation", **texts)


def docstrings(modules: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """(name, docstring) of all that is public in these modules and in their classes."""
    found: list[tuple[str, object]] = []
    for module in modules:
        top = importlib.import_module(module)
        found += [(module, top), *members(module, top)]
    for name, thing in sorted(found, key=lambda pair: pair[0]):
        text = getattr(thing, "__doc__", None)
        if isinstance(text, str) and text.strip():
            yield name, inspect.cleandoc(text)


def members(path: str, thing: object) -> Iterator[tuple[str, object]]:
    for name, value in vars(thing).items():
        if not name.startswith("_") and not isinstance(value, ModuleType):
            yield f"{path}.{name}", value
            if isinstance(value, type):
                yield from members(f"{path}.{name}", value)
