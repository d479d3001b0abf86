"""Figures of chapter 15: one batch on many machines, many runs at once, and sums round a ring."""

import math
from collections.abc import Sequence

from .map_parts import LIT, SMALL, panel
from .svg import CANVAS, FONT, LINE, MUTED, PALETTE, Picture, arrow, rect, text

MACHINES, HIGH = 3, 112                       # of the map: how many, and how high each stands apart
CELL, ROW, HEAD = 74, 26, 26                  # of the ring: a chunk's box, and a machine's name


def many_map(alt: str) -> Picture:
    """Chapter 15's map: a batch cut for machines that add up, and runs that only share a queue."""
    body = text(0, 10, "one model, one batch", FONT, "start", font_weight=700)
    body += text(346, 10, "many models", FONT, "start", font_weight=700)
    for n in range(MACHINES):
        y = 34 + HIGH * n
        middle = y + 40
        body += rect(0, y + 16, 62, 48, PALETTE[n], rx=5, fill_opacity="0.3")
        body += text(31, middle, "rows")
        body += arrow((64, middle), (88, middle), color=MUTED)
        body += panel(90, y, 108, 80, False) + text(144, y + 26, "whole model")
        body += text(144, y + 52, "gradient", fill=MUTED)
        body += arrow((200, middle - 9), (228, middle - 9), color=MUTED)       # its gradient
        body += arrow((228, middle + 9), (200, middle + 9), color=MUTED)       # and the sum, back
        body += panel(346, y, 80, 80, False) + text(386, y + 26, "model")
        body += text(386, y + 52, "own rate", fill=MUTED)
        body += arrow((428, middle), (450, middle), color=MUTED)
        body += rect(454, y + 18, 62, 44, stroke=LINE, rx=5) + text(485, middle, "result")
    foot = 34 + HIGH * (MACHINES - 1) + 80
    body += panel(230, 34, 62, foot - 34, True)
    center = 34 + (foot - 34) / 2
    body += text(261, center - 12, "add", FONT, fill=LIT, font_weight=700)
    body += text(261, center + 12, "up", FONT, fill=LIT, font_weight=700)
    body += text(146, foot + 22, "all talk, every step", FONT, fill=MUTED)
    body += text(431, foot + 22, "nobody talks", FONT, fill=MUTED)
    return Picture(body, CANVAS, foot + 34, alt)


def ring_of_machines(held: Sequence[Sequence[str]], coming: Sequence[tuple[int, int]], step: int,
         n_steps: int) -> tuple[Picture, str]:
    """Machines on a ring, each with its chunks as texts, and a caption.

    coming is (sender, chunk) for each chunk that the last step has moved to the next machine. A
    chunk is complete when it has no 0 in it; the ones that have just come are framed.
    """
    P = len(held)
    box = HEAD + ROW * P
    wide = CELL + 46
    across, down = (CANVAS - wide) / 2, 150
    places = [(across + across * math.sin(2 * math.pi * p / P),
               down - down * math.cos(2 * math.pi * p / P)) for p in range(P)]
    arrived = {((p + 1) % P, c): p for p, c in coming}
    body = _arrows(places, wide, box, {p: c for p, c in coming})
    for p, (x, y) in enumerate(places):
        body += panel(x, y, wide, box + 8, False)
        body += text(x + wide / 2, y + 15, f"machine {p}", SMALL, font_weight=600)
        for c, number in enumerate(held[p]):
            top, whole = y + HEAD + ROW * c, "0" not in number
            new = (p, c) in arrived
            body += text(x + 14, top + ROW / 2, "abcdefgh"[c], FONT, fill=MUTED)
            body += rect(x + 30, top + 1, CELL, ROW - 4, PALETTE[2] if whole else PALETTE[0], rx=4,
                         fill_opacity="0.4" if whole else f"{0.1 * number.count('1'):.1f}")
            if new:
                body += rect(x + 30, top + 1, CELL, ROW - 4, stroke=PALETTE[1], stroke_width=2.5,
                             rx=4)
            body += text(x + 30 + CELL / 2, top + ROW / 2 - 1, number, FONT, mono=True)
    caption = _ring_caption(coming, step, n_steps)
    n = sum("0" not in number for row in held for number in row)
    alt = f"{caption} {n} of {P * P} chunks are complete: " + "; ".join(
        f"machine {p} has {', '.join(row)}" for p, row in enumerate(held))
    return Picture(body, CANVAS, 2 * down + box + 10, alt), caption


def _arrows(places, wide: float, box: float, moved: dict[int, int]) -> str:
    """From each machine to the next; a chunk that has moved stands beside its arrow."""
    P, drawn = len(places), ""
    for p, (x, y) in enumerate(places):
        a, b = places[(p + 1) % P]
        x0, y0, x1, y1 = x + wide / 2, y + box / 2, a + wide / 2, b + box / 2
        ux, uy = x1 - x0, y1 - y0
        color = PALETTE[1] if p in moved else MUTED
        start, stop = _edge(ux, uy, wide, box + 8), _edge(ux, uy, wide, box + 8)
        drawn += arrow((x0 + start * ux, y0 + start * uy), (x1 - stop * ux, y1 - stop * uy),
                       color=color, width=2.4 if p in moved else 1.5)
        if p in moved:
            length = math.hypot(ux, uy)
            drawn += text((x0 + x1) / 2 - 16 * -uy / length, (y0 + y1) / 2 - 16 * ux / length,
                          "abcdefgh"[moved[p]], FONT, fill=PALETTE[1], font_weight=700)
    return drawn


def _edge(ux: float, uy: float, wide: float, high: float) -> float:
    """Which share of the way leads out of a box, from its middle, and a little farther."""
    out = min(wide / 2 / abs(ux) if ux else math.inf, high / 2 / abs(uy) if uy else math.inf)
    return out + 6 / math.hypot(ux, uy)


def _ring_caption(coming: Sequence[tuple[int, int]], step: int, n_steps: int) -> str:
    if not coming:
        return "Before the first step: each machine has its own numbers."
    does = "adds what comes" if step <= n_steps // 2 else "takes what comes, for it is complete"
    return f"Step {step} of {n_steps}: each machine sends one chunk on, and {does}."

