"""Graphs: a computation with its values and gradients, and the tree of a beam search."""

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from .svg import (
    CANVAS,
    INK,
    LINE,
    MUTED,
    PALETTE,
    PAPER,
    SOFT,
    Picture,
    arrow,
    fixed,
    group,
    haloed,
    path,
    rect,
    text,
    text_width,
)

BACK = PALETTE[1]
LIT = PALETTE[0]
STEP = 26                                        # between the lines of a box


def graph(nodes: Mapping[str, str], alt: str, *, values: Mapping[str, float] | None = None,
          gradients: Mapping[str, float] | None = None,
          paths: Mapping[tuple[str, str], float] | None = None,
          mark: Sequence[str] = (), digits: int = 2) -> Picture:
    """A computation as a graph: {"a": "", "b": "", "u": "a * b"} has two inputs and a product.

    values are written in the boxes, gradients below them in orange. paths gives, for (a, u), what
    comes back from u to a: a dashed arrow with its number. mark names boxes to be lit.
    """
    sources = {name: [n for n in dict.fromkeys(re.findall(r"[^\W\d]\w*", made)) if n in nodes]
               for name, made in nodes.items()}
    column = _columns(sources)
    lines = {name: _lines(name, nodes[name], values, gradients, digits) for name in nodes}
    size = {name: (max(text_width(words) for words, _ in found) + 24, STEP * len(found) + 8)
            for name, found in lines.items()}
    x, width = _across(column, size)
    y, height = _down(sources, column, size)
    body = "".join(_edge(a, b, x, y, size, paths or {}, digits)
                   for b, made in sources.items() for a in made)
    body += "".join(group(_node(lines[name], size[name], name in mark), x[name], y[name])
                    for name in nodes)
    return Picture(body, width, height, alt)


def _lines(name, made, values, gradients, digits) -> list[tuple[str, dict]]:
    """What stands in a box: its name and formula, its value, its gradient."""
    title = f"{name} = {made.replace('*', '·')}" if made else name
    found: list[tuple[str, dict]] = [(title, {"fill": INK})]
    if values and name in values:
        found.append((fixed(float(values[name]), digits), {"fill": LIT, "font_weight": 700}))
    if gradients and name in gradients:
        found.append((f"d{name} = {fixed(float(gradients[name]), digits)}", {"fill": BACK}))
    return found


