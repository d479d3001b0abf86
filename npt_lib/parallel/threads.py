"""Independent work on several threads: NumPy leaves the interpreter to others inside its loops.

Needs threadpoolctl: pip install "npt-lib[parallel]".
"""

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import cache
from threading import Barrier, Lock
from typing import Any

from npt_lib.require import check_count

MOST = 256
_crew: ContextVar[Executor | None] = ContextVar("_crew", default=None)


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Inside, ``each`` works on n threads, and BLAS on one for each of them.

    n=1 leaves BLAS as it is. Needs threadpoolctl: pip install "npt-lib[parallel]".
    """
    if check_threads("threads", n) == 1:
        with _work_by(None):
            yield
    else:
        with _single_blas, ThreadPoolExecutor(n) as pool, _work_by(pool):
            _start(pool, n)
            yield


def _start(pool: Executor, n: int) -> None:
    """Start all threads of a pool before there is work.

    It does not wait at its end for a thread in whose start Ctrl-C came: better that it has no work.
    """
    together = Barrier(n)
    try:
        wait([pool.submit(together.wait) for _ in range(n)])
    finally:
        together.abort()                       # those that still wait for others: they never come


def check_threads(name: str, n: int) -> int:
    """How many threads: more than so many would be a slip, and take the machine with it."""
    if check_count(name, n) > MOST:
        raise ValueError(f"{name} must be at most {MOST}, got {n}.")
    return n


@contextmanager
def _work_by(pool: Executor | None) -> Iterator[None]:
    token = _crew.set(pool)
    try:
        yield
    finally:
        _crew.reset(token)


def each(work: Callable[..., Any], *items: Iterable[Any]) -> list[Any]:
    """[work(a, b) for a, b in zip(*items)], on the threads of the ``with threads(n)`` around it.

    Without one, and within such work, in order. An error is raised when nobody is at work any more.
    """
    pool, calls = _crew.get(), list(zip(*items))
    if pool is None or len(calls) < 2:
        return [work(*call) for call in calls]
    jobs: list[Future] = []
    try:
        with _work_by(None):                   # work that has parts of its own does them in order
            for call in calls:
                jobs.append(pool.submit(copy_context().run, work, *call))
        wait(jobs)
    finally:                                   # also where Ctrl-C has ended the waiting
        for job in jobs:
            job.cancel()
        wait(jobs)
    return [job.result() for job in jobs]


class _SingleBlas:
    """BLAS on one thread, from the first ``with`` to enter until the last to leave."""

    def __init__(self) -> None:
        self.lock, self.users = Lock(), 0
        self.limit: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if not self.users:
                self.limit = blas_controller().limit(limits=1, user_api="blas")
            self.users += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.users -= 1
            if not self.users:
                let_any_thread_set_blas()
                self.limit.restore_original_limits()
                let_any_thread_set_blas()


def let_any_thread_set_blas() -> None:
    """From 3.8 on, threadpoolctl listens to the first thread alone that sets BLAS's threads."""
    for library in blas_controller().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


_single_blas = _SingleBlas()


def single_blas() -> AbstractContextManager:
    """Inside, BLAS works on one thread, where threadpoolctl is there to say so."""
    return _single_blas if importlib.util.find_spec("threadpoolctl") else nullcontext()


@cache
def blas_controller() -> Any:
    """threadpoolctl's view of the BLAS that NumPy has loaded; finding it takes a while."""
    try:
        return importlib.import_module("threadpoolctl").ThreadpoolController()
    except ImportError:
        raise ImportError('Work on several threads needs threadpoolctl: '
                          'pip install "npt-lib[parallel]".') from None
