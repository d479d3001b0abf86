"""Many parameters as one flat row, so that an optimizer moves them together. Chapter 10."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from npt_lib.module import Array, Parameter

Parameters = Mapping[str, Parameter] | Iterable[Parameter]
STRETCH = 1 << 16              # numbers handled together: a few arrays of so many fit in the cache


def as_list(parameters: Parameters) -> list[Parameter]:
    """The parameters of a mapping or an iterable: at least one, all of one dtype."""
    values = parameters.values() if isinstance(parameters, Mapping) else parameters
    found = list(values)
    if not found:
        raise ValueError("An optimizer needs at least 1 parameter, got 0.")
    dtypes = {p.value.dtype for p in found}
    if len(dtypes) > 1:
        raise ValueError(f"An optimizer needs parameters of one dtype, "
                         f"got {sorted(str(dtype) for dtype in dtypes)}.")
    return found


def flat(arrays: Iterable[Array]) -> Array:
    """All numbers in one row; those of a single array as a view, where that can be."""
    rows = [x.reshape(-1) for x in arrays]
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def stretches(parameters: list[Parameter]) -> Iterator[tuple[slice, list[Parameter]]]:
    """Neighbours with a gradient, up to STRETCH numbers together, and their place in the row.

    A parameter without a gradient is left out; a larger one is a stretch of its own.
    """
    start = stop = 0
    some: list[Parameter] = []
    for p in parameters:
        if some and (p.grad is None or stop - start + p.value.size > STRETCH):
            yield slice(start, stop), some
            start, some = stop, []
        stop += p.value.size
        if p.grad is None:
            start = stop
        else:
            some.append(p)
    if some:
        yield slice(start, stop), some


def gradient(p: Parameter) -> Array:
    """The gradient of a parameter that has one."""
    assert p.grad is not None
    return p.grad


def hand_out(row: Array, parameters: list[Parameter]) -> None:
    """Give each parameter its share of the row as its value."""
    start = 0
    for p in parameters:
        stop = start + p.value.size
        p.value = row[start:stop].reshape(p.value.shape)
        start = stop
