"""The stage of the landing page's journey: one drawing, whose parts light up in turn."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .svg import (
    CANVAS,
    FONT,
    INK,
    LINE,
    MINUS,
    MUTED,
    PALETTE,
    PAPER,
    PLUS,
    SOFT,
    STRONGEST,
    Picture,
    arrow,
    element,
    fixed,
    num,
    path,
    rect,
    text,
    text_width,
)

READ, BACK, WRITE = PALETTE[0], PALETTE[1], PALETTE[2]
STATIONS = ("words", "ids", "vectors", "attention", "block", "write")
WORDS, IDS, LOOKS, VECTORS, SLOTS, BARS = 56.0, 83.0, 154.0, 162.0, 306.0, 376.0
CELL, ACROSS, DOWN = 9.0, 4, 8               # a vector of 32 numbers: four by eight squares
BAR, ROW, N_BARS = 300.0, 25.0, 3
LEAST, TIE = 0.02, 0.2                       # a weaker look is not drawn, or not at the end


@dataclass(frozen=True)
class Scene:
    """What is on the stage: everything that one frame shows."""

    station: str
    source: Sequence[str]
    ids: Sequence[int] = ()
    vectors: np.ndarray | None = None        # (S, 32)
    looker: int | None = None                # a source word, and its weights
    looks: Sequence[float] = ()
    written: Sequence[str] = ()              # empty: it does not write yet
    across: Sequence[float] = ()             # weights of the next word over the source
    back: Sequence[float] = ()               # and over what is written
    chances: Sequence[tuple[str, float]] = ()
    chosen: bool = False
    slots: int = 8
    pairs: Sequence[Sequence[float]] = field(default=())     # all weights across, at the end

    def picture(self, alt: str) -> Picture:
        """The whole stage."""
        body = _source(self) + _reading(self) + _writing(self)
        return Picture(_rail(self.station) + body, CANVAS, BARS + N_BARS * ROW, alt, scale=1.1)


def _rail(station: str) -> str:
    """The stations of the journey; the one that is reached is lit."""
    wide = [1.12 * text_width(name) + 16 for name in STATIONS]
    gap = (CANVAS - sum(wide)) / (len(STATIONS) - 1)
    out, x = "", 0.0
    for name, width in zip(STATIONS, wide, strict=True):
        here = name == station
        if x:
            out += path(f"M{num(x - gap + 3)} 13H{num(x - 3)}", LINE, 2)
        if here:
            out += rect(x, 0, width, 26, READ, rx=13, fill_opacity="0.16")
        out += rect(x, 0, width, 26, stroke=READ if here else LINE, rx=13,
                    stroke_width=2 if here else 1.2)
        out += text(x + width / 2, 13, name, fill=READ if here else MUTED,
                    font_weight=700 if here else None)
        x += width + gap
    return out


def _column(i: int, n: int) -> float:
    """The middle of the i-th of n places."""
    return CANVAS * (i + 0.5) / n


def _source(scene: Scene) -> str:
    """The sentence, with ids and vectors as far as it has come."""
    out, n = "", len(scene.source)
    for i, word in enumerate(scene.source):
        x, lit = _column(i, n), scene.looker in (None, i)
        out += text(x, WORDS, word, 17, fill=INK if lit else MUTED, font_weight=700)
        if scene.ids:
            out += rect(x - 17, IDS - 12, 34, 24, SOFT, stroke=LINE, stroke_width=1.2, rx=5)
            out += text(x, IDS, str(scene.ids[i]), fill=MUTED)
        else:
            out += rect(x - 17, IDS - 12, 34, 24, stroke=LINE, stroke_dasharray="3 4", rx=5)
        out += _vector(x, scene.vectors[i], scene.looker == i) if scene.vectors is not None else (
            rect(*_place(x), stroke=LINE, stroke_dasharray="3 4", rx=3))
    return out


def _place(x: float) -> tuple[float, float, float, float]:
    """Where a vector stands: left, top, width, height."""
    return x - CELL * ACROSS / 2 - 1, VECTORS - 1, CELL * ACROSS + 2, CELL * DOWN + 2


def _vector(x: float, numbers: np.ndarray, lit: bool) -> str:
    """Its numbers as squares: blue above zero, orange below, the stronger the larger."""
    left, top, width, height = _place(x)
    paths: dict[tuple[str, str], str] = {}
    for k, value in enumerate(numbers):
        shade = _shade(float(value))
        square = f"M{k % ACROSS} {k // ACROSS}h1v1h-1z"
        paths[shade] = paths.get(shade, "") + square
    cells = "".join(path(d, None, None, fill=color, fill_opacity=alpha)
                    for (color, alpha), d in sorted(paths.items()) if alpha != "0.00")
    place = f"translate({num(left + 1)} {num(top + 1)}) scale({CELL:g})"
    return (rect(left, top, width, height, PAPER, class_="npt-solid")
            + element("g", cells, transform=place, shape_rendering="crispEdges")
            + rect(left, top, width, height, stroke=READ if lit else LINE,
                   stroke_width=3 if lit else 1.2, rx=3))


def _shade(value: float) -> tuple[str, str]:
    """Six steps of a colour, full at 2 and beyond."""
    step = min(int(abs(value) / 2 * 6 + 0.5137), 6)
    return PLUS if value > 0 else MINUS, fixed(STRONGEST * step / 6, 2)


def _reading(scene: Scene) -> str:
    """Arcs from the word that looks to all that it looks at, each with its number below."""
    if scene.looker is None:
        return ""
    n, out = len(scene.source), ""
    for j, weight in enumerate(scene.looks):
        strong = weight == max(scene.looks)
        if weight >= LEAST:
            out += _arc(_column(scene.looker, n), _column(j, n), LOOKS, -1, weight, READ)
        out += text(_column(j, n), VECTORS + CELL * DOWN + 18, fixed(weight, 2),
                    fill=READ if strong else MUTED, font_weight=700 if strong else None)
    return out


def _arc(x0: float, x1: float, y: float, side: int, weight: float, color: str) -> str:
    """A look along the row; one at itself is a loop. Thickness is the weight."""
    if x0 == x1:
        d = f"M{num(x0 - 9)} {num(y)}C{num(x0 - 26)} {num(y + side * 44)} "
        d += f"{num(x0 + 26)} {num(y + side * 44)} {num(x0 + 9)} {num(y)}"
    else:
        high = y + side * min(30 + 0.2 * abs(x1 - x0), 74)
        d = f"M{num(x0)} {num(y)}C{num(x0)} {num(high)} {num(x1)} {num(high)} {num(x1)} {num(y)}"
    return _look(d, weight, color)


def _look(d: str, weight: float, color: str) -> str:
    return path(d, color, 1 + 8 * weight, stroke_opacity=fixed(0.35 + 0.6 * weight, 2),
                stroke_linecap="round")


def _writing(scene: Scene) -> str:
    """What is written, where the next word looks, and how likely each is."""
    out = _ties(scene) + _across(scene)
    for i in range(scene.slots):
        word = scene.written[i] if i < len(scene.written) else ""
        out += _slot(_column(i, scene.slots), word, i == len(scene.written) > 0)
    return out + _bars(scene)


def _slot(x: float, word: str, here: bool) -> str:
    """A place for a word: written, next, or still dark."""
    width = max(1.12 * text_width(word) + 8, 34)
    out = rect(x - width / 2, SLOTS - 14, width, 28, PAPER, rx=6, class_="npt-solid")
    out += rect(x - width / 2, SLOTS - 14, width, 28, stroke=WRITE if here else LINE, rx=6,
                stroke_width=2 if here else 1.2,
                stroke_dasharray=None if word else "4 3" if here else "3 4")
    words = word or ("?" if here else "")
    return out + (text(x, SLOTS, words, fill=WRITE if here else INK, font_weight=700)
                  if words else "")


def _ties(scene: Scene) -> str:
    """At the end: each word, tied to where it looked most."""
    return "".join(_cross(_column(t + 1, scene.slots), _column(j, len(scene.source)), w)
                   for t, weights in enumerate(scene.pairs) for j, w in enumerate(weights)
                   if w >= TIE)


def crossing(source: Sequence[str], written: Sequence[str], pairs: Sequence[Sequence[float]],
             alt: str) -> Picture:
    """A sentence, its translation below, and what each word of the one looked at in the other."""
    n, m = len(source), len(written)
    body = "".join(text(_column(j, n), 10, word, 17, font_weight=700)
                   for j, word in enumerate(source))
    body += "".join(_cross(_column(t, m), _column(j, n), w, 126, 26)
                    for t, weights in enumerate(pairs) for j, w in enumerate(weights) if w >= LEAST)
    body += "".join(text(_column(t, m), 142, word, 17, fill=WRITE, font_weight=700)
                    for t, word in enumerate(written))
    return Picture(body, CANVAS, 152, alt)


def _across(scene: Scene) -> str:
    """From the next word up to the source, and back along what is written."""
    at = _column(len(scene.written) - scene.chosen, scene.slots)
    up = "".join(_cross(at, _column(j, len(scene.source)), w)
                 for j, w in enumerate(scene.across) if w >= LEAST)
    back = "".join(_arc(at, _column(j, scene.slots), SLOTS + 15, 1, w, BACK)
                   for j, w in enumerate(scene.back) if w >= LEAST)
    return up + back


def _cross(x0: float, x1: float, weight: float, y0: float = SLOTS - 15,
           y1: float = VECTORS + CELL * DOWN + 3) -> str:
    """A look from below, at (x0, y0), up at the sentence, at (x1, y1)."""
    bend = (y0 + y1) / 2
    return _look(f"M{num(x0)} {num(y0)}C{num(x0)} {num(bend)} {num(x1)} {num(bend)} "
                 f"{num(x1)} {num(y1)}", weight, WRITE)


def _bars(scene: Scene) -> str:
    """The likeliest words with their chances; the chosen one goes up to its place."""
    out = ""
    for n, (word, chance) in enumerate(scene.chances):
        y, first = BARS + ROW * (n + 0.5), n == 0 and scene.chosen
        out += text(92, y, word, anchor="end", font_weight=700 if first else None,
                    fill=WRITE if first else INK)
        out += rect(102, y - 8, BAR, 16, SOFT, rx=3)
        out += rect(102, y - 8, max(BAR * chance, 1), 16, WRITE, rx=3)
        out += text(102 + BAR + 10, y, fixed(chance, 2), FONT, "start", MUTED)
    if scene.chances and scene.chosen:
        x = _column(len(scene.written) - 1, scene.slots)
        out += arrow((70, BARS - 2), (70, BARS - 18), (x, BARS - 18), (x, SLOTS + 19),
                     color=WRITE, width=2)
    return out
