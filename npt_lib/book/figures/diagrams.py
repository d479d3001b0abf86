"""Shapes as boxes with named axes, and values that flow through operations."""

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from .arrays import middle_of, row
from .svg import (
    FONT,
    INK,
    LINE,
    MONO,
    MUTED,
    PALETTE,
    PAPER,
    SOFT,
    Picture,
    arrow,
    element,
    group,
    num,
    path,
    rect,
    text,
    text_width,
)

# one colour for each axis letter, the same in every figure
AXES = {"B": 5, "T": 0, "L": 0, "S": 2, "D": 1, "H": 3, "K": 4, "F": 4, "V": 2}
SIDES = {"B": 40, "T": 62, "L": 62, "S": 78, "D": 92, "H": 40, "K": 48, "F": 112, "V": 100}
CELL, LIFT, LONGEST = 12, 7, 144
TENSOR = re.compile(r"^(.*?)\s*\(([A-Z]\w*(?:\s*,\s*[A-Z]\w*)*),?\)$")
GRADIENT = PALETTE[1]


def color_of(letter: str) -> str:
    """The colour of an axis: its letter decides."""
    return PALETTE[AXES[letter[0]]] if letter[0] in AXES else INK


def shapes(*steps: str, alt: str, sizes: Mapping[str, int] | None = None) -> Picture:
    """Tensors as boxes, operations as arrows: "x (B, T, D)" is a tensor, "reshape" an operation.

    sizes gives numbers for letters. The last two axes are a box's sides, the one before them
    its sheets, the first of four its stacks.
    """
    parts: list[Picture | str] = []
    before: list[Picture] = []                     # an operation stays with what it leads to
    for step in steps:
        if found := TENSOR.match(step):
            box = Tensor(found[1], re.findall(r"\w+", found[2]), sizes or {}).picture(step)
            parts.append(row(*before, box, width=1000))
            before = []
        elif len(step) <= 2:                       # signs such as @ and = stay signs
            parts.append(step)
        else:
            before = [_operation(step)]
    return row(*parts, *before, alt=alt)


def _operation(label: str) -> Picture:
    """An arrow that says what is done."""
    width = max(text_width(label, mono=True), 36)
    return Picture(text(width / 2, 8, label, mono=True)
                   + arrow((0, 28), (width, 28), color=MUTED), width, 46, label, middle=28)


