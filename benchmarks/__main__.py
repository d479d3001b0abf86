"""Measure, store the raw numbers in results.json, and make the report of them."""

import argparse
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.contestants import CONTESTANTS, Contestant, with_kernel
from benchmarks.machine import machine
from benchmarks.race import say
from benchmarks.sizes import SIZES
from benchmarks.writing import write_report

KINDS = ("train", "dropout", "decode", "attention", "memory", "forms", "profile")
PROFILED = ("SMALL", "BASE")
FOLDER = Path(__file__).parent / "report"


def words(text: str) -> list[str]:
    return text.split(",")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--sizes", type=words, default=list(SIZES), help="such as TINY,SMALL")
    add("--contestants", type=words, default=list(CONTESTANTS), help="such as npt,torch")
    add("--only", type=words, default=list(KINDS), help="of " + ",".join(KINDS))
    add("--rounds", type=int, default=9)
    add("--kernel", help="also npt_lib held to this kernel of OpenBLAS, such as Haswell")
    add("--quick", action="store_true", help="a smoke test: TINY alone, two rounds")
    add("--report-only", action="store_true", help="the report again, from results.json")
    add("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.rounds = ["TINY"], 2
    return options


def chosen(keys: list[str], kernel: str | None) -> tuple[list[Contestant], list[Contestant]]:
    """Who takes part, and who is left out because its package is missing."""
    wanted = [CONTESTANTS[key] for key in keys] + ([with_kernel(kernel)] if kernel else [])
    there = [c for c in wanted if find_spec(c.needs)]
    return there, [c for c in wanted if c not in there]


def measured(options: argparse.Namespace) -> dict[str, Any]:
    """Everything that was asked for, as it goes into results.json."""
    present, missing = chosen(options.contestants, options.kernel)
    for contestant in missing:
        say(f"{contestant.title} is left out: {contestant.needs} is not installed")
    found: dict[str, Any] = {
        "machine": machine(present), "rounds": options.rounds,
        "titles": {c.key: c.title for c in present}, "missing": [c.title for c in missing]}
    sizes = [SIZES[name] for name in options.sizes]
    rounds = options.rounds
    if "train" in options.only:
        found["train"] = {s.name: measure.training(s, present, rounds) for s in sizes}
    if "dropout" in options.only and "SMALL" in options.sizes:
        found["dropout"] = measure.training_with_dropout(SIZES["SMALL"], present, rounds)
    if "decode" in options.only:
        found["decode"] = {s.name: measure.decoding(s, present, rounds) for s in sizes}
    if "attention" in options.only:
        lengths = measure.LENGTHS[:1] if options.quick else measure.LENGTHS
        found["attention"] = {str(n): measure.attention(n, present, max(2, rounds // 3))
                              for n in lengths}
    if "memory" in options.only:
        found["memory"] = {s.name: measure.memory(s, present) for s in sizes}
    if "forms" in options.only:
        found["forms"] = measure.forms(rounds) + measure.settings(sizes, rounds)
    if "profile" in options.only:
        found["profile"] = {s.name: measure.profile(s, rounds) for s in sizes
                            if s.name in PROFILED}
    return found


def main() -> None:
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    store = options.out / "results.json"
    if not options.report_only:
        store.write_text(json.dumps(measured(options), indent=1) + "\n", "utf8")
    write_report(json.loads(store.read_text("utf8")), options.out)
    say(f"{options.out / 'report.md'} is written")


if __name__ == "__main__":
    main()
