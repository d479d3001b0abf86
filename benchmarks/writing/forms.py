"""Two sections of the report: fast forms before and after, and where a step's time goes."""

from collections.abc import Mapping
from typing import Any

from benchmarks.contestants import SETTINGS
from benchmarks.contestants.forms import FORMS
from benchmarks.writing import charts, prose
from benchmarks.writing.parts import Pictures, Results, figure
from benchmarks.writing.stats import Range


def forms(results: Results) -> tuple[str, Pictures]:
    """How much each fast form gains: its textbook form's time over its own."""
    found = {form["name"]: form for form in results["forms"]}
    gains = {name: gain_of(form) for name, form in found.items()}
    rows = [[f"{name}: {form['from']} → {form['to']}",
             prose.duration(Range.of(form["before"]).median),
             prose.duration(Range.of(form["after"]).median), prose.times(gains[name])]
            for name, form in found.items()]
    lost = [name for name, gain in gains.items() if gain.median < 1]
    picture = charts.ranges({"": gains}, "How much each form gains: " + ", ".join(
        f"{name} {gain.median:.2f}" for name, gain in gains.items()) + ".",
        "time before over time after, median and range, logarithmic; right is better", log=True)
    losers = f"No gain here: {'; '.join(lost)}.\n\n" if lost else ""
    words = f"""## Each form, before and after

What a textbook writes and what the library does, in turn in one process that keeps freed memory;
the last rows are settings of train, in a process each. The gain is the time before over the time
after, the median of {3 * results["rounds"]} rounds ({results["rounds"]} for settings), with the
least and the most below it: **over 1 is faster**.

{prose.table(["form", "before", "after", "gain"], rows)}
{losers}{figure("forms.svg", picture)}"""
    return words, {"forms.svg": picture}


def gain_of(form: Mapping[str, Any]) -> Range:
    """The time before over the time after, within a round."""
    return Range.of(b / a for b, a in zip(form["before"], form["after"], strict=True))


def gains(results: Results) -> str:
    """A sentence for each form, after a comment with its name: a page takes them one by one."""
    found = dict.fromkeys(FORMS, "not in this run")
    found |= {form["name"]: sentence(form) for form in results.get("forms", [])}
    for setting, *_ in SETTINGS:                     # one sentence for all of its sizes
        sizes = [name for name in found if name.startswith(f"{setting}, ")]
        said = "; ".join(f"at {name.split(', ')[1]} {found.pop(name)}" for name in sizes)
        found[setting] = said or "not in this run"
    lines = [f"<!-- {name} -->\n\n**Measured:** {said}.\n\n" for name, said in found.items()]
    return "".join(lines) + "<!-- end -->\n"


def sentence(form: Mapping[str, Any]) -> str:
    before, after = (prose.duration(Range.of(form[when]).median) for when in ("before", "after"))
    gain = gain_of(form)
    verdict = (", a loss" if gain.most < 1 else
               "" if gain.least > 1 else ", not a gain in every round")
    return (f"{before} before, {after} after, {gain.median:.2f} times as fast "
            f"({gain.least:.2f} to {gain.most:.2f}{verdict})")


def profile(results: Results) -> tuple[str, Pictures]:
    """Shares of a training step's time, by kind of work and by part."""
    by_size, pictures = results["profile"], {}
    for kind, words in (("kinds", "by kind of work"), ("parts", "by part of the library")):
        bars = {name: found[kind] for name, found in by_size.items()}
        pictures[f"profile-{kind}.svg"] = charts.stacked(
            bars, f"The time of a training step, {words}. {shares(bars)}.",
            f"share of the time of a training step of npt_lib, {words}")
    return f"""## Where a training step's time goes

On one thread of Python. First by kind of work: the step's matrix products, each done alone; Python
and the calls of NumPy, which is a step of as many blocks at the least sizes there are; and what is
left, all other work on arrays.

{figure("profile-kinds.svg", pictures["profile-kinds.svg"])}
Then by part of the library, backward passes included, under Python's profiler:

{figure("profile-parts.svg", pictures["profile-parts.svg"])}""", pictures


def shares(bars: Mapping[str, Mapping[str, float]]) -> str:
    """The same in words."""
    return "; ".join(f"{name}: " + ", ".join(f"{kind} {part / sum(parts.values()):.0%}"
                                             for kind, part in parts.items())
                     for name, parts in bars.items())
