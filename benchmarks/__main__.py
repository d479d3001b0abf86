"""Measure, store the raw numbers in results.json, and make the report of them."""

import argparse
import json
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.contestants import CONTESTANTS, Contestant, with_kernel
from benchmarks.machine import Load, machine
from benchmarks.race import say
from benchmarks.sizes import SIZES
from benchmarks.writing import write_report

KINDS = ("train", "dropout", "memory", "decode", "attention", "forms", "profile")
PROFILED = ("SMALL", "BASE")
Section = Callable[[], Any]
FOLDER = Path(__file__).parent / "report"


def some_of(allowed: Iterable[str]) -> Callable[[str], list[str]]:
    """Reads "a,b" as a list of names, each of which must be allowed."""
    known = list(allowed)

    def read(text: str) -> list[str]:
        unknown = [name for name in text.split(",") if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(
                f"must be some of {','.join(known)}, got {','.join(unknown)}")
        return text.split(",")

    return read


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)

    def add_choice(name: str, allowed: Iterable[str]) -> None:
        parser.add_argument(name, type=some_of(allowed), default=list(allowed), metavar="A,B",
                            help="some of " + ",".join(allowed))

    add_choice("--sizes", SIZES)
    add_choice("--contestants", CONTESTANTS)
    add_choice("--only", KINDS)
    add = parser.add_argument
    add("--rounds", type=int, default=7)
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


def sections(options: argparse.Namespace, present: list[Contestant]) -> dict[str, Section]:
    """What measures each part of results.json."""
    sizes, rounds = [SIZES[name] for name in options.sizes], options.rounds
    lengths = measure.LENGTHS[:1] if options.quick else measure.LENGTHS
    return {
        "train": lambda: {s.name: measure.training(s, present, rounds) for s in sizes},
        "dropout": lambda: measure.training_with_dropout(SIZES["SMALL"], present, rounds),
        "memory": lambda: {s.name: measure.memory(s, present) for s in sizes},
        "decode": lambda: {s.name: measure.decoding(s, present, rounds) for s in sizes},
        "attention": lambda: {str(n): measure.attention(n, present, rounds) for n in lengths},
        "forms": lambda: measure.forms(rounds) + measure.settings(sizes, rounds),
        "profile": lambda: {s.name: measure.profile(s, rounds) for s in sizes
                            if s.name in PROFILED},
    }


def run(options: argparse.Namespace, store: Path) -> None:
    """Measure what was asked for; each part is stored as soon as it is there."""
    present, missing = chosen(options.contestants, options.kernel)
    for contestant in missing:
        say(f"{contestant.title} is left out: {contestant.needs} is not installed")
    found: dict[str, Any] = {
        "machine": machine(present), "rounds": options.rounds,
        "titles": {c.key: c.title for c in present}, "missing": [c.title for c in missing]}
    found = earlier(store, found) | found
    measures, load = sections(options, present), Load()
    for name in options.only:
        found[name] = measures[name]()
        found["machine"] |= load.by_others()
        store.write_text(json.dumps(rounded(found), indent=1) + "\n", "utf8")


def earlier(store: Path, found: dict[str, Any]) -> dict[str, Any]:
    """What is stored already, if it was measured alike: machine, rounds and contestants."""
    if not store.exists():
        return {}
    old = json.loads(store.read_text("utf8"))

    def setting(results: dict[str, Any]) -> tuple[Any, ...]:
        machine = {k: v for k, v in results["machine"].items() if k != "Load by others"}
        return machine, results["rounds"], results["titles"]

    return old if setting(old) == setting(found) else {}


def rounded(found: Any) -> Any:
    """The same with floats to nine digits, which is all that float32 has."""
    if isinstance(found, dict):
        return {key: rounded(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [rounded(value) for value in found]
    return float(f"{found:.9g}") if isinstance(found, float) else found


def main() -> None:
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    store = options.out / "results.json"
    if not options.report_only:
        run(options, store)
    write_report(json.loads(store.read_text("utf8")), options.out)
    say(f"{options.out / 'report.md'} is written")


if __name__ == "__main__":
    main()
