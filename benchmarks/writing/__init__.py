"""The report: Markdown and plots, from the numbers of results.json and nothing else."""

from pathlib import Path

from benchmarks.writing import prose
from benchmarks.writing.attention import attention
from benchmarks.writing.forms import forms, gains, profile
from benchmarks.writing.parts import Pictures, Results, to
from benchmarks.writing.sections import decoding, dropout, memory, training

SECTIONS = {"train": training, "dropout": dropout, "memory": memory, "decode": decoding,
            "attention": attention, "forms": forms, "profile": profile}
APART = ("forms", "profile")           # sections that a page of the book shows by themselves
NOT_THERE = "*Not measured in this run.*"


def write_report(results: Results, folder: Path) -> None:
    """report.md, its plots, and a file for each section that is shown apart, into the folder."""
    words, pictures = report(results)
    for section in APART:
        text = SECTIONS[section](results)[0] if results.get(section) else NOT_THERE
        (folder / f"{section}.md").write_text(text + "\n", "utf8")
    (folder / "gains.md").write_text(gains(results), "utf8")
    for name, picture in pictures.items():
        (folder / name).write_text(picture.svg + "\n", "utf8")
    (folder / "report.md").write_text(words, "utf8")


def report(results: Results) -> tuple[str, Pictures]:
    """The Markdown of all sections that are not shown apart, and the pictures of all, by name."""
    parts = [opening(results), summary(results)]
    pictures: Pictures = {}
    for name, section in SECTIONS.items():
        if results.get(name):
            words, drawn = section(results)
            parts += [words] if name not in APART else []
            pictures |= drawn
    return "\n".join(filter(None, parts)), pictures


def opening(results: Results) -> str:
    machine = prose.table(["machine", "here"], results["machine"].items()).replace("---:", "---")
    missing = "".join(f" {title} is not installed there: it is left out."
                      for title in results["missing"])
    return f"""## What was measured

The same models, from the same weights, on the same data, by each contestant in a process of its
own: all were started and warmed up, then took turns, {results["rounds"]} rounds of one turn each,
and a ratio is between two turns of one round. A cell is the median ratio to {to(results)},
with the least and the most below it.
**Under 1 is faster.**{missing}

{machine}"""


def summary(results: Results) -> str:
    """A line for each race: where npt_lib is faster than all others, where it is not."""
    decode = results.get("decode", {})
    races = {"A training step": results.get("train", {}),
             "Writing, one sequence": {size: numbers["one"] for size, numbers in decode.items()},
             "Writing, a batch": {size: numbers["batch"] for size, numbers in decode.items()},
             "Attention": {f"{int(n):,} positions": numbers
                           for n, numbers in results.get("attention", {}).items()}}
    lines = []
    for what, by_name in races.items():
        seconds = {name: numbers["seconds"] for name, numbers in by_name.items()}
        if seconds and "npt" in results["titles"]:
            lines.append(f"- {what}: {prose.in_short(seconds, results['titles'])}.\n")
    return f"## npt_lib in short\n\n{''.join(lines)}" if lines else ""
