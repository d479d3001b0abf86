"""What a computation costs: its multiplications, counted, and its seconds on one core."""

import copy
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from npt_lib.module import Array, Module

# time in which this program computes, whatever else runs; on Windows that clock is too coarse
clock = perf_counter if sys.platform == "win32" else thread_time


class _Counted(np.ndarray):
    """An array that adds up the multiplications of every @ that it takes part in."""

    total = 0

    def __array_ufunc__(self, ufunc, method, *xs, out=(), **more):
        xs = tuple(np.asarray(x) for x in xs)
        if out:
            more["out"] = tuple(np.asarray(x) for x in out)
        y = np.asarray(getattr(ufunc, method)(*xs, **more))
        if ufunc is np.matmul and xs[1].shape[1:] != (1,):     # a column of ones adds up rows
            _Counted.total += y.size * xs[0].shape[-1]
        return out[0] if out else y.view(_Counted)


def counted(model: Module) -> Any:
    """A copy of the model whose parameters count the products they take part in."""
    other = copy.deepcopy(model)
    for parameter in other.parameters().values():
        parameter.value = parameter.value.view(_Counted)
    return other


def multiplications(f: Callable[..., Any], *inputs: Any) -> int:
    """How many multiplications f(*inputs) makes in products of a counted model's arrays."""
    _Counted.total = 0
    f(*inputs)
    return _Counted.total


def one_core() -> AbstractContextManager:
    """Inside, products run on one core, where threadpoolctl is installed to say so."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    return threadpool_limits(1)


def seconds_of(turns: Callable[[], Iterator], n: int, runs: int = 3, warm: int = 0) -> Array:
    """The seconds from yield to yield of a generator, n times, (n,): the best of several runs.

    Before each run, another generator takes ``warm`` turns: after other work, the first are slower.
    """
    best = np.full(n, np.inf)
    with one_core():
        for _ in range(runs):
            turn = turns()
            next(turn)                                         # up to the first yield: set-up
            if warm:
                deque(islice(turns(), 1 + warm), maxlen=0)
            for t in range(n):
                begin = clock()
                next(turn)
                best[t] = min(best[t], clock() - begin)
    return best
