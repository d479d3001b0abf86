"""The report: tables of the numbers of results.json, and nothing else."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.contestants import OTHER_STATE, REFERENCE
from benchmarks.work import D_HEAD, N_HEADS

Results = dict[str, Any]
Cells = Mapping[str, Mapping[str, str]]         # a cell by column and row
MIB = 2**20
COMPILE = ("torch-compile", "jax")      # before the first call


def report(results: Results) -> str:
    """The Markdown of all that was measured."""
    sections = {"train": training, "products": products, "memory": memory,
                "decode": decoding, "attention": attention, "forms": forms}
    parts = [opening(results), *(section(results) for name, section in sections.items()
                                 if results.get(name))]
    if OTHER_STATE in results["titles"]:
        parts.append(two_states(results))
    return "\n\n".join(parts) + "\n"


def opening(results: Results) -> str:
    missing = "".join(f" {title} is not installed there." for title in results["missing"])
    return f"""## What was measured

{results["rounds"]} rounds, in each of which everyone had a turn; a ratio is between two turns of
one round. A cell is the middle one, with the least and the most below it. **Under 1 is
faster.**{missing}

{table("machine", results["machine"].items()).replace("---:", "---")}"""


def training(results: Results) -> str:
    races = results["train"]
    shares = {size: {key: share(numbers, key) for key in numbers["seconds"]}
              for size, numbers in races.items()}
    peaks = {size: {f"sgemm of {results['titles'][key]}": f"{peak:.0f} GFLOP/s"
                    for key, peak in numbers["peak"].items()
                    if key == "npt" or peak != numbers["peak"].get("npt")}
             for size, numbers in races.items()}
    return f"""## A training step

As ratios to {reference(results)}:

{ratio_table(results, races)}

