"""Independent work on several threads: NumPy leaves the interpreter to others inside its loops."""

import ctypes
import importlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from threading import Lock
from typing import Any

_crew: ContextVar[tuple[Executor | None, int]] = ContextVar("_crew", default=(None, 1))


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Inside, ``each`` works on n threads, and BLAS on one for each of them.

    Not in turns: after a product OpenBLAS's own threads stay awake for a while, and in the way.
    """
    if n < 1:
        raise ValueError(f"threads must be at least 1, got {n}.")
    if n == 1:
        with _work_by(None, 1):
            yield
        return
    with ThreadPoolExecutor(n - 1) as pool, _single_blas, _work_by(pool, n):
        yield


@contextmanager
def _work_by(pool: Executor | None, n: int) -> Iterator[None]:
    token = _crew.set((pool, n))
    try:
        yield
    finally:
        _crew.reset(token)


def each(work: Callable[..., Any], *items: Iterable[Any]) -> list[Any]:
    """[work(a, b) for a, b in zip(*items)], on the threads of the ``with threads(n)`` around it.

    An error is raised when nobody is at work any more.
    """
    calls = list(zip(*items))
    done: list[Any] = [None] * len(calls)
    left, lock = iter(range(len(calls))), Lock()

    def take() -> None:
        while True:
            with lock:
                i = next(left, None)           # whoever is free takes the next one
            if i is None:
                return
            done[i] = work(*calls[i])

    pool, n = _crew.get()
    with _work_by(None, 1):                    # work that has parts of its own does them in turn
        helpers = [pool.submit(take) for _ in range(min(n, len(calls)) - 1)] if pool else []
        try:
            take()
        finally:
            wait(helpers)
    for helper in helpers:
        helper.result()
    return done


class _SingleBlas:
    """BLAS on one thread, from the first ``with`` to enter until the last to leave."""

    def __init__(self) -> None:
        self.lock, self.users = Lock(), 0
        self.before: int | None = None

    def __enter__(self) -> None:
        with self.lock:
            if not self.users:
                self.before = blas_threads(1)
            self.users += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.users -= 1
            if not self.users:
                blas_threads(self.before)

    def suspend(self, suspended: bool) -> None:
        """All threads again, or one; nothing where nobody is within."""
        with self.lock:
            if self.users:
                blas_threads(self.before if suspended else 1)


_single_blas = _SingleBlas()


@contextmanager
def all_of_blas() -> Iterator[None]:
    """Within ``threads``: BLAS on all its threads again, for work that is not shared out."""
    _single_blas.suspend(True)
    try:
        yield
    finally:
        _single_blas.suspend(False)           # unless who shared out work is done meanwhile


@contextmanager
def all_threads(n_items: int) -> Iterator[None]:
    """Inside, ``each`` works on as many threads as BLAS has now, and BLAS on one for each.

    Nothing changes where BLAS has only one, since others share out work already, and for one item.
    """
    n = blas_threads() or 1
    if n == 1 or n_items < 2:
        yield
    elif _crew.get()[0] is None:
        with threads(min(n, n_items)):
            yield
    else:                                     # within all_of_blas
        blas_threads(1)
        try:
            yield
        finally:
            blas_threads(n)


def blas_threads(n: int | None = None) -> int | None:
    """How many threads NumPy's matrix products use, None if it cannot be told; n sets it.

    Known for OpenBLAS, which NumPy's own wheels bring along.
    """
    count, set_count = _openblas("get_num_threads"), _openblas("set_num_threads")
    if count is None or set_count is None:
        return None
    before = int(count())
    if n is not None:
        set_count(n)
    return before


@cache
def _openblas(name: str) -> Callable[..., int] | None:
    """A function of the OpenBLAS that NumPy has loaded, under the names it goes by."""
    try:
        core = importlib.import_module("numpy._core._multiarray_umath").__file__
        library = ctypes.CDLL(core)               # the search goes on in what it has loaded
    except (ImportError, OSError):
        return None
    for pattern in ("scipy_openblas_{}64_", "openblas_{}64_", "scipy_openblas_{}", "openblas_{}"):
        found = getattr(library, pattern.format(name), None)
        if found is not None:
            return found
    return None
