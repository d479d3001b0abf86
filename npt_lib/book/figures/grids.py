"""Grids of cells: attention heatmaps, matrices with their numbers, and rows of pictures."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from .cells import Cell
from .svg import (
    CANVAS,
    FONT,
    INK,
    LINE,
    MUTED,
    PALETTE,
    STRONGEST,
    Picture,
    fixed,
    group,
    num,
    path,
    rect,
    text,
    text_width,
)

MARK = PALETTE[1]
WIDEST = 440                                 # the cells of one grid, side by side
TALLEST = 400                                # and above each other
COMPACT = 200                                # the same where two grids share a line


@dataclass
class Grid:
    """Cells in rows, with what stands around them."""

    cells: list[list[Cell]]
    rows: Sequence[str] = ()
    cols: Sequence[str] = ()
    row_title: str = ""
    col_title: str = ""
    title: str = ""
    mark: Sequence[tuple[int, int]] = ()
    mark_rows: Sequence[int] = ()
    mark_cols: Sequence[int] = ()
    compact: bool = False
    size: tuple[float, float] = (0, 0)                  # of one cell: width, height
    corner: tuple[float, float] = field(default=(0, 0))   # of the cells: x, y

    def __post_init__(self):
        self.size = self.size if self.size[0] else self._size()
        self.corner = (self._left(), self._top())

    def _size(self) -> tuple[float, float]:
        """Of a cell: its number has room, and so have short column labels."""
        longest = max((text_width(c.words) for row in self.cells for c in row), default=0)
        if self.compact:
            side = min(32, COMPACT / self.n_cols)
            return side, self._low(side)
        width = round(max(33, longest + 14)) if longest else min(62, WIDEST / max(self.n_cols, 1))
        label = max((text_width(c) for c in self.cols), default=0) + 8
        if width < label <= 72 and label * self.n_cols < WIDEST:
            width = round(label)
        if longest and self._left() + width * self.n_cols > CANVAS:        # rather close than small
            width = math.floor(max(longest + 3, (CANVAS - self._left()) / self.n_cols))
        return width, 34 if longest else self._low(min(42, width))

    def _low(self, height: float) -> float:
        """A row's height, less where there are many; a label keeps its room."""
        return max(min(height, TALLEST / len(self.cells)), 21 if self.rows else 0)

    @property
    def n_cols(self) -> int:
        return max((len(row) for row in self.cells), default=0)

    @property
    def steep(self) -> bool:
        """Do the column labels need more room than a cell has?"""
        return any(text_width(c) > self.size[0] for c in self.cols)

    @property
    def slope(self) -> int:
        """How many degrees column labels are turned: more where columns are narrow."""
        return 40 if self.size[0] >= 26 else 65

    def _left(self) -> float:
        longest = max((text_width(r) for r in self.rows), default=0)
        return round(longest + 10 if longest else 0) + (28 if self.row_title else 0)

    def _top(self) -> float:
        longest = max((text_width(c) for c in self.cols), default=0)
        up = 0.64 if self.slope == 40 else 0.91                  # the sine of the slope
        labels = round(up * longest + 16 if self.steep else 24) if longest else 0
        return labels + (24 if self.col_title else 0) + (28 if self.title else 0)

    def span(self) -> tuple[float, float]:
        """Width and height of the cells alone."""
        return self.size[0] * self.n_cols, self.size[1] * len(self.cells)

    def at(self, row: float, col: float) -> tuple[float, float]:
        """The upper left point of a cell."""
        return self.corner[0] + col * self.size[0], self.corner[1] + row * self.size[1]

    def picture(self, alt: str) -> Picture:
        """The grid as a figure."""
        (width, height), (left, top) = self.span(), self.corner
        across = 0.77 if self.slope == 40 else 0.42              # its cosine
        over = max(across * text_width(self.cols[-1]) - 10, 0) if self.steep else 0
        right = max(width + over, 1.12 * text_width(self.title))
        return Picture(self.body(), left + right, top + height, alt, middle=top + height / 2)

    def body(self) -> str:
        """All of its drawing."""
        return "".join([_shades(self), _words(self), _frame(self), _labels(self), _marks(self)])


def _shades(grid: Grid) -> str:
    """The colours: one path for all cells of one colour and strength."""
    fine = grid.size[0] < 20                       # many small cells: fewer shades, no gaps
    paths: dict[tuple[str, str], str] = {}
    for r, row in enumerate(grid.cells):
        for c, cell in enumerate(row):
            if (shade := _shade(cell, fine)) is not None:
                paths[shade] = paths.get(shade, "") + (f"M{c} {r}h1v1h-1z" if fine
                                                       else _square(grid, r, c))
    (x, y), (w, h) = grid.corner, grid.size
    place = f"translate({num(x)} {num(y)}) scale({w:.3f} {h:.3f})" if fine else None
    return "".join(path(d, None, None, fill=color, fill_opacity=alpha, transform=place,
                        shape_rendering="crispEdges")
                   for (color, alpha), d in sorted(paths.items()))