In milliseconds. In small, how near a step comes to BLAS's best: the operations of its matrix
products, divided by the time of the whole step, are a speed. It is given as a share of the speed in
the row *sgemm* (for a held kernel: in that kernel's row):

{cells_table(results, {size: shares[size] | peaks[size] for size in races})}{
    compiling(results, races)}"""


def compiling(results: Results, races: Mapping[str, Results]) -> str:
    """What the first call took beyond ordinary ones, for those who compile; "" if not stored."""
    cells = {column: {key: f"{compiled(numbers, key):.1f} s" for key in COMPILE
                      if key in numbers["seconds"]}
             for column, numbers in races.items() if "first" in numbers}
    return "" if not any(cells.values()) else f"""

Compiling, before the rounds (what the first call took beyond ordinary ones):

{cells_table(results, cells)}"""


def compiled(numbers: Results, key: str) -> float:
    """Seconds that the first call took beyond as many ordinary repetitions."""
    return numbers["warm_up"] * (numbers["first"][key]
                                 - statistics.median(numbers["seconds"][key]))


def share(numbers: Results, key: str) -> str:
    """A time, and how much of sgemm's speed that is."""
    seconds = statistics.median(numbers["seconds"][key])
    part = numbers["flops"] / seconds / 1e9 / numbers["peak"][key]
    return f"{duration(seconds)}<br><small>{part:.0%}</small>"


def products(results: Results) -> str:
    races = results["products"]
    return f"""## Its matrix products alone

As ratios to {reference(results)}:

{ratio_table(results, races)}

In milliseconds:

{times_table(results, races)}"""


def memory(results: Results) -> str:
    cells = {size: {key: f"{n / MIB:,.0f} MiB<br><small>{n / held[reference_key(held)]:.2f}</small>"
                    for key, n in held.items()}
             for size, held in results["memory"].items() if all(held.values())}    # 0: not known
    return f"""## Memory

By how much a process grew, at most, while it built the model and made five steps; in small, the
ratio to {reference(results)}:

{cells_table(results, cells)}"""


def decoding(results: Results) -> str:
    least = min(part for by_name in results["decode"].values() for numbers in by_name.values()
                for part in numbers["checked"].values())
    share = "All" if least == 1 else f"At least {least:.1%}"
    tables = []
    for name, heading in (("one", "One sequence"), ("batch", "A batch at once")):
        races = {size: by_name[name] for size, by_name in results["decode"].items()}
        tables += [f"**{heading}**", ratio_table(results, races),
                   "In milliseconds:", times_table(results, races) + compiling(results, races)]
    return f"""## Writing 64 tokens

With a cache, as ratios to {reference(results)}. {share} of the tokens agree with
the first row's.

""" + "\n\n".join(tables)


def attention(results: Results) -> str:
    by_n = {f"{int(n):,}": numbers for n, numbers in results["attention"].items()}
    held = {n: {key: f"{size / MIB:,.0f} MiB" for key, size in numbers["bytes"].items()}
            for n, numbers in by_n.items()}
    return f"""## Attention by length

Forwards and backwards over so many positions, for one sequence with {N_HEADS} heads of {D_HEAD},
as ratios to {reference(results)}:

{ratio_table(results, by_n)}

In milliseconds:

{times_table(results, by_n)}

By how much a process grew meanwhile, at most:

{cells_table(results, held)}"""


def forms(results: Results) -> str:
    rows = [(f"{form['name']}: `{form['from']}` → `{form['to']}`",
             *(duration(statistics.median(form[when])) for when in ("before", "after")),
             spread(form["before"], form["after"])) for form in results["forms"]]
    return f"""## Each form, before and after

The gain is the time before over the time after, within a round: the middle one, with the least and
the most below it. **Over 1 is faster**.

{table("form", rows, ("before", "after", "gain"))}"""


def shares(step: Mapping[str, Sequence[float]]) -> list[float]:
    """What matrix products, calls and the rest take of a step, from middle times."""
    whole, products, calls = (statistics.median(step[part])
                              for part in ("whole", "products", "calls"))
    return [products / whole, calls / whole, 1 - (products + calls) / whole]


def gain(form: Results) -> float:
    """The time before over the time after, in the middle round."""
    return statistics.median(a / b for a, b in zip(form["before"], form["after"], strict=True))


def two_states(results: Results) -> str:
    """This state of the library beside the other, within each round."""
    races = {"training step": results.get("train", {}), "attention": results.get("attention", {}),
             **{f"writing, {name}": {size: by_name[name] for size, by_name
                                     in results.get("decode", {}).items()}
                for name in ("one", "batch")}}
    rows = [(f"{what}, {column}", spread(numbers["seconds"]["npt"],
                                         numbers["seconds"][OTHER_STATE]))
            for what, by_column in races.items() for column, numbers in by_column.items()]
    return f"""## Two states of the library

Time of this state over that of the other:

{table("work", rows, ("ratio",))}"""


def spread(over: Sequence[float], under: Sequence[float]) -> str:
    """The median of the ratios within a round; in small the least and the most."""
    ratios = sorted(a / b for a, b in zip(over, under, strict=True))
    return (f"{statistics.median(ratios):.2f}"
            f"<br><small>{ratios[0]:.2f}–{ratios[-1]:.2f}</small>")


def ratio_table(results: Results, by_column: Mapping[str, Results]) -> str:
    """Everyone's time over the reference's, a column for each race."""
    cells = {}
    for column, numbers in by_column.items():
        seconds = numbers["seconds"]
        to = reference_key(seconds)
        cells[column] = {key: "1" if key == to else spread(seconds[key], seconds[to])
                         for key in seconds}
    return cells_table(results, cells)


def times_table(results: Results, by_column: Mapping[str, Results]) -> str:
    """Everyone's middle time, a column for each race."""
    return cells_table(results, {
        column: {key: duration(statistics.median(seconds))
                 for key, seconds in numbers["seconds"].items()}
        for column, numbers in by_column.items()})


def reference_key(present: Iterable[str]) -> str:
    """Who the ratios are to: PyTorch eager, or the first where it is missing."""
    keys = list(present)
    return REFERENCE if REFERENCE in keys else keys[0]


def reference(results: Results) -> str:
    return results["titles"][reference_key(results["titles"])]


def cells_table(results: Results, columns: Cells) -> str:
    """A row for everyone who is in any column; a dash where somebody is missing."""
    keys = dict.fromkeys(key for cells in columns.values() for key in cells)
    return table("contestant", [(results["titles"].get(key, key),
                           *(cells.get(key, "–") for cells in columns.values())) for key in keys],
                 list(columns))


def table(corner: str, rows: Iterable[Sequence[str]], columns: Sequence[str] = ("here",)) -> str:
    """A Markdown table: the first column is words, the others are numbers."""
    head = (corner, *columns), ("---", *["---:"] * len(columns))
    return "\n".join("| " + " | ".join(row) + " |" for row in (*head, *rows))


def duration(seconds: float) -> str:
    """In milliseconds, to three digits."""
    ms = 1e3 * seconds
    return f"{ms:.0f} ms" if ms >= 100 else f"{ms:.3g} ms"
