"""Figures of chapter 12: two blocks side by side, heads that share keys, clocks that turn."""

import math
from collections.abc import Sequence

from .language import plus_sign
from .map_parts import LIT, SMALL, WIDE, numeral, panel, wording
from .svg import (
    CANVAS,
    FONT,
    LINE,
    MUTED,
    PALETTE,
    Picture,
    arrow,
    element,
    fixed,
    path,
    rect,
    text,
)

SECOND = 240                                 # where the second column begins
OLD = {"norm": ("LayerNorm", 6), "attention": ("Masked self-attention", 3),
       "inside": ("keys per head", 3), "feed": ("Feed-forward", 4),
       "embed": ("Embed + position", 5)}
NEW = {"norm": "RMSNorm", "attention": "Masked self-attention", "inside": "rotary, shared keys",
       "feed": "SwiGLU", "embed": "Embed"}
FRAME = 92, 380                              # top and foot of the frame round a block
ROWS = [("norm", 44, 28), ("feed", 148, 32), ("norm", 194, 28), ("attention", 256, 58),
        ("norm", 328, 28), ("embed", 404, 32)]         # kind, top and height
WAYS = [(403, 357), (327, 315), (255, 223), (193, 181), (147, 91), (43, 23)]


def modern_map(alt: str) -> Picture:
    """GPT-2's block and Llama's beside each other: what has been exchanged is lit."""
    body = "".join(_column(x, new) for x, new in ((0, False), (SECOND, True)))
    return Picture(body, SECOND + 212, 478, alt, scale=0.97)


def _column(left: float, new: bool) -> str:
    x = left + 18
    middle, side = x + WIDE / 2, x + WIDE + 10
    top, foot = FRAME
    body = "".join(panel(left + 5 * n, top - 5 * n, 200, foot - top, False, 10) for n in (2, 1, 0))
    body += wording(left + 14, top + 14, "Block", False, SMALL)
    body += wording(left + 162, top + 14, "× N", False, SMALL)
    for start, end in WAYS:
        body += arrow((middle, start), (middle, end), color=MUTED, width=1.3)
    for start, plus in ((369, 242), (232, 134)):
        body += arrow((middle, start), (side, start), (side, plus), (middle + 10, plus),
                      color=MUTED, width=1.3)
        body += plus_sign(middle, plus, MUTED)
    body += "".join(_part(x, y, height, kind, new) for kind, y, height in ROWS)
    name, whose = ("Llama", "chapter 12") if new else ("GPT-2", "chapter 11")
    return (body + text(middle, 10, "logits", SMALL, fill=MUTED)
            + text(middle, 454, name, 18, fill=LIT if new else MUTED, font_weight=700)
            + text(middle, 472, whose, SMALL, fill=MUTED))


def _part(x: float, y: float, height: float, kind: str, new: bool) -> str:
    words, chapter = (NEW[kind], 12) if new else OLD[kind]
    line, right = y + height / 2, x + WIDE - 10
    if kind == "attention":                  # the number stands in the inner box
        line, right = y + 41, x + WIDE - 15
    number = "" if new else numeral(right, line, int(chapter), False)
    if kind != "attention":
        lit = new and kind != "embed"        # there something was only taken away
        return panel(x, y, WIDE, height, lit) + wording(x + 11, line, words, lit) + number
    inner = NEW["inside"] if new else OLD["inside"][0]
    return (panel(x, y, WIDE, height, False) + wording(x + 11, y + 15, words, False, SMALL)
            + panel(x + 8, y + 30, WIDE - 16, 22, new, 5)
            + wording(x + 15, line, inner, new, SMALL) + number)


def shared_keys(kinds: Sequence[tuple[str, int]], n_heads: int, alt: str) -> Picture:
    """Heads above the keys and values that they use, one drawing for each (name, n_kv_heads)."""
    wide, body = CANVAS / len(kinds), ""
    for n, (name, n_keys) in enumerate(kinds):
        left = n * wide
        step = (wide - 20) / n_heads
        keys = [left + 10 + step * n_heads * (g + 0.5) / n_keys for g in range(n_keys)]
        for h in range(n_heads):
            at, g = left + 10 + step * (h + 0.5), h * n_keys // n_heads
            body += path(f"M{at:.1f} 62L{keys[g]:.1f} 110", PALETTE[g], 2)
            body += rect(at - 14, 34, 28, 28, PALETTE[g], rx=6, fill_opacity="0.16")
            body += rect(at - 14, 34, 28, 28, stroke=PALETTE[g], stroke_width=1.5, rx=6)
            body += text(at, 48, "q", FONT)
        for g, at in enumerate(keys):
            body += rect(at - 16, 110, 32, 28, PALETTE[g], rx=6, fill_opacity="0.3")
            body += rect(at - 16, 110, 32, 28, stroke=PALETTE[g], stroke_width=2, rx=6)
            body += text(at, 124, "kv", FONT)
        body += text(left + wide / 2, 12, name, FONT, font_weight=700)
    return Picture(body, CANVAS, 140, alt)


def turned_clocks(q: Sequence[tuple[float, float]], k: Sequence[tuple[float, float]],
                  labels: Sequence[str], hands: tuple[str, str], total: bool = True) -> Picture:
    """A clock for each pair: the hands of a query (blue) and of a key (orange), and their match.

    q and k are the tips (across, up), each hand at most about 1 long; hands are their names. The
    clocks' shares are added up if total.
    """
    body, shares = "", [a * c + b * d for (a, b), (c, d) in zip(q, k, strict=True)]
    for n, (mine, other, label) in enumerate(zip(q, k, labels, strict=True)):
        x, y = 65 + 130 * n, 62
        body += element("circle", cx=x, cy=y, r=52, fill="none", stroke=LINE)
        for (a, b), color, width in ((other, PALETTE[1], 6), (mine, PALETTE[0], 3)):
            body += arrow((x, y), (x + 50 * a, y - 50 * b), color=color, width=width)
        body += text(x, 132, label, FONT, fill=MUTED)
        body += text(x, 158, fixed(shares[n], 2), FONT, mono=True)
        body += text(x + 65, 158, "+" if total and n < len(q) - 1 else "", FONT)
    body += text(0, 194, hands[0], FONT, "start", PALETTE[0], font_weight=600)
    body += text(160, 194, hands[1], FONT, "start", PALETTE[1], font_weight=600)
    alt = f"{', '.join(hands)}: the clocks match by " + ", ".join(fixed(s, 2) for s in shares)
    if total:
        match = fixed(math.fsum(shares), 2)
        body += text(CANVAS, 194, f"match {match}", FONT, "end", font_weight=700)
        alt += f", together {match}"
    return Picture(body, CANVAS, 204, alt)
