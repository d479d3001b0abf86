"""From seconds of rounds to ratios, and from ratios to what may be said."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.contestants import REFERENCE

Seconds = Mapping[str, Sequence[float]]


class Range(NamedTuple):
    """The median of several rounds, with the least and the most of them."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Range":
        found = sorted(values)
        return cls(statistics.median(found), found[0], found[-1])


def ratio(seconds: Seconds, key: str, to: str) -> Range:
    """One contestant's time over another's, within each round."""
    return Range.of(a / b for a, b in zip(seconds[key], seconds[to], strict=True))


def reference(seconds: Mapping[str, object]) -> str:
    """Who the ratios are to: PyTorch eager, or the first where it is missing."""
    return REFERENCE if REFERENCE in seconds else next(iter(seconds))


def ratios(seconds: Seconds) -> dict[str, Range]:
    """Everyone's ratio to the reference."""
    to = reference(seconds)
    return {key: ratio(seconds, key, to) for key in seconds}


def compared(seconds: Seconds, key: str, others: Iterable[str]) -> dict[str, dict[str, Range]]:
    """Who key is faster than, who it is slower than, and whom no rounds tell it from.

    Faster means in every single round. The ratios are key's time over the other's.
    """
    found: dict[str, dict[str, Range]] = {"faster": {}, "slower": {}, "level": {}}
    for other in others:
        r = ratio(seconds, key, other)
        kind = "faster" if r.most < 1 else "slower" if r.least > 1 else "level"
        found[kind][other] = r
    return found
