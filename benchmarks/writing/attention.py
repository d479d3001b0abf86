"""The section on attention by length."""

import statistics

from benchmarks.writing import charts, prose
from benchmarks.writing.parts import Pictures, Results, figure, ratio_table, rows_of, verdicts

Series = dict[str, list[float]]


def attention(results: Results) -> tuple[str, Pictures]:
    by_n = {f"{int(n):,}": numbers for n, numbers in results["attention"].items()}
    lengths = [int(n) for n in results["attention"]]
    keys = list(next(iter(by_n.values()))["seconds"])
    seconds = {results["titles"][key]: [1e3 * statistics.median(numbers["seconds"][key])
                                        for numbers in by_n.values()] for key in keys}
    held = {results["titles"][key]: [numbers["bytes"][key] / 2**20 for numbers in by_n.values()]
            for key in keys}
    drawn = {"attention-time.svg": charts.loglog(
                 lengths, seconds, ends("Time of attention", lengths, seconds, "ms"),
                 "time, forwards and backwards", "ms"),
             "attention-memory.svg": charts.loglog(
                 lengths, held, ends("Memory of attention", lengths, held, "MiB"),
                 "the most memory that was held", "MiB")}
    rows = rows_of(results, {n: {key: prose.size(held) for key, held in numbers["bytes"].items()}
                             for n, numbers in by_n.items()})
    return f"""## Attention by length

One sequence, 4 heads of 64, no mask, forwards and backwards, as in training; columns are
positions.

{ratio_table(results, by_n)}
{verdicts(results, by_n)}
{figure("attention-time.svg", drawn["attention-time.svg"])}
The most memory that it held over the start:

{prose.table(["contestant", *by_n], rows)}
{figure("attention-memory.svg", drawn["attention-memory.svg"])}""", drawn


def ends(what: str, xs: list[int], series: Series, unit: str) -> str:
    """For those who cannot see the lines: where each begins and ends."""
    lines = (f"{name} from {prose.number(line[0])} to {prose.number(line[-1])} {unit}"
             for name, line in series.items())
    return f"{what}, from {xs[0]:,} to {xs[-1]:,} positions: {'; '.join(lines)}."
