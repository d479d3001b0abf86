"""The command: what to measure, of whom, how often."""

import argparse
import statistics
from importlib.util import find_spec

from benchmarks import training
from benchmarks.contestants import CONTESTANTS, REFERENCE, Contestant, with_kernel
from benchmarks.race import say
from benchmarks.sizes import SIZES


def names(text: str) -> list[str]:
    return text.split(",")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--sizes", type=names, default=list(SIZES), help="such as TINY,SMALL")
    parser.add_argument("--contestants", type=names, default=list(CONTESTANTS),
                        help="such as npt,torch")
    parser.add_argument("--only", type=names, default=["train"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--kernel", help="also npt_lib held to this OpenBLAS kernel")
    return parser.parse_args()


def chosen(keys: list[str], kernel: str | None) -> tuple[list[Contestant], list[Contestant]]:
    """Who takes part, and who is left out because its package is missing."""
    wanted = [CONTESTANTS[key] for key in keys] + ([with_kernel(kernel)] if kernel else [])
    there = [c for c in wanted if find_spec(c.needs)]
    return there, [c for c in wanted if c not in there]


def main() -> None:
    options = arguments()
    present, missing = chosen(options.contestants, options.kernel)
    for contestant in missing:
        say(f"{contestant.title} is left out: {contestant.needs} is not installed")
    for name in options.sizes:
        found = training.measure(SIZES[name], present, options.rounds)
        base = found["seconds"][REFERENCE]
        for key, seconds in found["seconds"].items():
            ratios = [s / b for s, b in zip(seconds, base)]
            ms = statistics.median(seconds)
            share = found["flops"] / ms / 1e9 / found["peak"][key]
            say(f"  {key:14} {1e3 * ms:9.2f} ms   {statistics.median(ratios):.2f} "
                f"({min(ratios):.2f} to {max(ratios):.2f})   {share:.0%} of sgemm")


if __name__ == "__main__":
    main()
