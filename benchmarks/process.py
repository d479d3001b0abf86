"""The parent's end of a worker: start it, ask it, stop it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.contestants import Contestant

ROOT = Path(__file__).resolve().parent.parent
# set by an administrator or a container, these would hold one library back and not the others
HELD_BACK_BY = ("OPENBLAS_", "OMP_", "MKL_", "NVPL_", "GOTO_", "BLIS_", "VECLIB_")


class Done(NamedTuple):
    """One answer to run: how long it took, and the numbers that show what was done."""

    seconds: float
    values: list


class WorkerError(RuntimeError):
    """What went wrong inside a worker, with its own traceback."""


def environment(contestant: Contestant) -> dict[str, str]:
    """The parent's, without what chooses BLAS's kernel or threads, with the contestant's own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(HELD_BACK_BY)}
    return {**kept, "TQDM_DISABLE": "1", "PYTHONPATH": str(ROOT), **contestant.environment}


class Process:
    """One contestant in a process of its own, which starts at once and is ready inside with."""

    def __init__(self, contestant: Contestant):
        self.contestant = contestant
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", contestant.module], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(contestant))

    def prepare(self, kind: str, **options: Any) -> None:
        if self.contestant.variant:
            options["variant"] = self.contestant.variant
        self._ask(prepare=kind, options=options)

    def run(self, times: int) -> Done:
        return Done(**self._ask(run=times))

    def memory(self) -> int:
        """The most bytes it held over what it held at the start."""
        return self._ask(memory=True)["bytes"]

    def about(self) -> dict[str, Any]:
        """Versions and settings of what it runs on."""
        return self._ask(about=True)

    def _ask(self, **command: Any) -> dict[str, Any]:
        assert self.popen.stdin is not None
        self.popen.stdin.write(json.dumps(command) + "\n")
        self.popen.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        answer = json.loads(line) if line else {"error": f"it ended, {self.popen.poll()}"}
        if "error" in answer:
            raise WorkerError(f"{self.contestant.title}: {answer['error']}")
        return answer

    def __enter__(self) -> "Process":
        self._answer()                              # the first comes when all is imported
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
