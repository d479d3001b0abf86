"""Figures of chapter 14: the bits of a number, and gradients beside the range of float16."""

from collections.abc import Mapping

import numpy as np

from ...fewer_bits import rounded
from .svg import CANVAS, FONT, INK, LINE, MUTED, PALETTE, Picture, path, rect, text

FORMATS = (("float32", 8), ("float16", 5), ("bfloat16", 8))     # bits of the exponent
BOX, ROW = 16.0, 74                    # a bit's width, a format's height
LEFT, RIGHT, TOP, FOOT = -46, 22, 40, 190          # powers of two at the edges; heights
SMALLEST, NORMAL, LARGEST = -24, -14, 15           # powers of float16
FAINT = 0.4                            # what is lower is not drawn: often it is noise of rounding
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def float_bits(x: float) -> Picture:
    """A number as float32, float16 and bfloat16 hold it: sign, exponent, fraction, and its value.

    The alt says the three values.
    """
    body, said = "", []
    for n, (name, n_exponent) in enumerate(FORMATS):
        digits, value = bits_of(x, name)
        shown = f"{value:.9g}".replace("-", "−").replace("inf", "∞")
        said.append(f"{name}: {shown}")
        y = n * ROW
        body += text(0, y + 10, name, FONT, "start", font_weight=600)
        body += text(CANVAS, y + 10, shown, FONT, "end", mono=True)
        for i, digit in enumerate(digits):
            part = 5 if i == 0 else 1 if i <= n_exponent else 0
            left, color = i * BOX + 4 * (i > 0) + 4 * (i > n_exponent), PALETTE[part]
            body += rect(left, y + 24, BOX - 1.5, 28, color, rx=3,
                         fill_opacity="0.34" if digit == "1" else "0.10")
            body += text(left + BOX / 2 - 0.8, y + 38, digit, FONT, mono=True)
    y = 3 * ROW + 2
    for n, (words, part) in enumerate((("sign", 5), ("exponent", 1), ("fraction", 0))):
        body += rect(n * 130, y - 7, 14, 14, PALETTE[part], rx=3, fill_opacity="0.34")
        body += text(n * 130 + 22, y, words, FONT, "start", MUTED)
    return Picture(body, CANVAS, y + 10, f"{x:g} held by " + "; ".join(said))


def bits_of(x: float, name: str) -> tuple[str, float]:
    """The bits of the nearest number of a format, and its value."""
    x32 = np.array([x], np.float32)
    if name == "float16":
        half = rounded(x32, name).astype(np.float16)
        return f"{int(half.view(np.uint16)[0]):016b}", float(half[0])
    near = rounded(x32, name) if name == "bfloat16" else x32
    digits = f"{int(near.view(np.uint32)[0]):032b}"
    return digits[:16] if name == "bfloat16" else digits, float(near[0])


def float16_window(counts: Mapping[int, int], scale: int) -> tuple[Picture, str]:
    """How many gradients lie at each power of two, times 2**scale, beside float16's range.

    counts has for each power e the number of gradients from 2**e up to 2**(e + 1). Returned with
    a caption: how many vanish, keep fewer bits, or overflow.
    """
    total = sum(counts.values())

    def share(n: int) -> str:
        return f"{n / total:.1%}" if n >= total / 2000 else "under 0.1%"

    moved = {e + scale: n for e, n in counts.items()}
    gone = sum(n for e, n in moved.items() if e < SMALLEST - 1)
    coarse = sum(n for e, n in moved.items() if SMALLEST - 1 <= e < NORMAL)
    over = sum(n for e, n in moved.items() if e > LARGEST)
    over_said = ("none becomes" if over == 0 else "1 becomes" if over == 1 else
                 f"{over:,} become")                 # a single one spoils the step
    words = (f"Loss scale 2{raised(scale)}: {share(gone)} vanish, "
             f"{share(coarse)} keep fewer bits, {over_said} infinite.")
    body = ""
    for first, last, color, opacity, name in (
            (LEFT, SMALLEST - 1, PALETTE[1], "0.13", "zero"),
            (SMALLEST - 1, NORMAL, PALETTE[1], "0.05", "fewer bits"),
            (NORMAL, LARGEST + 1, PALETTE[2], "0.08", "all bits"),
            (LARGEST + 1, RIGHT, PALETTE[1], "0.13", "∞")):
        body += rect(_x(first), TOP - 24, _x(last) - _x(first), FOOT - TOP + 24, color,
                     fill_opacity=opacity)
        body += text((_x(first) + _x(last)) / 2, TOP - 12, name, FONT, fill=MUTED)
    body += path(f"M{_x(SMALLEST - 1):.1f} {TOP - 24}V{FOOT}", PALETTE[1], 2)
    highest = max(counts.values())
    for e, n in sorted(moved.items()):
        height = (FOOT - TOP) * n / highest
        if LEFT <= e < RIGHT and height > FAINT:
            lost = e < SMALLEST - 1 or e > LARGEST
            body += rect(_x(e) + 0.6, FOOT - height, _x(1) - _x(0) - 1.2, height,
                         PALETTE[1] if lost else PALETTE[0])
    body += path(f"M0 {FOOT}H{CANVAS}", LINE, 1.2)
    for power in (-40, -25, -14, 0, 16):
        body += path(f"M{_x(power):.1f} {FOOT}v5", INK, 1.2)
        body += text(_x(power), FOOT + 18, str(power).replace("-", "−"), FONT)
    body += text(CANVAS / 2, FOOT + 42, "a gradient, times the scale: as a power of 2", FONT,
                 fill=MUTED)
    return Picture(body, CANVAS, FOOT + 54, words), words


def powers(x) -> dict[int, int]:
    """How many of these numbers, zeros left out, lie from 2**e up to 2**(e + 1), for each e."""
    exponents = np.frexp(np.abs(x[x != 0], dtype=np.float64))[1] - 1
    found, n = np.unique(exponents, return_counts=True)
    return dict(zip(found.tolist(), n.tolist(), strict=True))


def raised(n: int) -> str:
    return str(n).translate(RAISED)


def _x(power: float) -> float:
    return CANVAS * (power - LEFT) / (RIGHT - LEFT)
