"""Where elements go: products, broadcasting, and any operation that only moves them."""

from collections.abc import Callable, Sequence

import numpy as np

from .arrays import GAP, LIMIT, column, matrix, row
from .cells import cells_of
from .grids import Grid
from .svg import FONT, MUTED, Picture, arrow, group, text, text_width

OPERATIONS = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}


def product(a, b, alt: str, *, cell: Sequence[int] | None = None,
            names: tuple[str, str, str] = ("A", "B", "A @ B"), digits: int = 2,
            rows: Sequence[str] = (), cols: Sequence[str] = (),
            largest: float | None = None) -> Picture:
    """a @ b laid out so that a row of a and a column of b meet in their cell of the result.

    rows name the rows of a, cols the columns of b. cell = (i, j) outlines that row, that column
    and that cell. Stacked matrices (three axes) make a picture for each sheet; there
    cell = (n, i, j). With largest, all three are shaded on one scale up to it.
    """
    a, b = np.asarray(a), np.asarray(b)
    if a.ndim == b.ndim == 2:
        return _product(a, b, alt, cell, names, digits, rows, cols, largest)
    sheets = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if len(sheets) != 1:
        raise ValueError(f"product draws 2 or 3 axes, got {a.shape} @ {b.shape}.")
    a, b = (np.broadcast_to(x, sheets + x.shape[-2:]) for x in (a, b))
    return row(*(_product(a[n], b[n], alt, cell[1:] if cell and cell[0] == n else None,
                          [f"({name})[{n}]" if " " in name else f"{name}[{n}]" for name in names],
                    digits, rows, cols, largest)
                 for n in range(sheets[0])), alt=alt, gap=32)


def _product(a, b, alt: str, cell, names: Sequence[str], digits: int,
             rows: Sequence[str], cols: Sequence[str], largest: float | None) -> Picture:
    """A at the lower left, B above the result."""
    i, j = cell if cell else (None, None)
    marks: tuple[dict, ...] = ({},) * 3
    if cell:
        marks = {"mark_rows": [i]}, {"mark_cols": [j]}, {"mark": [(i, j)]}
    labels: tuple[dict, ...] = {"rows": rows}, {"cols": cols}, {}
    arrays = [Grid(cells_of(x, digits, largest=largest), title=name, **label, **mark)
              for x, name, label, mark in zip((a, b, a @ b), names, labels, marks, strict=True)]
    width = max(grid.size[0] for grid in arrays)
    for grid in arrays:
        grid.size = (width, grid.size[1])
    left, top, result = (grid.picture(alt) for grid in arrays)
    x, y = left.width + 16, top.height + 14
    return Picture(group(left.body, 0, y) + group(top.body, x) + group(result.body, x, y),
                   x + max(top.width, result.width), y + result.height, alt)


def broadcasting(a, b, alt: str, *, op: str = "+", names: tuple[str, str, str] = ("", "", ""),
                 digits: int = 2) -> Picture:
    """a op b = result; each side is drawn stretched, its repeated cells dashed."""
    a, b = np.asarray(a), np.asarray(b)
    result = OPERATIONS[op](a, b)
    left, right = (matrix(np.broadcast_to(x, result.shape), alt, digits=digits, title=name,
                          groups=_trace(x, result.shape), ghost=_repeated(x, result.shape))
                   for x, name in zip((a, b), names[:2], strict=True))
    groups = _trace(b if b.size < a.size else a, result.shape)
    return row(left, op, right, "=", matrix(result, alt, digits=digits, title=names[2],
                                            groups=groups), alt=alt)


def _trace(x, shape) -> np.ndarray:
    """Which element of x each place of the stretched array holds; -1 where x has them all."""
    if x.shape == tuple(shape):
        return np.full(shape, -1)
    return np.broadcast_to(np.arange(x.size).reshape(x.shape), shape)


def _repeated(x, shape) -> np.ndarray:
    """True where the stretched array only repeats an element."""
    seen = np.zeros(x.size, bool)
    ghost = np.empty(shape, bool)
    places = np.broadcast_to(np.arange(x.size).reshape(x.shape), shape)
    for place in np.ndindex(*shape):
        ghost[place], seen[places[place]] = seen[places[place]], True
    return ghost


def move(x, f: Callable, label: str, alt: str, *, by: int = 0, digits: int = 0,
         names: tuple[str, str] = ("", "")) -> Picture:
    """x, an arrow, f(x), where f only moves elements: each cell keeps the colour it came with.

    by is the axis of x whose index gives the colour.
    """
    x = np.asarray(x)
    colors = np.indices(x.shape)[by]
    moved, colors_moved = f(x), f(colors)
    before = matrix(x, alt, digits=digits, title=names[0], groups=colors)
    after = matrix(moved, alt, digits=digits, title=names[1], groups=colors_moved)
    width = text_width(label, mono=True) + 12
    if before.width + width + after.width + 2 * GAP > LIMIT:
        return column(before, _down(label), after, alt=alt, gap=8)
    return row(before, _across(label, width), after, alt=alt)


def _across(label: str, width: float) -> Picture:
    """An arrow to the right, the operation above it."""
    return Picture(text(width / 2, 8, label, mono=True)
                   + arrow((0, 28), (width, 28), color=MUTED), width, 46, label, middle=28)


def _down(label: str) -> Picture:
    """An arrow down, the operation beside it."""
    words = text(40, 16, label, FONT, "start", mono=True)
    return Picture(arrow((24, 0), (24, 34), color=MUTED) + words,
                   40 + text_width(label, mono=True), 36, label)
