"""How many pages of memory a step of training fetches from the system: in three ways, four times.

    python -m benchmarks.faults            measures, and stores benchmarks/faults.json

The system counts them (minor page faults, of Linux). All have 4 KiB: NumPy's request for larger
ones is switched off. Each number comes from a process of its own, since what one run has taught
the C library would help the next. The four processes differ in one small array, held all along:
what a process fetches hangs on what lies where, so one count alone says little.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.machine import machine
from benchmarks.race import ROOT
from benchmarks.where import step
from benchmarks.work import SIZES
from npt_lib.parallel.memory import keep_memory, reuse_memory

STORE = Path(__file__).parent / "faults.json"
BEFORE, COUNTED = 4, 10         # steps that settle, and steps that count
WAYS: dict[str, Callable[[], object]] = {
    "none": lambda: None, "line": reuse_memory, "keep": keep_memory}
HELD = (0, 10_000, 50_000, 100_000)                 # bytes


def pages() -> int:
    """Pages that this process has fetched so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def of_a_step(run: Callable[[], object]) -> float:
    """Pages fetched in a step, on average, in this process."""
    for _ in range(BEFORE):
        run()
    start = pages()
    for _ in range(COUNTED):
        run()
    return (pages() - start) / COUNTED


def in_a_process(size: str, way: str, held: int) -> float:
    command = [sys.executable, "-m", "benchmarks.faults", size, way, str(held)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT,
                                env=os.environ | {"NUMPY_MADVISE_HUGEPAGE": "0"}).stdout)


def main() -> None:
    if sys.argv[1:]:
        size, way, bytes_held = sys.argv[1:]
        held = np.ones(int(bytes_held), np.uint8)
        WAYS[way]()
        print(of_a_step(step(SIZES[size])))
        del held
        return
    found = {"machine": machine([]) | {"page": f"{resource.getpagesize()} bytes"},
             "held": HELD,
             "pages": {size: {way: [in_a_process(size, way, held) for held in HELD]
                              for way in WAYS} for size in SIZES}}
    STORE.write_text(json.dumps(found, indent=1) + "\n", "utf8")
    for size, by_way in found["pages"].items():
        for way, counts in by_way.items():
            print(f"{size:6} {way:4}", *(f"{n:10,.0f}" for n in counts))


if __name__ == "__main__":
    main()
