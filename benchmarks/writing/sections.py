"""Sections on training, its memory, and decoding."""

import statistics
from collections.abc import Mapping
from typing import Any

from benchmarks.writing import prose
from benchmarks.writing.parts import (
    Pictures,
    Results,
    figure,
    ratio_plot,
    ratio_table,
    rows_of,
    to,
    verdicts,
)
from benchmarks.writing.stats import reference


def training(results: Results) -> tuple[str, Pictures]:
    by_size = results["train"]
    picture = ratio_plot(results, by_size, "Time of a training step")
    first, worst = spread(by_size, 1), spread(by_size, None)
    return f"""## A training step

Forward, label-smoothed cross-entropy, backward, clipping, Adam. All computed the same losses: the
largest relative difference is {first:.0e} in the first step, and {worst:.0e} in the first five, as
rounding grows from step to step.

{ratio_table(results, by_size)}
{verdicts(results, by_size)}
{figure("training.svg", picture)}
### In milliseconds, and as a share of what the machine can do

A step's matrix products, counted by arithmetic at the padded sizes, over its time, as a share of
the speed at which NumPy multiplies two float32 matrices of 2,048 rows on all cores in this run
(sgemm); for npt_lib held to a kernel, NumPy held to it as well.

{share_table(results)}""", {"training.svg": picture}


def spread(by_size: Mapping[str, Any], steps: int | None) -> float:
    """The largest relative difference between anyone's losses and the first contestant's."""
    return max(abs(a / b - 1) for numbers in by_size.values()
               for losses in numbers["checked"].values()
               for a, b in zip(losses[:steps], next(iter(numbers["checked"].values()))))


def share_table(results: Results) -> str:
    by_size = results["train"]
    rows = rows_of(results, {size: {
        key: share_cell(numbers, key) for key in numbers["seconds"]}
        for size, numbers in by_size.items()})
    by_peaks = {tuple(numbers["peak"][key] for numbers in by_size.values()): key
                for key in reversed(next(iter(by_size.values()))["peak"])}
    peaks = [["sgemm" if i == 0 else f"sgemm of {results['titles'][key]}",
              *(f"{peak:.0f} GFLOP/s" for peak in measured)]
             for i, (measured, key) in enumerate(reversed(by_peaks.items()))]
    return prose.table(["contestant", *by_size], [*rows, *peaks])


def share_cell(numbers: Mapping[str, Any], key: str) -> str:
    seconds = statistics.median(numbers["seconds"][key])
    share = numbers["flops"] / seconds / 1e9 / numbers["peak"][key]
    return f"{prose.duration(seconds)}<br><small>{share:.0%}</small>"


def dropout(results: Results) -> tuple[str, Pictures]:
    by_size = {"SMALL": results["dropout"]}
    return f"""### With dropout 0.1

As before, with dropout after the embeddings and each sublayer; nn.Transformer's own layers also
drop attention weights and hidden units.

{ratio_table(results, by_size)}
{verdicts(results, by_size)}""", {}


def memory(results: Results) -> tuple[str, Pictures]:
    by_size = results["memory"]
    rows = rows_of(results, {size: {
        key: f"{prose.size(n)}<br><small>{n / held[reference(held)]:.2f}</small>"
        for key, n in held.items()} for size, held in by_size.items()})
    return f"""## Memory

The most that five training steps held at once, over what the process held after its imports; in
small, the ratio to {to(results)}.

{prose.table(["contestant", *by_size], rows)}""", {}


def decoding(results: Results) -> tuple[str, Pictures]:
    parts, pictures = [], {}
    for name, heading in (("one", "One sequence"), ("batch", "A batch at once")):
        by_size = {size: numbers[name] for size, numbers in results["decode"].items()}
        picture = ratio_plot(results, by_size, f"Time to write 64 tokens, {heading.lower()}")
        pictures[f"decoding-{name}.svg"] = picture
        parts.append(f"### {heading}\n\n{ratio_table(results, by_size)}\n"
                     f"{verdicts(results, by_size)}\n"
                     f"{figure(f'decoding-{name}.svg', picture)}")
    least = min(share for numbers in results["decode"].values() for part in numbers.values()
                for share in part["checked"].values())
    agree = "All write the same tokens." if least == 1 else f"At least {least:.1%} are the same."
    return f"""## Writing 64 tokens

Each the likeliest, by everyone with a cache of keys and values. {agree}

""" + "\n".join(parts), pictures
