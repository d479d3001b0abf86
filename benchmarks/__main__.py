"""Measure, store the raw numbers in results.json, and make the report of them."""

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contestants import CONTESTANTS, Contestant, with_kernel, with_library
from benchmarks.flops import flops, training_products
from benchmarks.machine import LOAD, Load, machine
from benchmarks.race import (
    LOSS_TOLERANCES,
    ROOT,
    Process,
    peak_bytes,
    race,
    same_losses,
    same_numbers,
    same_tokens,
    say,
)
from benchmarks.report import report
from benchmarks.work import LENGTHS, SIZES

N_COMPARED = len(LOSS_TOLERANCES)       # training steps whose losses are compared
FORMS = Contestant("forms", "forms", "forms", "numpy")
PARTS = ("train", "products", "memory", "decode", "attention", "forms")
Numbers = dict[str, Any]
Contestants = Sequence[Contestant]


def training(size: str, racers: Contestants, rounds: int) -> Numbers:
    """Seconds for a step, round by round, and sgemm's peak, the better of before and after."""
    before = peaks(racers)
    with weights_of(size) as weights:
        found = race(racers, "train", {"size": size, "weights": weights}, rounds, same_losses,
                     N_COMPARED)
    peak = {key: max(before[key], after) for key, after in peaks(racers).items()}
    return {**found, "flops": flops(training_products(SIZES[size])), "peak": peak}


def peaks(contestants: Contestants) -> dict[str, float]:
    """sgemm's GFLOP/s for each contestant: under its own kernel where it is held to one."""
    found: dict[tuple[str, ...], float] = {}
    for environment in ({}, *(c.environment for c in contestants)):
        if tuple(environment.values()) not in found:
            held = Contestant("sgemm", "sgemm", "with_npt", "numpy", environment=environment)
            with Process(held, "sgemm") as process:
                found[tuple(environment.values())] = process.run(5)["values"][0]
    return {c.key: found[tuple(c.environment.values())] for c in contestants}


def products(size: str, racers: Contestants, rounds: int) -> Numbers:
    """Seconds for a training step's matrix products alone, round by round."""
    return race(racers, "products", {"size": size}, rounds, same_numbers)


def memory(size: str, racers: Contestants) -> Numbers:
    """The most bytes that N_COMPARED training steps held over the start."""
    with weights_of(size) as weights:
        return peak_bytes(racers, "train", {"size": size, "weights": weights}, N_COMPARED)


def decoding(size: str, racers: Contestants, rounds: int) -> Numbers:
    """Seconds to write N_TOKENS, for one sequence and for a batch of them."""
    with weights_of(size) as weights:
        return {name: race(racers, "decode", {"size": size, "weights": weights, "n_rows": n_rows},
                           rounds, same_tokens)
                for name, n_rows in (("one", 1), ("batch", SIZES[size].batch))}


def attention(n: int, racers: Contestants, rounds: int) -> Numbers:
    """Seconds and bytes of attention over n positions, forwards and backwards."""
    return {**race(racers, "attend", {"n": n}, rounds, same_numbers),
            "bytes": peak_bytes(racers, "attend", {"n": n}, 1)}


def forms(rounds: int) -> list[Numbers]:
    """Seconds of every fast form and of its textbook form, round by round."""
    with Process(FORMS, "compare") as process:
        return process.run(rounds)["values"]


@contextmanager
def weights_of(size: str) -> Iterator[str]:
    """A file with the weights that everyone starts from: npt_lib's own for a seed of 0."""
    from benchmarks.with_npt import model_of

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.npz"
        arrays: Numbers = model_of(SIZES[size]).state_dict()
        np.savez(path, **arrays)
        yield str(path)


def measured(part: str, there: Contestants, options: argparse.Namespace) -> Any:
    """One part of results.json."""
    able = [c for c in there if {"memory": "train", "attention": "attend"}.get(part, part)
            in c.parts]
    sizes, rounds = options.sizes, options.rounds
    say(f"{part}: {', '.join(options.sizes)}")
    if part == "train":
        return {size: training(size, able, rounds) for size in sizes}
    if part == "products":
        return {size: products(size, able, rounds) for size in sizes}
    if part == "memory":
        return {size: memory(size, able) for size in sizes}
    if part == "decode":
        return {size: decoding(size, able, rounds) for size in sizes}
    if part == "attention":
        return {str(n): attention(n, able, rounds) for n in options.lengths}
    return forms(rounds)


def run(options: argparse.Namespace, store: Path) -> None:
    """Measure what was asked for; each part is stored as soon as it is there."""
    wanted = [CONTESTANTS[key] for key in options.contestants]
    wanted += [with_kernel(options.kernel)] if options.kernel else []
    wanted += [with_library(str(options.against.resolve()))] if options.against else []
    there = [c for c in wanted if find_spec(c.needs)]
    missing = [c.title for c in wanted if c not in there]
    found: Numbers = {"machine": machine(there), "rounds": options.rounds,
                      "titles": {c.key: c.title for c in there}, "missing": missing}
    found, load = earlier(store, found) | found, Load()
    for part in options.only:
        found[part] = measured(part, there, options)
        found["machine"] |= load.by_others()
        store.write_text(json.dumps(rounded(found), indent=1) + "\n", "utf8")


def earlier(store: Path, found: Numbers) -> Numbers:
    """What is stored already, if it was measured alike: machine, rounds and contestants."""
    old = json.loads(store.read_text("utf8")) if store.exists() else found
    alike = all(old[key] == found[key] for key in ("rounds", "titles"))
    return old if alike and old["machine"] | {LOAD: ""} == found["machine"] | {LOAD: ""} else {}


def rounded(found: Any) -> Any:
    """The same with floats to nine digits, which is all that float32 has."""
    if isinstance(found, dict):
        return {key: rounded(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [rounded(value) for value in found]
    return float(f"{found:.9g}") if isinstance(found, float) else found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    for name, allowed in (("--sizes", SIZES), ("--contestants", CONTESTANTS), ("--only", PARTS)):
        add(name, nargs="+", choices=list(allowed), default=list(allowed))
    add("--lengths", nargs="+", type=int, default=LENGTHS, help="of attention")
    add("--rounds", type=int, default=7)
    add("--kernel", help="also npt_lib held to this kernel of OpenBLAS, such as Haswell")
    add("--against", type=Path, help="also npt_lib of this checkout")
    add("--quick", action="store_true", help="a smoke test: TINY alone, two rounds")
    add("--report-only", action="store_true", help="the report again, from results.json")
    add("--out", type=Path, default=ROOT / "_build" / "bench")
    options = parser.parse_args()
    if options.quick:
        options.sizes, options.rounds, options.lengths = ["TINY"], 2, LENGTHS[:1]
    return options


def main() -> None:
    options = arguments()
    options.out.mkdir(parents=True, exist_ok=True)
    store = options.out / "results.json"
    if not options.report_only:
        run(options, store)
    words = report(json.loads(store.read_text("utf8")))
    (options.out / "report.md").write_text(words, "utf8")
    say(f"{options.out / 'report.md'} is written")


if __name__ == "__main__":
    main()
