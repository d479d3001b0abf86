"""The cells of a grid: how an array's numbers turn into words and colours."""

from dataclasses import dataclass

import numpy as np

from .svg import MINUS, PALETTE, PLUS, fixed


@dataclass
class Cell:
    """One square: its colour, how strong it is (0 to 1), its words, and what is special."""

    color: str = PLUS
    strength: float = 0.0
    words: str = ""
    ghost: bool = False
    blocked: bool = False


def cells_of(values, digits: int = 2, groups=None, ghost=None,
             largest: float | None = None) -> list[list[Cell]]:
    """The cells of a matrix: words and colours. The largest value has the darkest, unless given."""
    sizes = np.abs(values[np.isfinite(values)].astype(float))
    largest = largest or float(sizes.max(initial=0.0)) or 1.0
    groups = np.full(values.shape, None) if groups is None else np.reshape(groups, values.shape)
    ghost = np.reshape(np.zeros(values.shape, bool) if ghost is None else ghost, values.shape)
    return [[_cell(values[i, j], digits, largest, groups[i, j], bool(ghost[i, j]))
             for j in range(values.shape[1])] for i in range(values.shape[0])]


def _cell(value, digits: int, largest: float, which: int | None, ghost: bool) -> Cell:
    words = _words(value, digits)
    if which is not None:
        strength = 0.0 if which < 0 else (0.3, 0.5)[which // 5 % 2]
        return Cell(PALETTE[which % 5], strength, words, ghost)
    size = float(value) if np.isfinite(value) else 0.0
    return Cell(PLUS if size > 0 else MINUS, 0.6 * abs(size) / largest, words, ghost)


def _words(value, digits: int) -> str:
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value)).replace("-", "−")
    return "" if np.isnan(value) else fixed(float(value), digits)
