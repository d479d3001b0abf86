"""What the sections have in common: a table of ratios, its plot, its sentences."""

from collections.abc import Mapping
from typing import Any

from benchmarks.writing import charts, prose
from benchmarks.writing.stats import ratios, reference
from npt_lib.figures.svg import Picture

Results = dict[str, Any]
Pictures = dict[str, Picture]


def to(results: Results) -> str:
    return results["titles"][reference(results["titles"])]


def figure(name: str, picture: Picture) -> str:
    return f"![{picture.alt}]({name})\n"


def ratio_table(results: Results, by_column: Mapping[str, Any]) -> str:
    """A row for everyone, a column for each race."""
    return prose.table(["contestant", *by_column], rows_of(results, {
        column: {key: prose.times(r) for key, r in ratios(numbers["seconds"]).items()}
        for column, numbers in by_column.items()}))


def rows_of(results: Results, columns: Mapping[str, Mapping[str, str]]) -> list[list[str]]:
    """A row for everyone who is in any column: the title, then each column's cell or a dash."""
    keys = dict.fromkeys(key for cells in columns.values() for key in cells)
    return [[results["titles"][key], *(cells.get(key, "–") for cells in columns.values())]
            for key in keys]


def ratio_plot(results: Results, by_group: Mapping[str, Any], what: str) -> Picture:
    titles = results["titles"]
    groups = {name: {titles[key]: r for key, r in ratios(numbers["seconds"]).items()}
              for name, numbers in by_group.items()}
    said = ", ".join(f"{name} {group[titles['npt']].median:.2f}" for name, group in groups.items()
                     if titles.get("npt") in group)
    return charts.ranges(groups, f"{what}, as ratios to {to(results)}; npt_lib: {said}.",
                         f"time over that of {to(results)}, median and range; left is faster",
                         [title for key, title in titles.items() if key.startswith("npt")])


def verdicts(results: Results, by_name: Mapping[str, Any]) -> str:
    """A line for each, where npt_lib took part; in brackets its time over the other's."""
    lines = [f"- {name}: {prose.verdict(numbers['seconds'], results['titles'])}."
             for name, numbers in by_name.items() if "npt" in numbers["seconds"]]
    return "npt_lib is (its time over the other's in brackets):\n\n" + "\n".join(lines) + "\n"
