"""Pictures of arrays: attention heatmaps, matrices with their numbers, rows of pictures."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .cells import Cell, cells_of
from .grids import Grid
from .svg import (
    CANVAS,
    LINE,
    MINUS,
    MUTED,
    PLUS,
    STRONGEST,
    Picture,
    arrow,
    fixed,
    group,
    rect,
    text,
    text_width,
)

LIMIT = CANVAS                               # beyond this width a row of pictures has two lines
GAP = 14


def heatmap(weights, rows: Sequence[str] | None, cols: Sequence[str] | None, alt: str, *,
            values: bool = False, digits: int = 2, mask=None, row_title: str = "query",
            col_title: str = "key", mark_rows: Sequence[int] = (),
            mark_cols: Sequence[int] = (), title: str = "", vmax: float = 1.0,
            key: bool = True) -> Picture:
    """Attention weights (T, S) as shades, one row for each query, one column for each key.

    mask is boolean, True = may attend; what is False gets a stroke. values prints the numbers.
    Below zero is orange; vmax is the size that gets the full colour. Where no numbers stand in
    the cells, a key below them says what a shade means; in a row, the last heatmap has it.
    """
    w = _two_axes(weights, "weights")
    _same_length(rows, w.shape[0], "rows")
    _same_length(cols, w.shape[1], "cols")
    open_ = np.ones(w.shape, bool) if mask is None else np.broadcast_to(mask, w.shape)
    cells = [[_shaded(float(v), vmax, digits if values else None, bool(ok))
              for v, ok in zip(*pair, strict=True)] for pair in zip(w, open_, strict=True)]
    grid = Grid(cells, rows or (), cols or (), row_title, col_title, title,
                mark_rows=mark_rows, mark_cols=mark_cols)
    drawn = grid.picture(alt)
    if values:
        return drawn
    small = replace(grid, compact=True, size=(0, 0)).picture(alt)
    shades = _key(vmax, bool((w[open_] < 0).any()))
    beside = small, _below(small, shades) if key else small
    return replace(_below(drawn, shades) if key else drawn, beside=beside)


def _key(vmax: float, signed: bool) -> Picture:
    """What the shades mean: from nothing, or from the most negative, to the full colour."""
    shares = [n / 6 for n in range(-6 if signed else 0, 7)]
    ends = [f"−{vmax:g}", "0", f"{vmax:g}"] if signed else ["0", f"{vmax:g}"]
    x = text_width(ends[0]) + 6
    body = text(x - 6, 9, ends[0], anchor="end")
    for n, share in enumerate(shares):
        body += rect(x + 15 * n, 1, 15, 16, PLUS if share >= 0 else MINUS,
                     fill_opacity=fixed(STRONGEST * abs(share), 2))
    wide = 15.0 * len(shares)
    body += rect(x, 1, wide, 16, stroke=LINE, stroke_width=1.2, rx=2)
    body += text(x + wide + 6, 9, ends[-1], anchor="start")
    return Picture(body, x + wide + 6 + text_width(ends[-1]), 18, f"shades from {ends[0]}")


def _below(drawn: Picture, key: Picture) -> Picture:
    """A grid with its key under it, at the right."""
    x = max(drawn.width - key.width, 0)
    return replace(drawn, body=drawn.body + group(key.body, x, drawn.height + 14),
                   width=max(drawn.width, key.width), height=drawn.height + 14 + key.height)


def _shaded(value: float, vmax: float, digits: int | None, allowed: bool) -> Cell:
    words = fixed(value, digits) if digits is not None and allowed else ""
    return Cell(PLUS if value >= 0 else MINUS, abs(value) / vmax, words, blocked=not allowed)


def matrix(values, alt: str, *, rows: Sequence[str] | None = None,
           cols: Sequence[str] | None = None, digits: int = 2, title: str = "", groups=None,
           mark: Sequence[tuple[int, int]] = (), mark_rows: Sequence[int] = (),
           mark_cols: Sequence[int] = (), ghost=None) -> Picture:
    """An array with its numbers. One axis is drawn as a row, three as sheets side by side.

    Shaded by sign and size, or by groups: integers of the same shape, a colour each, -1 for none.
    """
    values = np.asarray(values)
    if values.ndim == 3:
        return _sheets(values, alt, groups, rows=rows, cols=cols, digits=digits, title=title,
                       mark=mark, mark_rows=mark_rows, mark_cols=mark_cols)
    flat = _two_axes(np.atleast_2d(values), "values")
    cells = cells_of(flat, digits, groups, ghost)
    _same_length(rows, flat.shape[0], "rows")
    _same_length(cols, flat.shape[1], "cols")
    return Grid(cells, rows or (), cols or (), title=title, mark=mark, mark_rows=mark_rows,
                mark_cols=mark_cols).picture(alt)


def _sheets(values, alt, groups, title, **options) -> Picture:
    found = [None] * len(values) if groups is None else groups
    parts = [matrix(sheet, alt, groups=g, title=f"{title}[{i}]", **options)
             for i, (sheet, g) in enumerate(zip(values, found, strict=True))]
    return row(*parts, alt=alt)


def row(*parts: Picture | str, alt: str | None = None, width: float = LIMIT,
        gap: float = GAP) -> Picture:
    """Pictures and signs ("+", "->", any words) side by side, on a new line beyond the width.

    A sign stays with the picture after it. Heatmaps are drawn smaller, and share a key.
    """
    lines = [_line(line, gap) for line in _wrap(_units(_smaller(parts)), width, gap)]
    words = " ".join(part if isinstance(part, str) else part.alt for part in parts)
    return column(*lines, alt=alt or words)


def column(*parts: Picture, alt: str, gap: float = 24) -> Picture:
    """Pictures below each other."""
    body, y = "", 0.0
    for part in parts:
        body += group(part.body, 0, y)
        y += part.height + gap
    only = parts[0].middle if len(parts) == 1 else None
    return Picture(body, max(part.width for part in parts), y - gap, alt, middle=only)


def _line(parts: list[Picture], gap: float) -> Picture:
    """Side by side, lined up at their middles."""
    above = max(middle_of(part) for part in parts)
    below = max(part.height - middle_of(part) for part in parts)
    body, x = "", 0.0
    for part in parts:
        body += group(part.body, x, above - middle_of(part))
        x += part.width + gap
    return Picture(body, x - gap, above + below, "a line", middle=above)


def middle_of(picture: Picture) -> float:
    """The height at which a picture is lined up with its neighbours."""
    return picture.height / 2 if picture.middle is None else picture.middle


def _smaller(parts: Sequence[Picture | str]) -> list[Picture | str]:
    """Heatmaps beside something are smaller, and only the last has a key."""
    shaded = {n: part.beside for n, part in enumerate(parts)
              if isinstance(part, Picture) and part.beside}
    if sum(isinstance(part, Picture) for part in parts) < 2:
        return list(parts)
    return [shaded[n][n == max(shaded)] if n in shaded else part for n, part in enumerate(parts)]


def _units(parts: Sequence[Picture | str]) -> list[list[Picture]]:
    """What stays together on a line: a picture and the signs before it."""
    units: list[list[Picture]] = [[]]
    joins = True
    for part in parts:
        if not joins:
            units.append([])
        joins = isinstance(part, str)
        units[-1].append(_sign(part) if isinstance(part, str) else part)
    return units


def _wrap(units: list[list[Picture]], width: float, gap: float) -> list[list[Picture]]:
    lines: list[list[Picture]] = [[]]
    x = 0.0
    for unit in units:
        wide = sum(part.width + gap for part in unit)
        if lines[-1] and x + wide - gap > width:
            lines.append([])
            x = 0.0
        lines[-1] += unit
        x += wide
    return lines


def _sign(words: str) -> Picture:
    """An operator between two pictures."""
    if words in ("->", "→"):
        return Picture(arrow((0, 8), (34, 8), color=MUTED), 34, 16, words)
    if len(words) <= 2:
        sign = words.replace("-", "−").replace("*", "×")
        return Picture(text(8, 10, sign, 20), 16, 20, words)
    size = text_width(words)
    return Picture(text(size / 2, 9, words), size, 18, words)


def _two_axes(values, name: str) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim != 2:
        raise ValueError(f"{name} must have two axes to be drawn as a grid, got {values.shape}.")
    return values


def _same_length(labels: Sequence[str] | None, size: int, name: str) -> None:
    if labels is not None and len(labels) != size:
        raise ValueError(f"{name} needs {size} labels, one for each of them, got {len(labels)}.")
