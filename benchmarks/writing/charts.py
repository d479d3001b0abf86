"""The report's plots, drawn with the book's own pieces of SVG: the same bytes on every run."""

import math
from collections.abc import Mapping, Sequence

from benchmarks.writing.stats import Range
from npt_lib.figures.svg import (
    INK,
    LINE,
    MUTED,
    PALETTE,
    Picture,
    element,
    fixed,
    path,
    rect,
    text,
    text_width,
)

WIDTH, ROW, SIZE = 640.0, 24.0, 13.0


def ranges(groups: Mapping[str, Mapping[str, Range]], alt: str, title: str,
           mark: Sequence[str] = (), log: bool = False) -> Picture:
    """A dot at each median, a line from the least to the most, a rule at 1; a heading a group.

    The scale starts at 0; a logarithmic one at a half, or at the least median below it.
    """
    labels = [label for group in groups.values() for label in group]
    left = max(text_width(label, SIZE) for label in labels) + 12
    right = WIDTH - 44
    medians = [r.median for group in groups.values() for r in group.values()]
    most, least = 1.2 * max(1.0, *medians), min(0.5, *medians) / 1.2

    def x(value: float) -> float:
        share = math.log(value / least) / math.log(most / least) if log else value / most
        return left + (right - left) * min(max(share, 0.0), 1.0)

    body, y = text(0, 8, title, SIZE, "start", MUTED), 32.0
    for name, group in groups.items():
        if name:
            body += text(0, y, name, SIZE, "start", font_weight="bold")
            y += ROW
        body += path(f"M{x(1):.1f} {y - 12:.1f}V{y + ROW * len(group) - 12:.1f}", MUTED, 1.2,
                     stroke_dasharray="3 3")
        for label, r in group.items():
            body += _range_row(label, r, y, x, PALETTE[0] if label in mark else PALETTE[5])
            y += ROW
        y += 8
    return Picture(body, WIDTH, y - 12, alt)


def _range_row(label: str, r: Range, y: float, x, colour: str) -> str:
    return (text(0, y, label, SIZE, "start")
            + path(f"M{x(1e-9):.1f} {y:.1f}H{WIDTH - 44:.1f}", LINE, 1)
            + path(f"M{x(r.least):.1f} {y:.1f}H{x(r.most):.1f}", colour, 4)
            + element("circle", cx=x(r.median), cy=y, r=5, fill=colour)
            + text(WIDTH, y, fixed(r.median, 2), SIZE, "end"))


def stacked(bars: Mapping[str, Mapping[str, float]], alt: str, title: str) -> Picture:
    """A bar for each entry, its parts side by side as shares of the whole, and a legend."""
    left = max(text_width(label, SIZE) for label in bars) + 12
    body, y = text(0, 8, title, SIZE, "start", MUTED), 36.0
    kinds = list(dict.fromkeys(kind for parts in bars.values() for kind in parts))
    for label, parts in bars.items():
        body += text(0, y, label, SIZE, "start")
        at, whole = left, sum(parts.values())
        for kind, part in parts.items():
            width = (WIDTH - left) * part / whole
            body += rect(at, y - 13, max(width - 1, 0.5), 26, PALETTE[kinds.index(kind)])
            if part / whole > 0.06:
                body += text(at + width / 2, y, f"{part / whole:.0%}", SIZE, fill="#ffffff")
            at += width
        y += 36
    legend, y = _legend(kinds, y)
    return Picture(body + legend, WIDTH, y + 14, alt)


def _legend(names: Sequence[str], y: float) -> tuple[str, float]:
    """Each name after its colour, on as many lines as they need; and how far down that is."""
    body, x = "", 0.0
    for name, colour in zip(names, PALETTE, strict=False):
        width = text_width(name, SIZE) + 36
        if x + width > WIDTH:
            x, y = 0.0, y + ROW
        body += rect(x, y - 6, 12, 12, colour) + text(x + 18, y, name, SIZE, "start")
        x += width
    return body, y


def loglog(xs: Sequence[int], series: Mapping[str, Sequence[float]], alt: str, title: str,
           unit: str) -> Picture:
    """A line for each of the series on two logarithmic axes, its name at its end."""
    height, left = 300.0, 78.0
    right = WIDTH - 14 - max(text_width(name, SIZE) for name in series)
    values = [v for line in series.values() for v in line]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def x(v: float) -> float:
        return left + (right - left) * math.log(v / xs[0]) / max(math.log(xs[-1] / xs[0]), 1e-9)

    def y(v: float) -> float:
        return height - (height - 30) * (math.log10(v) - low) / (high - low)

    body = text(0, 8, title, SIZE, "start", MUTED)
    for power in range(low, high + 1):
        body += path(f"M{left:.1f} {y(10.0**power):.1f}H{right:.1f}", LINE, 1)
        body += text(left - 8, y(10.0**power), f"{10.0**power:,g} {unit}", 12, "end")
    for v in xs:
        body += text(x(v), height + 18, f"{v:,}", 12)
    names = _apart({name: y(line[-1]) for name, line in series.items()}, 16)
    for (name, line), colour in zip(series.items(), PALETTE, strict=False):
        points = "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in zip(xs, line, strict=True))
        body += path(f"M{points}", colour, 2.2)
        body += "".join(element("circle", cx=x(a), cy=y(b), r=3.5, fill=colour)
                        for a, b in zip(xs, line, strict=True))
        body += text(right + 10, names[name], name, SIZE, "start", colour)
    return Picture(body + text((left + right) / 2, height + 38, "positions", 12, fill=INK),
                   WIDTH, height + 46, alt)


def _apart(heights: Mapping[str, float], gap: float) -> dict[str, float]:
    """The same heights, moved down where two are nearer than the gap."""
    placed: dict[str, float] = {}
    floor = -math.inf
    for name in sorted(heights, key=lambda name: heights[name]):
        placed[name] = floor = max(heights[name], floor + gap)
    return placed
