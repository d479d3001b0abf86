"""Data parallelism over processes and machines, by MPI.

Needs mpi4py and an MPI: pip install "npt-lib[mpi]".
"""

import importlib
import os
import re
import shutil
import sys
import sysconfig
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from npt_lib.module import Array, Backward, Module, Parameter, Rng
from npt_lib.parallel.data_parallel import check_batch, cut_rows

PATIENCE = 2.0                     # seconds in which all processes must have seen the same error
NOT_YOURS = {Path(__file__).resolve().parents[1], *(
    Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "purelib", "platlib"))}


@contextmanager
def processes() -> Iterator[Any]:
    """MPI's communicator of all processes that ``mpiexec -n N python …`` has started.

    An error in one process stops all of them, and is told; each checkpoint stays whole.
    """
    comm = needs_mpi().COMM_WORLD
    try:
        yield comm
    except Exception as error:
        stop_all(comm, error)


def needs_mpi() -> Any:
    """The package's module MPI, which starts MPI."""
    try:
        return importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:            # the package, or an MPI for it
        raise ImportError(f'Work on several processes needs mpi4py and an MPI: pip install '
                          f'"npt-lib[mpi]" ({error}).') from None


def mpiexec() -> str:
    """The command that starts a program on several processes: Python's own, or the system's."""
    here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    found = shutil.which("mpiexec", path=here)
    if needs_mpi() and found is None:
        raise ImportError('Work on several processes needs mpiexec, a part of every MPI: pip '
                          'install "npt-lib[mpi]".')
    return str(found)


def place_of(error: BaseException) -> str:
    """Which of the reader's own lines has led to an error, unless it says so already."""
    lines = [f"{Path(frame.filename).name}, line {frame.lineno}"
             for frame in traceback.extract_tb(error.__traceback__)
             if NOT_YOURS.isdisjoint(Path(frame.filename).resolve().parents)]
    told = re.search(r"line \d+\)$", str(error))
    return f" ({lines[-1]})" if lines and not told else ""


def stop_all(comm: Any, error: Exception) -> None:
    """End this process and all others. What all say alike is said once; else each has its line."""
    message = f"{type(error).__name__}: {error}{place_of(error)}"
    mine = f"Process {comm.rank} of {comm.size}: {message}"
    if all_arrive(comm):
        told = comm.gather((message, mine))
        if comm.rank == 0:
            lines = [told[0][0]] if len({m for m, _ in told}) == 1 else [m for _, m in told]
            print(*lines, sep="\n", file=sys.stderr, flush=True)
        comm.Barrier()
        sys.exit(1)
    print(mine, file=sys.stderr, flush=True)
    comm.Abort(1)


def all_arrive(comm: Any) -> bool:
    """Whether all processes get here within a short time."""
    waiting, began = comm.Ibarrier(), time.monotonic()
    while time.monotonic() - began < PATIENCE:
        if waiting.Test():
            return True
        time.sleep(0.01)
    return False


class Processes(Module):
    """A model on several processes: each has all of it, and computes its rows of every batch.

    comm is an MPI communicator; its first process's values are everybody's. All processes get
    the same whole batch, and generators that were seeded alike: each takes its own rows, and
    draws from a generator of its own, seeded by the one that is passed.
    Backward: adds to the model's gradients those of all processes, weighted by their targets.
    """

    def __init__(self, model: Any, comm: Any):
        self.model, self.comm = model, comm
        for p in model.parameters().values():
            p.value = comm.bcast(p.value)

    def parameters(self) -> dict[str, Parameter]:
        return self.model.parameters()

    def n_targets(self, batch: Any) -> int:
        return self.model.n_targets(batch)

    def loss(self, batch: Any, rng: Rng | None = None, **options: Any) -> tuple[float, Backward]:
        seeds = None if rng is None else rng.integers(1 << 63, size=self.comm.size)
        own = None if seeds is None else np.random.default_rng(seeds[self.comm.rank])
        count, loss, part_backward = together(self.comm, lambda: self._part(batch, own, options))
        told = self.comm.allgather((count, float(loss), fingerprint(batch)))
        if len({seen for _, _, seen in told}) > 1:
            raise ValueError("All processes must get the same batches: seed their generators "
                             "alike.")
        total = max(sum(n for n, _, _ in told), 1)

        def backward(dloss: float = 1.0) -> None:
            parameters = list(self.parameters().values())
            before = [p.grad for p in parameters]
            for p in parameters:
                p.grad = None
            together(self.comm, lambda: part_backward(dloss * count / total))
            added = add_up(self.comm, parameters)
            for p, old, new in zip(parameters, before, added, strict=True):
                p.grad = old
                if new is not None:
                    p.add_grad(new)

        return sum(n * part for n, part, _ in told) / total, backward

    def _part(
        self, batch: Any, rng: Rng | None, options: dict[str, Any]
    ) -> tuple[int, float, Callable[[float], None]]:
        """This process's targets, loss and backward; nothing where it has no targets."""
        n_rows = check_batch(batch, "Several processes")
        rows = cut_rows(n_rows, self.comm.size)[self.comm.rank]
        part = tuple(x[rows] for x in batch)
        count = self.model.n_targets(part) if rows.stop > rows.start else 0
        if not count:
            return 0, 0.0, lambda dloss: None
        loss, backward = self.model.loss(part, rng, **options)
        return count, loss, backward


def together(comm: Any, work: Callable[[], Any]) -> Any:
    """work(), or, if it fails on any process, the first of their errors on all of them."""
    result = problem = None
    try:
        result = work()
    except ValueError as error:
        problem = f"{error}{place_of(error)}"
    for rank, told in enumerate(comm.allgather(problem)):
        if told is not None:
            raise ValueError(f"Process {rank} of {comm.size}: {told}")
    return result


def add_up(comm: Any, parameters: list[Parameter]) -> list[Array | None]:
    """The sum over all processes of each parameter's gradient; None where nobody has one.

    All gradients travel as one array: a message costs time, however short it is.
    """
    has = np.array([p.grad is not None for p in parameters], np.int32)
    comm.Allreduce(in_place(), has)
    wanted = [p for p, any_has in zip(parameters, has, strict=True) if any_has]
    if not wanted:
        return [None] * len(parameters)
    flat = np.concatenate([np.ravel(p.value * 0 if p.grad is None else p.grad) for p in wanted])
    comm.Allreduce(in_place(), flat)
    ends = np.cumsum([p.value.size for p in wanted])[:-1]
    sums = {id(p): x.reshape(p.shape) for p, x in zip(wanted, np.split(flat, ends), strict=True)}
    return [sums.get(id(p)) for p in parameters]


def in_place() -> Any:
    """What tells Allreduce to write over the array that it reads."""
    return needs_mpi().IN_PLACE


def fingerprint(batch: Any) -> int:
    """A number that two different batches are unlikely to share."""
    return zlib.crc32(b"".join(np.ascontiguousarray(x).tobytes() for x in batch))
