"""Two sections of the report: fast forms before and after, and where a step's time goes."""

from typing import Any

from benchmarks.writing import charts, prose
from benchmarks.writing.stats import Range
from npt_lib.figures.svg import Picture


def forms(results: dict[str, Any]) -> tuple[str, dict[str, Picture]]:
    """How much each fast form gains: its textbook form's time over its own."""
    found = {form["name"]: form for form in results["forms"]}
    gains = {name: Range.of(b / a for b, a in zip(form["before"], form["after"], strict=True))
             for name, form in found.items()}
    rows = [[f"{name}: {form['from']} → {form['to']}",
             prose.duration(Range.of(form["before"]).median),
             prose.duration(Range.of(form["after"]).median), prose.times(gains[name])]
            for name, form in found.items()]
    lost = [name for name, gain in gains.items() if gain.median < 1]
    picture = charts.ranges({"": gains}, "How much each form gains: " + ", ".join(
        f"{name} {gain.median:.2f}" for name, gain in gains.items()) + ".",
        "time before over time after, median and range; right is better")
    losers = f"No gain here: {prose.listed(lost)}.\n\n" if lost else ""
    words = f"""## Each form, before and after

What a textbook writes and what the library does, in turn in one process; the gain is the time
before over the time after, within a round: **over 1 is faster**.

{prose.table(["", "before", "after", "gain"], rows)}
{losers}![{picture.alt}](forms.svg)
"""
    return words, {"forms.svg": picture}


def profile(results: dict[str, Any]) -> tuple[str, dict[str, Picture]]:
    """Shares of a training step's time, by kind of work."""
    bars = results["profile"]
    alt = "; ".join(f"{name}: " + ", ".join(f"{kind} {part / sum(parts.values()):.0%}"
                                            for kind, part in parts.items())
                    for name, parts in bars.items())
    picture = charts.stacked(bars, f"Where a training step's time goes. {alt}.",
                             "share of the time of a training step of npt_lib")
    words = f"""## Where a training step's time goes

npt_lib's own step, with its matrix products, its other array operations and the Python between
them told apart.

![{picture.alt}](profile.svg)
"""
    return words, {"profile.svg": picture}
