"""The same work for several contestants, in turn, in one run: A C B, B A C, ..."""

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contestants import Contestant

ROOT = Path(__file__).resolve().parent.parent
TARGET = 0.25                   # seconds that one contestant's turn should take
SETTLE = 0.05                   # after a turn, until its idle threads have gone to sleep
TOLERANCE = 1e-4                # relative
# Adam divides every gradient by its own size, so it makes whole steps of those that are nothing
# but rounding: two right implementations part by about ten times more after each step
LOSS_TOLERANCES = (1e-5, 1e-5, 1e-4, 1e-3, 1e-3)
AGREEING = 0.99                 # share of tokens: two nearly equal logits may fall either way
# set by an administrator or a container, these would hold one library back and not the others
HELD_BACK_BY = ("OPENBLAS_", "OMP_", "MKL_", "NVPL_", "GOTO_", "BLIS_", "VECLIB_")
Seconds = dict[str, list[float]]
Values = dict[str, list]


class Disagreement(RuntimeError):
    """Contestants that do not compute the same thing: their times say nothing."""


class WorkerError(RuntimeError):
    """What went wrong inside a worker, with its own traceback."""


def say(words: str) -> None:
    """Progress, for who watches."""
    print(words, file=sys.stderr, flush=True)


class Process:
    """The parent's end of a worker: it starts at once, and is ready inside ``with``."""

    def __init__(self, contestant: Contestant, kind: str, **options: Any):
        self.contestant = contestant
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker"], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(contestant))
        if contestant.variant:
            options["variant"] = contestant.variant
        self._send({"module": contestant.module, "kind": kind, "options": options,
                    "library": contestant.library})

    def run(self, times: int) -> dict[str, Any]:
        """The work so many times over: seconds, values, and the most bytes so far."""
        self._send(times)
        return self._answer()

    def _send(self, what: Any) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(json.dumps(what) + "\n")
        self.popen.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        answer = json.loads(line) if line else {"error": f"it ended, {self.popen.poll()}"}
        if "error" in answer:
            raise WorkerError(f"{self.contestant.title}: {answer['error']}")
        return answer

    def __enter__(self) -> "Process":
        try:
            self._answer()
        except WorkerError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Close the worker's input, at which it ends; a few seconds later end it anyway."""
        assert self.popen.stdin is not None
        self.popen.stdin.close()
        try:
            self.popen.wait(5)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()


def environment(contestant: Contestant) -> dict[str, str]:
    """The parent's, without what chooses BLAS's kernel or threads, with the contestant's own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(HELD_BACK_BY)}
    return {**kept, "TQDM_DISABLE": "1", "PYTHONPATH": str(ROOT), **contestant.environment}


def race(contestants: Sequence[Contestant], kind: str, options: dict[str, Any], rounds: int,
         check: Callable[[Values], Any], warm_up: int = 1,
         target: float = TARGET) -> dict[str, Any]:
    """Build everyone's job, look at what they compute, then time them in turn.

    check gets the values of everyone's warm_up repetitions; it raises Disagreement, or returns
    what is worth keeping of them.
    """
    with ExitStack() as stack:
        starting = [Process(c, kind, **options) for c in contestants]      # all at the same time
        processes, values, first = {}, {}, {}
        for process in starting:
            key = process.contestant.key
            try:
                stack.enter_context(process)
                answer = process.run(warm_up)
                values[key], first[key] = answer["values"], answer["seconds"] / warm_up
                processes[key] = process
            except WorkerError as error:
                give_up(process.contestant, error)
        checked = check(values)
        times = repetitions(processes, target)
        return {"times": times, "seconds": turns(processes, rounds, times), "checked": checked,
                "first": first, "warm_up": warm_up}


def turns(processes: dict[str, Process], rounds: int, times: int) -> Seconds:
    """For every contestant the seconds that one repetition took, round by round.

    Each round has an order of its own: whoever always came after the same one could gain by it.
    """
    seconds: Seconds = {key: [] for key in processes}
    order, draw = list(processes), random.Random(0)
    for _ in range(rounds):
        draw.shuffle(order)
        for key in order:
            time.sleep(SETTLE)
            seconds[key].append(processes[key].run(times)["seconds"] / times)
    return seconds


def repetitions(processes: dict[str, Process], target: float) -> int:
    """How often the work fits the target, for the contestant in the middle."""
    once = [min(p.run(1)["seconds"], p.run(1)["seconds"]) for p in processes.values()]
    return max(1, min(1000, round(target / statistics.median(once))))


def give_up(contestant: Contestant, error: WorkerError) -> None:
    """Go on without one that cannot run here, such as torch.compile without a compiler."""
    if contestant.needs == "numpy":
        raise error
    say(f"{contestant.title} is left out: {str(error).strip().splitlines()[-1]}")


def peak_bytes(contestants: Sequence[Contestant], kind: str, options: dict[str, Any],
               times: int) -> dict[str, int]:
    """The most memory that the work needed over the start, each in a process alone."""
    found = {}
    for contestant in contestants:
        try:
            with Process(contestant, kind, **options) as process:
                found[contestant.key] = process.run(times)["bytes"]
        except WorkerError as error:
            give_up(contestant, error)
    return found


def same_numbers(values: Values, tolerance: float | Sequence[float] = TOLERANCE) -> Values:
    """The numbers, if everyone's are within the relative tolerance of the first contestant's."""
    (first, wanted), *others = values.items()
    for key, got in others:
        off = np.abs(np.subtract(got, wanted)) / np.abs(wanted)
        if not (off <= tolerance).all():
            raise Disagreement(f"relative differences of {', '.join(f'{x:.0e}' for x in off)}: "
                               f"{key} has {got}, {first} has {wanted}")
    return values


def same_losses(values: Values) -> Values:
    """The losses, if everyone starts and goes on as the first contestant does."""
    return same_numbers(values, LOSS_TOLERANCES)


def same_tokens(values: Values) -> dict[str, float]:
    """The share of tokens that equal the first contestant's, if it is at least AGREEING."""
    (first, wanted), *_ = values.items()
    shares = {key: float(np.mean(np.equal(got, wanted))) for key, got in values.items()}
    for key, share in shares.items():
        if share < AGREEING:
            raise Disagreement(f"{key} writes {share:.1%} of the tokens that {first} writes")
    return shares