def _columns(sources: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """A box stands right of all that it is made of; an input directly left of its first use."""
    column: dict[str, int] = {}

    def place(name: str) -> int:
        if name not in column:
            column[name] = 1 + max(map(place, sources[name]), default=-1)
        return column[name]

    for name in sources:
        place(name)
    for name, made in sources.items():
        users = [column[user] for user, read in sources.items() if name in read]
        if not made and users:
            column[name] = min(users) - 1
    return column


def _across(column: Mapping[str, int], size: Mapping) -> tuple[dict[str, float], float]:
    """The left edge of each box, and the whole width: the columns share the canvas."""
    wide = [max(size[name][0] for name in column if column[name] == n)
            for n in range(max(column.values()) + 1)]
    gap = max(40.0, min(130.0, (CANVAS - sum(wide)) / max(len(wide) - 1, 1)))
    left = [sum(wide[:n]) + gap * n for n in range(len(wide))]
    x = {name: left[n] + (wide[n] - size[name][0]) / 2 for name, n in column.items()}
    return x, sum(wide) + gap * (len(wide) - 1)


def _down(sources, column, size) -> tuple[dict[str, float], float]:
    """The top of each box: at the height of what it is made of, apart within a column."""
    middle: dict[str, float] = {}
    inputs = [name for name, made in sources.items() if not made]
    tall = max(height for _, height in size.values()) + 24
    for n, name in enumerate(inputs):
        middle[name] = tall * (n + 0.5)
    for name in sorted((n for n in sources if sources[n]), key=lambda n: column[n]):
        middle[name] = sum(middle[made] for made in sources[name]) / len(sources[name])
    for n in set(column.values()):
        shared = sorted((name for name in sources if column[name] == n), key=lambda k: middle[k])
        for above, below in pairwise(shared):
            middle[below] = max(middle[below], middle[above] + tall)
    top = min(middle[name] - size[name][1] / 2 for name in sources)
    y = {name: middle[name] - size[name][1] / 2 - top for name in sources}
    return y, max(y[name] + size[name][1] for name in sources)


def _edge(a: str, b: str, x, y, size, paths, digits: int) -> str:
    """From box a to box b; below it what comes back, if that is given."""
    x0, x1 = x[a] + size[a][0] + 3, x[b] - 3
    y0, y1 = y[a] + size[a][1] / 2, y[b] + size[b][1] / 2
    if (a, b) not in paths:
        return arrow((x0, y0), (x1, y1), color=MUTED)
    words, length = fixed(float(paths[a, b]), digits), math.hypot(x1 - x0, y1 - y0)
    right, down = -6 * (y1 - y0) / length, 6 * (x1 - x0) / length        # across the arrow
    return (arrow((x0 - right, y0 - down), (x1 - right, y1 - down), color=MUTED)
            + arrow((x1 + right, y1 + down), (x0 + right, y0 + down), color=BACK, dash="4 3")
            + haloed((x0 + x1) / 2 + 2.6 * right, (y0 + y1) / 2 + 2.6 * down, words, BACK))


def _node(lines: Sequence[tuple[str, dict]], size: tuple[float, float], lit: bool) -> str:
    width, height = size
    words = "".join(text(width / 2, 4 + STEP * (n + 0.5), line, **look)
                    for n, (line, look) in enumerate(lines))
    return (rect(0, 0, width, height, PAPER, rx=7, class_="npt-solid")
            + rect(0, 0, width, height, LIT if lit else SOFT, rx=7,
                   fill_opacity="0.16" if lit else None)
            + rect(0, 0, width, height, stroke=LIT if lit else MUTED,
                   stroke_width=2 if lit else 1.3, rx=7) + words)


def tree(levels: Sequence[Sequence[tuple[str, float, int, bool]]], alt: str, *,
         root: str = "<bos>", best: int | None = None, digits: int = 2) -> Picture:
    """A search from left to right: each level lists (word, score, parent, kept).

    parent is the place of the node before it, in the level before (0 for the first level). What
    is not kept is dashed; best is a place in the last level, whose whole way is lit.
    """
    lit = _way_to(levels, best)
    wide = [1.12 * text_width(root) + 20]
    wide += [30 + max(1.12 * text_width(word) + text_width(fixed(score, digits))
                      for word, score, *_ in level) for level in levels]
    gap = max(22.0, min(60.0, (CANVAS - sum(wide)) / len(levels)))
    left = [sum(wide[:n]) + gap * n for n in range(len(wide))]
    height = 40.0 * max(len(level) for level in levels)
    middles = [[height / 2], *([height * (n + 0.5) / len(level) for n in range(len(level))]
                               for level in levels)]
    body = _leaf(0, height / 2, wide[0], root, "", True, best is not None)
    for n, level in enumerate(levels, 1):
        for i, (word, score, parent, kept) in enumerate(level):
            on = (n - 1, i) in lit
            start = left[n - 1] + wide[n - 1], middles[n - 1][parent]
            body += _branch(start, (left[n], middles[n][i]), kept, on)
            body += _leaf(left[n], middles[n][i], wide[n], word, fixed(score, digits), kept, on)
    return Picture(body, left[-1] + wide[-1], height, alt)


def _way_to(levels, best: int | None) -> set[tuple[int, int]]:
    """The places of the best node and of all before it."""
    way: set[tuple[int, int]] = set()
    for n in reversed(range(len(levels))):
        if best is not None:
            way.add((n, best))
            best = levels[n][best][2]
    return way


def _branch(start, end, kept: bool, on: bool) -> str:
    (x0, y0), (x1, y1) = start, end
    bend = (x1 - x0) / 2
    return path(f"M{x0:.1f} {y0:.1f}C{x0 + bend:.1f} {y0:.1f} {x1 - bend:.1f} {y1:.1f} "
                f"{x1:.1f} {y1:.1f}", LIT if on else MUTED if kept else LINE, 2.6 if on else 1.4,
                stroke_dasharray=None if kept else "4 4")


def _leaf(x: float, y: float, wide: float, word: str, score: str, kept: bool, on: bool) -> str:
    """A word and its score in a box."""
    fill = LIT if on else INK if kept else MUTED
    box = rect(x, y - 15, wide, 30, LIT if on else SOFT, rx=6,
               fill_opacity="0.16" if on else None)
    edge = rect(x, y - 15, wide, 30, stroke=LIT if on else MUTED if kept else LINE, rx=6,
                stroke_width=2 if on else 1.3, stroke_dasharray=None if kept else "4 4")
    words = (text(x + 10, y, word, anchor="start", fill=fill, font_weight=600)
             + text(x + wide - 10, y, score, anchor="end", fill=MUTED) if score else
             text(x + wide / 2, y, word, fill=fill, font_weight=600))
    return box + edge + words
