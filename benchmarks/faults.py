"""How many pages of memory a step of training fetches from the system, with and without the line.

    python -m benchmarks.faults            measures, and stores benchmarks/faults.json

The system counts them (minor page faults, of Linux). Each number comes from a process of its own:
what one run has taught the C library would help the next.
"""

import json
import resource
import subprocess
import sys
from pathlib import Path

from benchmarks.machine import machine
from benchmarks.race import ROOT
from benchmarks.where import step
from benchmarks.work import SIZES
from npt_lib.parallel.memory import reuse_memory

STORE = Path(__file__).parent / "faults.json"
BEFORE, COUNTED = 4, 20         # steps that settle, and steps that count
WAYS = ("line", "none")


def pages() -> int:
    """Pages that this process has fetched so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def of_a_step(size: str, way: str) -> float:
    """Pages fetched in a step, on average, in this process."""
    if way == "line":
        reuse_memory()
    run = step(SIZES[size])
    for _ in range(BEFORE):
        run()
    start = pages()
    for _ in range(COUNTED):
        run()
    return (pages() - start) / COUNTED


def in_a_process(size: str, way: str) -> float:
    command = [sys.executable, "-m", "benchmarks.faults", size, way]
    return float(subprocess.run(command, capture_output=True, text=True, check=True,
                                cwd=ROOT).stdout)


def main() -> None:
    if len(sys.argv) == 3:
        print(of_a_step(*sys.argv[1:]))
        return
    found = {"machine": machine([]) | {"page": f"{resource.getpagesize()} bytes"},
             "pages": {size: {way: in_a_process(size, way) for way in WAYS} for size in SIZES}}
    STORE.write_text(json.dumps(found, indent=1) + "\n", "utf8")
    for size, by_way in found["pages"].items():
        print(size, *(f"{way}: {n:,.0f}" for way, n in by_way.items()))


if __name__ == "__main__":
    main()
