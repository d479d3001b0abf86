"""The report: Markdown and plots, from the numbers of results.json and nothing else."""

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import charts, prose
from benchmarks.report_forms import forms, profile
from benchmarks.stats import ratios, reference
from npt_lib.figures.svg import Picture

Results = dict[str, Any]
Pictures = dict[str, Picture]


def write_report(results: Results, folder: Path) -> None:
    """report.md and its plots, into the folder."""
    words, pictures = report(results)
    for name, picture in pictures.items():
        (folder / name).write_text(picture.svg + "\n", "utf8")
    (folder / "report.md").write_text(words, "utf8")


def report(results: Results) -> tuple[str, Pictures]:
    """The Markdown, and the pictures that it shows by their file names."""
    parts, pictures = [opening(results)], {}
    for name, section in SECTIONS.items():
        if results.get(name):
            words, drawn = section(results)
            parts.append(words)
            pictures |= drawn
    return "\n".join(parts), pictures


def opening(results: Results) -> str:
    machine = prose.table(["", ""], ([name, text] for name, text in results["machine"].items()))
    machine = machine.replace("---:", "---")
    missing = "".join(f"{title} is not installed there and left out. "
                      for title in results["missing"])
    return f"""## What was measured

The same models, from the same weights, on the same data, by each contestant in a process of its
own: all were started and warmed up, then took turns, {results["rounds"]} rounds of A, B, C, and a
ratio is between two turns of one round. Each cell is the median ratio to {_to(results)}, with the
least and the most below it: **under 1 is faster**. {missing}

{machine}"""


def _to(results: Results) -> str:
    return results["titles"][reference(results["titles"])]


def _figure(name: str, picture: Picture) -> str:
    return f"![{picture.alt}]({name})\n"


def _ratio_table(results: Results, by_column: Mapping[str, Any]) -> str:
    found = {column: ratios(numbers["seconds"]) for column, numbers in by_column.items()}
    keys = dict.fromkeys(key for column in found.values() for key in column)
    rows = [[results["titles"][key], *(prose.times(column[key]) if key in column else "–"
                                       for column in found.values())] for key in keys]
    return prose.table(["", *found], rows)


def _ratio_plot(results: Results, by_group: Mapping[str, Any], what: str) -> Picture:
    titles = results["titles"]
    groups = {name: {titles[key]: r for key, r in ratios(numbers["seconds"]).items()}
              for name, numbers in by_group.items()}
    said = ", ".join(f"{name} {group[titles['npt']].median:.2f}" for name, group in groups.items()
                     if titles.get("npt") in group)
    return charts.ranges(groups, f"{what}, as ratios to {_to(results)}; npt_lib: {said}.",
                         f"time over that of {_to(results)}, median and range; left is faster",
                         [title for key, title in titles.items() if key.startswith("npt")])


def _verdicts(results: Results, by_name: Mapping[str, Any]) -> str:
    """A line for each, where npt_lib took part; in brackets its time over the other's."""
    lines = [f"- {name}: {prose.verdict(numbers['seconds'], results['titles'])}."
             for name, numbers in by_name.items() if "npt" in numbers["seconds"]]
    return "npt_lib is (its time over the other's in brackets):\n\n" + "\n".join(lines) + "\n"


def training(results: Results) -> tuple[str, Pictures]:
    by_size = results["train"]
    picture = _ratio_plot(results, by_size, "Time of a training step")
    worst = max(abs(a / b - 1) for numbers in by_size.values()
                for losses in numbers["checked"].values()
                for a, b in zip(losses, next(iter(numbers["checked"].values()))))
    return f"""## A training step

Forward, label-smoothed cross-entropy, backward, clipping, Adam. All computed the same losses in
their first {len(next(iter(next(iter(by_size.values()))["checked"].values())))} steps: the largest \
relative difference was {worst:.0e}.

{_ratio_table(results, by_size)}
{_verdicts(results, by_size)}
{_figure("training.svg", picture)}
### In milliseconds, and as a share of what the machine can do

A step's matrix products, counted by arithmetic at the padded sizes, over its time, as a share of
the speed at which NumPy multiplies two float32 matrices of 2,048 rows on all cores in this run.

{_share_table(results)}""", {"training.svg": picture}


