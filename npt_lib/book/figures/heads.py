"""Multi-head attention as one picture: every head a colour, every shape beside its step."""

import re

from .svg import FONT, INK, MUTED, PALETTE, SOFT, Picture, arrow, path, rect, text

N_HEADS, MIDDLE, STRIPE = 4, 174, 16
PARTS = {"Q": 64, "K": 174, "V": 284}                 # where each projection stands
STEPS = {
    17: "(B, T, D)", 62: "times W_Q, W_K, W_V", 127: "(B, T, D) each", 178: "split_heads",
    228: "(B, H, T, K)", 264: "attention", 298: "(B, H, T, K)", 332: "merge_heads",
    369: "(B, T, D)", 409: "times W_O, plus b", 451: "(B, T, D)",
}


def multi_head(alt: str) -> Picture:
    """The whole layer from x down to y, with four heads."""
    body = _box("x", 0) + _stripes(MIDDLE, 352) + _box("y", 434)
    for name, left in PARTS.items():
        body += arrow((MIDDLE, 34), (left, 86), color=MUTED)
        body += text(left, 98, name, font_weight=700) + _stripes(left, 110)
    body += "".join(_head(i, 42 + 88 * i) for i in range(N_HEADS))
    body += arrow((MIDDLE, 386), (MIDDLE, 432), color=MUTED)
    body += "".join(_step(y, words) for y, words in STEPS.items())
    return Picture(body, 520, 470, alt)


def _box(name: str, y: float) -> str:
    return (rect(MIDDLE - 32, y, 64, 34, SOFT, stroke=MUTED)
            + text(MIDDLE, y + 17, name, font_weight=700))


def _stripes(x: float, y: float) -> str:
    """A matrix whose width is cut into the heads' colours."""
    return rect(x - 32, y, 64, 34, stroke=MUTED) + "".join(
        rect(_stripe(x, i) - STRIPE / 2, y, STRIPE, 34, PALETTE[i], fill_opacity="0.5")
        for i in range(N_HEADS))


def _stripe(x: float, i: int) -> float:
    """The middle of head i's stripe in a matrix at x."""
    return x + (i - (N_HEADS - 1) / 2) * STRIPE


def _head(i: int, x: float) -> str:
    """One head: its stripes of Q, K and V come in at the top, its result leaves at the foot."""
    body = rect(x - 41, 200, 82, 100, SOFT, stroke=PALETTE[i], rx=6)
    body += path(f"M{x} 300L{_stripe(MIDDLE, i):g} 352", PALETTE[i], 1.3)
    for left, (name, above) in zip((x - 24, x, x + 24), PARTS.items()):
        body += path(f"M{_stripe(above, i):g} 144L{left} 210", PALETTE[i], 1.3)
        body += rect(left - 9, 210, 18, 36, PALETTE[i], fill_opacity="0.5")
        body += text(left, 228, name)
    return body + text(x, 262, "attention") + text(x, 284, f"head {i}", font_weight=700)


def _step(y: float, words: str) -> str:
    shape = words.startswith("(")
    drawn = text(354, y, words, FONT, "start", INK if shape else MUTED, mono=shape)
    below = r'W<tspan dy="4">\1</tspan><tspan dy="-4">\2</tspan>'
    return re.sub(r"W_(\w)([^<]?)", below, drawn)
