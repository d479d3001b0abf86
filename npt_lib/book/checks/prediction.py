"""Comparing a predicted value with the right one: what is right about it, never what is right."""

from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """The same value in Python's own types: lists and arrays as tuples, words in lower case."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(plain(part) for part in value)
    return value.strip().lower() if isinstance(value, str) else value


def matches(got: Any, expected: Any) -> bool:
    if isinstance(expected, tuple):
        return (isinstance(got, tuple) and len(got) == len(expected)
                and all(matches(a, b) for a, b in zip(got, expected, strict=True)))
    if isinstance(expected, float) and sort(got) == "a number":
        return bool(np.isclose(got, expected, rtol=1e-3, atol=1e-9))
    return bool(sort(got) == sort(expected) and got == expected)


def feedback(got: Any, expected: Any) -> str:
    """One sentence about a wrong prediction: its sort, its length, the positions that are right."""
    if sort(got) != sort(expected):
        return f"The answer is {sort(expected)}, got {sort(got)}{_echo(got)}."
    if isinstance(expected, tuple):
        return _parts(got, expected)
    if sort(expected) == "a number":
        return f"{got} is too {'small' if got < expected else 'large'}."
    return f"It is not {got}."


def sort(value: Any) -> str:
    if isinstance(value, bool):
        return "True or False"
    if isinstance(value, tuple):
        return "a tuple"
    if isinstance(value, int | float):
        return "a number"
    return "a word" if isinstance(value, str) else f"something else ({type(value).__name__})"


def _echo(got: Any) -> str:
    return f": {got}" if isinstance(got, bool | int | float | str | tuple) else ""


def _parts(got: tuple[Any, ...], expected: tuple[Any, ...]) -> str:
    if len(got) != len(expected):
        return f"The answer has {_count(len(expected))}, {got} has {len(got)}."
    right = [i for i, (a, b) in enumerate(zip(got, expected, strict=True)) if matches(a, b)]
    wrong = [i for i in range(len(expected)) if i not in right]
    text = f"In {got}, {_positions(wrong)} not right"
    return text + (f"; {_positions(right)} right." if right else ".")


def _count(n: int) -> str:
    return "1 part" if n == 1 else f"{n} parts"


def _positions(places: list[int]) -> str:
    if len(places) == 1:
        return f"position {places[0]} is"
    return f"positions {', '.join(map(str, places[:-1]))} and {places[-1]} are"