def _share_table(results: Results) -> str:
    by_size, rows = results["train"], []
    for key in dict.fromkeys(k for numbers in by_size.values() for k in numbers["seconds"]):
        row = [results["titles"][key]]
        for numbers in by_size.values():
            seconds = statistics.median(numbers["seconds"][key])
            share = numbers["flops"] / seconds / 1e9 / numbers["peak"][key]
            row.append(f"{prose.duration(seconds)}<br><small>{share:.0%}</small>")
        rows.append(row)
    peaks = [f"{max(numbers['peak'].values()):.0f} GFLOP/s" for numbers in by_size.values()]
    return prose.table(["", *by_size], [*rows, ["sgemm", *peaks]])


def dropout(results: Results) -> tuple[str, Pictures]:
    by_size = {"SMALL": results["dropout"]}
    return f"""### With dropout 0.1

As before, with dropout after the embeddings and each sublayer; nn.Transformer's own layers also
drop attention weights and hidden units.

{_ratio_table(results, by_size)}
{_verdicts(results, by_size)}""", {}


def memory(results: Results) -> tuple[str, Pictures]:
    by_size = results["memory"]
    rows = []
    for key in dict.fromkeys(k for held in by_size.values() for k in held):
        row = [results["titles"][key]]
        for held in by_size.values():
            row.append(f"{prose.size(held[key])}<br><small>"
                       f"{held[key] / held[reference(held)]:.2f}</small>")
        rows.append(row)
    return f"""## Memory

The most that five training steps held at once, over what the process held after its imports; in
small, the ratio to {_to(results)}.

{prose.table(["", *by_size], rows)}""", {}


def decoding(results: Results) -> tuple[str, Pictures]:
    parts, pictures = [], {}
    for name, heading in (("one", "One sequence"), ("batch", "A batch")):
        by_size = {size: numbers[name] for size, numbers in results["decode"].items()}
        rows = ", ".join(f"{numbers['rows']} at {size}" for size, numbers in by_size.items())
        picture = _ratio_plot(results, by_size, f"Time to write 64 tokens, {heading.lower()}")
        pictures[f"decoding-{name}.svg"] = picture
        parts.append(f"### {heading}\n\nRows: {rows}.\n\n{_ratio_table(results, by_size)}\n"
                     f"{_verdicts(results, by_size)}\n"
                     f"{_figure(f'decoding-{name}.svg', picture)}")
    least = min(share for numbers in results["decode"].values() for part in numbers.values()
                for share in part["checked"].values())
    return f"""## Writing 64 tokens

Each the likeliest, by everyone with a cache of keys and values. At least {least:.1%} of anyone's
tokens are npt_lib's.

""" + "\n".join(parts), pictures


def attention(results: Results) -> tuple[str, Pictures]:
    by_n = {f"{int(n):,}": numbers for n, numbers in results["attention"].items()}
    lengths = [int(n) for n in results["attention"]]
    keys = list(next(iter(by_n.values()))["seconds"])
    seconds = {results["titles"][key]: [1e3 * statistics.median(numbers["seconds"][key])
                                        for numbers in by_n.values()] for key in keys}
    held = {results["titles"][key]: [numbers["bytes"][key] / 2**20 for numbers in by_n.values()]
            for key in keys}
    drawn = {"attention-time.svg": charts.loglog(
                 lengths, seconds, "Time of attention by its length.", "time, both ways", "ms"),
             "attention-memory.svg": charts.loglog(
                 lengths, held, "Memory of attention by its length.", "memory", "MiB")}
    rows = [[title, *(f"{mib:,.0f} MiB" for mib in line)] for title, line in held.items()]
    return f"""## Attention by length

One sequence, 4 heads of 64, no mask, forwards and backwards; columns are positions.

{_ratio_table(results, by_n)}
{_verdicts(results, by_n)}
{_figure("attention-time.svg", drawn["attention-time.svg"])}
The most memory that it held over the start:

{prose.table(["", *by_n], rows)}
{_figure("attention-memory.svg", drawn["attention-memory.svg"])}""", drawn


SECTIONS = {"train": training, "dropout": dropout, "memory": memory, "decode": decoding,
            "attention": attention, "forms": forms, "profile": profile}
