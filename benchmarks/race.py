"""The same work for several contestants, in turn, in one run: A B C A B C ..."""

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from benchmarks.contestants import SGEMM, Contestant
from benchmarks.process import Process, WorkerError

TARGET = 0.25                   # seconds that one contestant's turn should take
SETTLE = 0.05                   # after a turn, until its idle threads have gone to sleep
Seconds = dict[str, list[float]]
Check = Callable[[dict[str, list]], Any]


class Disagreement(RuntimeError):
    """Contestants that do not compute the same thing: their times say nothing."""


def say(words: str) -> None:
    """Progress, for who watches."""
    print(words, file=sys.stderr, flush=True)


@contextmanager
def started(contestants: Sequence[Contestant]) -> Iterator[dict[str, Process]]:
    """A waiting process for each, all ended at the end."""
    with ExitStack() as stack:
        processes = [Process(c) for c in contestants]           # all import at the same time
        yield {p.contestant.key: stack.enter_context(p) for p in processes}


def turns(processes: dict[str, Process], rounds: int, times: int) -> Seconds:
    """For every contestant the seconds that one repetition took, round by round."""
    seconds: Seconds = {key: [] for key in processes}
    for _ in range(rounds):
        for key, process in processes.items():
            time.sleep(SETTLE)
            seconds[key].append(process.run(times).seconds / times)
    return seconds


def repetitions(processes: dict[str, Process], target: float) -> int:
    """How often the work fits the target, for the contestant in the middle."""
    once = [min(p.run(1).seconds, p.run(1).seconds) for p in processes.values()]
    return max(1, min(1000, round(target / statistics.median(once))))


def race(contestants: Sequence[Contestant], kind: str, options: dict[str, Any], rounds: int,
         check: Check, warm_up: int = 1, target: float = TARGET) -> dict[str, Any]:
    """Prepare everyone, look at what they compute, then time them in turn.

    check gets the values of everyone's warm_up repetitions; it raises Disagreement, or returns
    what is worth keeping of them.
    """
    with started(contestants) as processes:
        values = {}
        for key, process in list(processes.items()):
            try:
                process.prepare(kind, **options)
                values[key] = process.run(warm_up).values
            except WorkerError as error:
                give_up(process.contestant, error)
                del processes[key]
        checked = check(values)
        times = repetitions(processes, target)
        return {"times": times, "seconds": turns(processes, rounds, times), "checked": checked}


def give_up(contestant: Contestant, error: WorkerError) -> None:
    """Go on without one that cannot run here, such as torch.compile without a compiler."""
    if contestant.needs == "numpy":
        raise error
    say(f"{contestant.title} is left out: {str(error).strip().splitlines()[-1]}")


def peak_bytes(contestant: Contestant, kind: str, options: dict[str, Any], times: int) -> int:
    """The most memory that the work needed over the start, in a process that does nothing else."""
    with Process(contestant) as process:
        process.prepare(kind, **options)
        process.run(times)
        return process.memory()


def sgemm_peak(environment: dict[str, str], times: int = 5) -> float:
    """GFLOP/s, in a process that ends at once: nothing of it remains while others run."""
    with Process(replace(SGEMM, environment=environment)) as process:
        process.prepare("peak")
        return float(process.run(times).values[0])


def peaks(contestants: Sequence[Contestant]) -> dict[str, float]:
    """sgemm's GFLOP/s for each contestant: under its own kernel where it is held to one."""
    own = sgemm_peak({})
    return {c.key: sgemm_peak(c.environment) if c.environment else own for c in contestants}
