"""How much faster are two processes, and why not twice? Steps of chapter 11's model, five ways.

    python -m examples.efficiency              measures (five minutes), stores, and prints
    python -m examples.efficiency --rounds 2   fewer rounds
    python -m examples.efficiency --table      only prints what is stored

One process with BLAS on one thread; two such processes, which add up their gradients by MPI; and
one process with BLAS on two threads. Two more ways say where the time of two processes goes: one
process with half of the rows and the other core idle; two that each have half of them, and work
at once, but exchange no data. Two processes start each step together, and its time ends with the
slower one. All ways in every round, one after the other, so that what else the machine does meets
all of them: only comparisons within a round are worth anything. Needs mpi4py, and two cores with
nothing else running.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import npt_lib as npt
from npt_lib.checkpoint import written_whole
from npt_lib.parallel.processes import Processes, add_up, mpiexec, processes

ROOT = Path(__file__).resolve().parents[1]
STORE = ROOT / "book" / "beyond" / "efficiency.json"
ROWS, LENGTH, VOCAB = 16, 128, 1027
# processes, BLAS threads of each, rows of each, whether gradients are added up
WAYS = {"one": (1, 1, ROWS, False), "two processes": (2, 1, ROWS, True),
        "two threads": (1, 2, ROWS, False), "half the rows": (1, 1, ROWS // 2, False),
        "two strangers": (2, 1, ROWS // 2, False)}
ROUNDS, STEPS = 9, 12


def work(n_steps: int, n_rows: int, adding: bool) -> None:
    """What each process does: some steps to warm up, then steps by the clock."""
    npt.keep_memory()
    with processes() as comm:
        model = npt.GPT(npt.gpt_config(VOCAB, d_model=128, n_heads=4, d_ff=512, n_layers=4,
                                       dropout=0.0, max_len=LENGTH + 1), np.random.default_rng(0))
        learner = Processes(model, comm) if adding else model
        adam = npt.Adam(model.parameters(), 1e-3)
        batch = (np.random.default_rng(1).integers(3, VOCAB, (n_rows, LENGTH + 1)),)

        def clocked(do: Any) -> float:
            comm.Barrier()
            began = time.perf_counter()
            do()
            comm.Barrier()
            return time.perf_counter() - began

        steps = [clocked(lambda: npt.train_step(learner, adam, batch, None))
                 for _ in range(3 + n_steps)][3:]
        sums = [clocked(lambda: add_up(comm, list(model.parameters().values())))
                for _ in range(n_steps)]
        if comm.rank == 0:
            print(json.dumps({"step": float(np.median(steps)), "sum": float(np.median(sums)),
                              "parameters": model.n_parameters()}))


def measured(
    n_processes: int, n_threads: int, n_rows: int, adding: bool, n_steps: int,
) -> dict[str, Any]:
    """The median seconds of a step, and of adding up the gradients, in processes of their own."""
    threads = {f"{name}_NUM_THREADS": str(n_threads) for name in ("OPENBLAS", "OMP", "MKL")}
    done = subprocess.run(
        [mpiexec(), "-n", str(n_processes), sys.executable, "-m", "examples.efficiency",
         "--work", str(n_steps), str(n_rows), str(int(adding))],
        capture_output=True, text=True, cwd=ROOT, env=os.environ | threads)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def rounds(n: int, n_steps: int) -> dict[str, Any]:
    """All ways in each round, another one first each time."""
    names, made = list(WAYS), []
    for i in range(n):
        order = names[i % len(names):] + names[:i % len(names)]
        made.append({name: measured(*WAYS[name], n_steps) for name in order})
        print(", ".join(f"{name} {made[-1][name]['step'] * 1e3:.0f} ms" for name in names),
              flush=True)
    return {"rows": ROWS, "length": LENGTH, "steps": n_steps, "cores": os.cpu_count(),
            "machine": platform.machine(), "numpy": np.__version__,
            "rounds": [{name: one[name] for name in names} for one in made]}


def table(record: dict[str, Any]) -> list[tuple[str, ...]]:
    """A line a way: milliseconds a step, and how many times as fast as one, median and range."""
    lines = []
    for name in WAYS:
        faster = [r["one"]["step"] / r[name]["step"] for r in record["rounds"]]
        step = np.median([r[name]["step"] for r in record["rounds"]]) * 1e3
        lines.append((name, f"{step:.0f} ms", f"{np.median(faster):.2f}",
                      f"{min(faster):.2f} to {max(faster):.2f}"))
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.efficiency",
                                     description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--work", type=int, nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        n_steps, n_rows, adding = options.work
        work(n_steps, n_rows, bool(adding))
        return
    if not options.table:
        record = rounds(options.rounds, options.steps)
        with written_whole(STORE) as file:
            file.write((json.dumps(record, indent=1) + "\n").encode())
    for line in table(json.loads(STORE.read_text("utf8"))):
        print("{:15}{:>8} a step, {} times as fast as one ({})".format(*line))


if __name__ == "__main__":
    main()