@dataclass
class Tensor:
    """A box for an array: columns and rows, sheets behind, stacks beside each other."""

    name: str
    letters: list[str]
    sizes: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self):
        if not 1 <= len(self.letters) <= 4:
            shape = f"{self.name} ({', '.join(self.letters)})"
            raise ValueError(f"shapes draws 1 to 4 axes, got {len(self.letters)}: {shape}.")

    def count(self, place: int, most: int) -> int:
        """How many copies to draw for the axis that many places from the end."""
        if len(self.letters) < place:
            return 1
        return min(self.sizes.get(self.letters[-place], 3), most)

    def side(self, place: int) -> float:
        """How long the axis is drawn."""
        if len(self.letters) < place:
            return 22
        letter = self.letters[-place]
        drawn = self.sizes[letter] * CELL if letter in self.sizes else SIDES.get(letter[0], 60)
        return min(max(drawn, CELL), LONGEST)

    def picture(self, alt: str) -> Picture:
        """The box with its letters and, below, its name and shape."""
        width, height = self.side(1), self.side(2)
        sheets, stacks = self.count(3, 4), self.count(4, 3)
        lift, left = LIFT * (sheets - 1), self._room(2) + 8
        top = lift + 12 + (22 if len(self.letters) > 3 else 0)
        step = width + lift + 16
        total = left + step * stacks - 16
        body = "".join(self._sheet(left + n * step + s * LIFT, top - s * LIFT, width, height)
                       for n in range(stacks) for s in reversed(range(sheets)))
        body += self._letters(left, top, width, height, lift, total)
        comma = "," if len(self.letters) == 1 else ""
        words = f"{self.name} ({', '.join(self.letters)}{comma})".strip()
        wide = max(total, text_width(words, mono=True))
        body += self._caption(left + (total - left) / 2 if wide == total else wide / 2,
                              top + height + 44, words)
        return Picture(body, wide, top + height + 54, alt, middle=top + height / 2)

    def _room(self, place: int) -> float:
        return text_width(self._label(place)) if len(self.letters) >= place else 0

    def _label(self, place: int) -> str:
        letter = self.letters[-place]
        return f"{letter} = {self.sizes[letter]}" if letter in self.sizes else letter

    def _cells(self, place: int) -> int:
        """How many cells to show along an axis: its size, 1 where that is unknown or large."""
        size = self.sizes.get(self.letters[-place], 1) if len(self.letters) >= place else 1
        return size if size * CELL <= LONGEST else 1

    def _sheet(self, x: float, y: float, width: float, height: float) -> str:
        """One face, with a line for each cell where the sizes are known and small."""
        n_cols, n_rows = self._cells(1), self._cells(2)
        d = "".join(f"M{num(x + c * width / n_cols)} {num(y)}v{num(height)}"
                    for c in range(1, n_cols))
        d += "".join(f"M{num(x)} {num(y + r * height / n_rows)}h{num(width)}"
                     for r in range(1, n_rows))
        return (rect(x, y, width, height, PAPER, rx=3) + rect(x, y, width, height, SOFT, rx=3)
                + (path(d, LINE, 1) if d else "")
                + rect(x, y, width, height, stroke=MUTED, stroke_width=1.3, rx=3))

    def _letters(self, x, y, width, height, lift, total) -> str:
        """The axes' letters, each along its side."""
        places = [(x + width / 2, y + height + 16, "middle"), (x - 7, y + height / 2, "end"),
                  (x + lift / 2 - 7, y - lift / 2 - 5, "end"), (x + (total - x) / 2, 8, "middle")]
        out = [text(px, py, self._label(n), anchor=anchor, fill=color_of(self.letters[-n]),
                    font_weight=700)
               for n, (px, py, anchor) in enumerate(places[:len(self.letters)], 1)]
        if len(self.letters) > 3:
            out.append(path(f"M{x:.0f} 24v-5H{total:.0f}v5", color_of(self.letters[0]), 1.3))
        return "".join(out)

    def _caption(self, x: float, y: float, words: str) -> str:
        pieces = re.split(r"(\b[A-Z]\w*\b)", words[len(self.name):])
        inner = html.escape(self.name) + "".join(
            element("tspan", piece, fill=color_of(piece)) if i % 2 else html.escape(piece)
            for i, piece in enumerate(pieces))
        return element("text", inner, x=x, y=y, font_size=FONT, font_family=MONO, fill=INK,
                       text_anchor="middle")


def flow(*parts: str, alt: str, back: bool = False) -> Picture:
    """Values joined by arrows through boxes: "[Linear]" is a box, "x" a value.

    back draws the way back below it: dashed, from right to left, dx for each value x.
    """
    drawn = [_box(part[1:-1]) if part.startswith("[") else _value(part, back) for part in parts]
    body, x, middle = "", 0.0, 24.0
    for n, part in enumerate(drawn):
        if n:
            body += arrow((x + 5, middle), (x + 27, middle), color=MUTED)
            body += _returns(x, middle, back)
            x += 32
        body += group(part.body, x, middle - middle_of(part))
        x += part.width
    return Picture(body, x, middle + (50 if back else 20), alt)


def _returns(x: float, middle: float, back: bool) -> str:
    """The dashed arrow under a forward one."""
    if not back:
        return ""
    return arrow((x + 27, middle + 34), (x + 5, middle + 34), color=GRADIENT, dash="4 3")


def _box(words: str) -> Picture:
    width = text_width(words) + 26
    return Picture(rect(0, 0, width, 36, SOFT, stroke=MUTED, stroke_width=1.3, rx=6)
                   + text(width / 2, 18, words), width, 36, words, middle=18)


def _value(words: str, back: bool) -> Picture:
    name = words.split(" (")[0]
    width = 1.12 * max(text_width(words), text_width("d" + name) if back else 0)
    body = text(width / 2, 10, words, font_weight=700)
    if back:
        body += text(width / 2, 44, "d" + name, fill=GRADIENT)
    return Picture(body, width, 20, words, middle=10)
