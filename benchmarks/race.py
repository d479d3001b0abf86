"""The same work for several contestants, in turn, in one run: A B C A B C ..."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from benchmarks.contestants import SGEMM, Contestant
from benchmarks.process import Process

TARGET = 0.4                    # seconds that one contestant's turn should take
Seconds = dict[str, list[float]]


def say(words: str) -> None:
    """Progress, for who watches."""
    print(words, file=sys.stderr, flush=True)


@contextmanager
def started(contestants: Sequence[Contestant]) -> Iterator[dict[str, Process]]:
    """A waiting process for each, all ended at the end."""
    with ExitStack() as stack:
        yield {c.key: stack.enter_context(Process(c)) for c in contestants}


def turns(processes: dict[str, Process], rounds: int, times: int) -> Seconds:
    """For every contestant the seconds that one repetition took, round by round."""
    seconds: Seconds = {key: [] for key in processes}
    for _ in range(rounds):
        for key, process in processes.items():
            seconds[key].append(process.run(times).seconds / times)
    return seconds


def repetitions(processes: dict[str, Process], target: float = TARGET) -> int:
    """How often the work fits the target, by the quickest of one repetition each."""
    quickest = min(min(p.run(1).seconds, p.run(1).seconds) for p in processes.values())
    return max(1, min(1000, round(target / quickest)))


def sgemm_peak(environment: dict[str, str] | None = None, times: int = 5) -> float:
    """GFLOP/s, in a process that ends at once: nothing of it remains while others run."""
    yardstick = Contestant(**{**vars(SGEMM), "environment": environment or {}})
    with Process(yardstick) as process:
        process.prepare("peak")
        return float(process.run(times).values[0])


def race(contestants: Sequence[Contestant], kind: str, options: dict[str, Any], rounds: int,
         check: Callable[[dict[str, list]], Any], warm_up: int) -> dict[str, Any]:
    """Prepare everyone, look at what they compute, then time them in turn.

    check gets the values of everyone's warm_up repetitions, and raises if they disagree.
    """
    with started(contestants) as processes:
        values = {}
        for key, process in processes.items():
            process.prepare(kind, **options)
            values[key] = process.run(warm_up).values
        checked = check(values)
        times = repetitions(processes)
        return {"times": times, "seconds": turns(processes, rounds, times), "values": checked}
