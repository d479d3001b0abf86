"""Figures of chapter 16: a model's folder, the bytes of one file, and where two models part."""

import math
from collections.abc import Sequence

from .map_parts import LIT, SMALL, numeral, panel, wording
from .svg import (
    CANVAS,
    FONT,
    INK,
    LINE,
    MUTED,
    PALETTE,
    Picture,
    arrow,
    fixed,
    rect,
    text,
    text_width,
)

FILES = [("config.json", "sizes"), ("model.safetensors", "arrays"),
         ("vocab.json", "ids of tokens"), ("merges.txt", "joins")]
NAMES, FIRST_BAR, WIDEST = 118, 128, 300      # of the bars: the names' end, the bars' beginning
LEAST, DECADES = 1e-6, 7                      # what is below the least is rounding


def files_map(alt: str) -> Picture:
    """GPT-2's four files, and which part of chapter 11's model each becomes."""
    body = ""
    for n, (file, what) in enumerate(FILES):
        y = 20 + 62 * n
        body += panel(0, y, 196, 42, True) + wording(14, y + 21, file, True, FONT)
        end = 41 if n == 0 else 103 if n == 1 else 196
        body += arrow((197, y + 21), (322, end if n < 2 else end + 14 * (n - 2)), color=LIT,
                      width=1.8)
        body += text(206, y + (34 if n == 3 else 7), what, FONT, "start", MUTED)
    for y, height, words in ((20, 42, "gpt_config"), (82, 42, "GPT"), (175, 56, "its tokenizer")):
        body += panel(324, y, 196, height, False) + wording(338, y + height / 2, words, False, FONT)
        body += numeral(508, y + height / 2, 11, False)
    return Picture(body, CANVAS, 250, alt)


def file_strip(segments: Sequence[tuple[str, int]], lit: int, words: Sequence[str],
               alt: str) -> Picture:
    """A file as one strip from its first byte to its last, a segment lit, words about it below.

    segments are names and numbers of bytes; a segment is drawn at least a sliver wide.
    """
    total = sum(size for _, size in segments)
    widths = [max(CANVAS * size / total, 3) for _, size in segments]
    widths = [CANVAS * width / sum(widths) for width in widths]
    body, x = "", 0.0
    for n, width in enumerate(widths):
        body += rect(x, 8, width, 34, LIT if n == lit else PALETTE[n % 2 * 5],
                     fill_opacity="0.75" if n == lit else ("0.14", "0.42")[n % 2])
        if n == lit:
            body += rect(x, 8, max(width, 2), 34, stroke=LIT, stroke_width=2)
            at, wide = x + width / 2, 1.15 * text_width(segments[n][0], 17)       # bold
        x += width
    start = sum(size for _, size in segments[:lit])
    middle = min(max(at, wide / 2), CANVAS - wide / 2)
    body += rect(0, 8, CANVAS, 34, stroke=LINE, stroke_width=1.2)
    body += text(0, 58, "0", SMALL, "start", MUTED) + text(CANVAS, 58, f"{total:,}", SMALL, "end",
                                                           MUTED)
    body += text(middle, 82, segments[lit][0], 17, fill=LIT, font_weight=700)
    told = [f"bytes {start:,} to {start + segments[lit][1] - 1:,}", *words]
    body += "".join(text(CANVAS / 2, 110 + 24 * n, line, FONT) for n, line in enumerate(told))
    return Picture(body, CANVAS, 108 + 24 * len(told), alt)


def parting(names: Sequence[str], values: Sequence[float], limit: float) -> Picture:
    """How far two models are apart after each part, the first part above; the first too far is lit.

    values are shares of the largest; what is below a millionth is drawn as rounding.
    """
    first = next((n for n, value in enumerate(values) if value > limit), None)
    body = text(FIRST_BAR, 8, "rounding", FONT, "start", MUTED)
    for power in (-4, -2, 0):
        x = _length(10.0**power)
        body += rect(FIRST_BAR + x, 20, 1, 24 * len(names) + 4, LINE)
        body += text(FIRST_BAR + x, 8, f"1e{power}".replace("-", "−") if power else "1", FONT,
                     fill=MUTED)
    for n, (name, value) in enumerate(zip(names, values, strict=True)):
        y, color = 36 + 24 * n, PALETTE[1] if n == first else PALETTE[0]
        weight = 700 if n == first else None
        body += text(NAMES, y, name, FONT, "end", color if n == first else INK,
                     font_weight=weight)
        if value < LEAST:
            body += rect(FIRST_BAR, y - 3, 6, 6, MUTED, rx=3)
            continue
        body += rect(FIRST_BAR, y - 8, _length(value), 16, color, rx=2,
                     fill_opacity="0.85" if n == first else "0.5")
        body += text(FIRST_BAR + _length(value) + 6, y, _short(value), FONT, "start",
                     font_weight=weight)
    return Picture(body, CANVAS, 30 + 24 * len(names), described_parting(names, values, limit))


def described_parting(names: Sequence[str], values: Sequence[float], limit: float) -> str:
    """Where two models part, in words."""
    far = [(name, value) for name, value in zip(names, values, strict=True) if value > limit]
    if not far:
        return f"All {len(names)} parts agree but for rounding"
    (name, value), (last, end) = far[0], (names[-1], values[-1])
    return f"The first part that differs is {name}, by {_short(value)}; {last} by {_short(end)}"


def _length(value: float) -> float:
    return WIDEST * (math.log10(max(value, LEAST) / LEAST) + 0.5) / DECADES


def _short(value: float) -> str:
    """One digit that counts."""
    power = math.floor(math.log10(value) + 1e-9)
    if power >= -3:
        return fixed(value, max(-power, 0))
    return f"{value:.0e}".replace("e-0", "e−").replace("e-", "e−")
