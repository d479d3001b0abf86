"""One contestant, in a process of its own: a JSON command a line in, a JSON answer a line out.

    {"prepare": "train", "options": {...}}   build the job                -> {}
    {"run": 5}                               do it five times             -> seconds, values
    {"memory": true}                         the most that it ever held   -> bytes over the start
    {"about": true}                          what it runs on              -> versions, by name
"""

import contextlib
import importlib
import json
import sys
import time
import traceback
from types import ModuleType
from typing import Any, TextIO

from benchmarks.contestants import Job
from benchmarks.memory_use import peak, reset_peak, resident
from benchmarks.sizes import Size


class Worker:
    """Answers commands for one contestant's module; holds at most one job at a time."""

    def __init__(self, module: ModuleType):
        self.module = module
        self.job: Job | None = None
        reset_peak()
        self.at_start = resident()

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        if "prepare" in command:
            return self.prepare(command["prepare"], command.get("options", {}))
        if "run" in command:
            return self.run(command["run"])
        if "memory" in command:
            return {"bytes": peak() - self.at_start}
        return self.module.about()

    def prepare(self, kind: str, options: dict[str, Any]) -> dict[str, Any]:
        if kind not in self.module.KINDS:
            raise ValueError(f"kind must be one of {sorted(self.module.KINDS)}, got {kind!r}.")
        if "size" in options:
            options = {**options, "size": Size(**options["size"])}
        self.job = self.module.KINDS[kind](**options)
        return {}

    def run(self, times: int) -> dict[str, Any]:
        if self.job is None:
            raise ValueError("run needs a job: prepare must come first.")
        start = time.perf_counter()
        values = self.job(times)
        return {"seconds": time.perf_counter() - start, "values": values}


def serve(worker: Worker, commands: TextIO, answers: TextIO) -> None:
    """Until the commands end. An error is an answer too: the parent decides what it means."""
    for line in commands:
        try:
            answer = worker.answer(json.loads(line))
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


def main(name: str) -> None:
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):           # whatever a framework prints
        module = importlib.import_module(f"benchmarks.contestants.{name}")
        print(json.dumps({}), file=answers, flush=True)    # imported, ready
        serve(Worker(module), sys.stdin, answers)


if __name__ == "__main__":
    main(sys.argv[1])
