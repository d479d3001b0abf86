"""Sentences made from numbers: what a figure shows, for those who cannot see it.

A description that is made from data is right, and gives nothing away in the code above it.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from .svg import fixed


def described_row(weights: Sequence[float], words: Sequence[str], of: str = "", *,
                  verb: str = "looks most at", most: int = 3, digits: int = 2) -> str:
    """One row of weights, largest first: "ball looks most at red, 0.83, then cat, 0.05"."""
    values = np.asarray(weights, float)
    order = np.argsort(-values, kind="stable")[:most]
    first, *others = (f"{words[i]}, {fixed(float(values[i]), digits)}" for i in order)
    return " ".join(filter(None, [of, verb, first])) + "".join(f", then {o}" for o in others)


def described_weights(weights, rows: Sequence[str], cols: Sequence[str], *,
                      verb: str = "looks most at", digits: int = 2) -> str:
    """A table of weights: for each row, its largest: "her looks most at cat, 0.81; ball …"."""
    return "; ".join(described_row(row, cols, name, verb=verb, most=1, digits=digits)
                     for name, row in zip(rows, weights, strict=True))


def described_bars(labels: Sequence[str], values: Sequence[float], *, digits: int = 2) -> str:
    """A bar chart, all of its numbers: "the 0.10, cat 0.25"."""
    pairs = zip(labels, values, strict=True)
    return ", ".join(f"{label} {fixed(float(value), digits)}" for label, value in pairs)


def described_lines(x: Sequence[float], series: Mapping[str, Sequence[float]], *,
                    digits: int = 3) -> str:
    """Curves, each by its ends and what lies beyond them: "loss: 2.94 at 1, 0.0031 at 600"."""
    return "; ".join(filter(None, (_curve(name, x, y, digits) for name, y in series.items())))


def _curve(name: str, x: Sequence[float], values: Sequence[float], digits: int) -> str:
    y = np.asarray(values, float)
    seen = np.flatnonzero(np.isfinite(y))
    if not len(seen):
        return ""
    first, last = seen[0], seen[-1]
    low, high = seen[y[seen].argmin()], seen[y[seen].argmax()]
    between = [f"{word} {y[i]:.{digits}g} at {x[i]:g}"
               for word, i in (("lowest", low), ("highest", high)) if i not in (first, last)]
    ends = f"{y[first]:.{digits}g} at {x[first]:g}, {y[last]:.{digits}g} at {x[last]:g}"
    return f"{name}: ".removeprefix(": ") + ", ".join([ends, *between])