def _shade(cell: Cell, fine: bool) -> tuple[str, str] | None:
    """The cell's colour and opacity, None where it has none."""
    if cell.blocked and fine:
        return MUTED, "0.12"
    alpha = STRONGEST * min(cell.strength, 1.0) * (0.45 if cell.ghost else 1)
    written = fixed(fixed_step(alpha, 0.03) if fine else alpha, 2)
    return None if written == "0.00" else (cell.color, written)


def fixed_step(value: float, step: float) -> float:
    """The nearest multiple of a step."""
    return math.floor(value / step + 0.5137) * step


def _square(grid: Grid, row: int, col: int) -> str:
    (x, y), (x1, y1) = grid.at(row, col), grid.at(row + 1, col + 1)
    x, y, x1, y1 = (math.floor(v + 0.5) for v in (x + 1, y + 1, x1 - 1, y1 - 1))
    return f"M{x} {y}H{x1}V{y1}H{x}z"


def _words(grid: Grid) -> str:
    (w, h), out = grid.size, []
    for r, row in enumerate(grid.cells):
        for c, cell in enumerate(row):
            x, y = grid.at(r, c)
            if cell.words:
                out.append(text(x + w / 2, y + h / 2, cell.words, FONT, None,
                                MUTED if cell.ghost else None))
    return group("".join(out), text_anchor="middle", fill=INK) if out else ""


def _frame(grid: Grid) -> str:
    """The outline, dashes round ghosts, a stroke through what is blocked."""
    (x, y), (width, height), (w, h) = grid.corner, grid.span(), grid.size
    places = [(r, c, cell) for r, row in enumerate(grid.cells) for c, cell in enumerate(row)]
    real = [(r, c) for r, c, cell in places if not cell.ghost]
    ghosts = len(real) < len(places)
    blocked = [grid.at(r, c) for r, c, cell in places if cell.blocked and w >= 20]
    out = rect(x, y, width, height, stroke=LINE, stroke_width=1.5, rx=3,
               stroke_dasharray="3 4" if ghosts else None)
    if ghosts and real:
        (r0, c0), (r1, c1) = real[0], real[-1]
        out += rect(*grid.at(r0, c0), (c1 - c0 + 1) * w, (r1 - r0 + 1) * h, stroke=MUTED,
                    stroke_width=1.5, rx=3)
    d = "".join(f"M{num(x + w / 2 - 8)} {num(y + h / 2 + 6)}l16 -12" for x, y in blocked)
    return out + (path(d, MUTED, 1.5, stroke_linecap="round") if d else "")


def _labels(grid: Grid) -> str:
    (x, y), (width, height), (w, h) = grid.corner, grid.span(), grid.size
    out = [text(x - 8, y + (r + 0.5) * h, label, FONT, "end") for r, label in enumerate(grid.rows)]
    for c, label in enumerate(grid.cols):
        mid = x + (c + 0.5) * w
        turned = f"rotate(-{grid.slope} {num(mid)} {num(y - 9)})"
        out.append(text(mid - 2, y - 13, label, FONT, "start", transform=turned)
                   if grid.steep else text(mid, y - 13, label))
    if grid.row_title:
        out.append(text(9, y + height / 2, grid.row_title, fill=MUTED,
                        transform=f"rotate(-90 9 {num(y + height / 2)})"))
    if grid.col_title:
        top = 37 if grid.title else 9
        out.append(text(x + width / 2, top, grid.col_title, fill=MUTED))
    if grid.title:
        out.append(text(x, 9, grid.title, FONT, "start", font_weight=700))
    return "".join(out)


def _marks(grid: Grid) -> str:
    (w, h), rows, cols = grid.size, len(grid.cells), grid.n_cols
    boxes = [(grid.at(r % rows, c % cols), w, h) for r, c in grid.mark]
    boxes += [(grid.at(r % rows, 0), w * cols, h) for r in grid.mark_rows]
    boxes += [(grid.at(0, c % cols), w, h * rows) for c in grid.mark_cols]
    return "".join(rect(x + 1, y + 1, bw - 2, bh - 2, stroke=MARK, stroke_width=2.5, rx=4)
                   for (x, y), bw, bh in boxes)
