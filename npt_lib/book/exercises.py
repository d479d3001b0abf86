"""The exercises' checks: ``check("2.1", answer)`` says what to do, *correct*, or what is wrong.

The exercises of chapter 2 are the list ``EXERCISES`` in ``npt_lib/book/checks/ch02.py``, made of
``predict`` (the answer is a value), ``code`` (a function), ``mend`` (a function with a bug, to be
found and repaired) and ``derive`` (a gradient).
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from npt_lib.book import checks
from npt_lib.book.checks.judge import Exercise, Mistake, Verdict
from npt_lib.book.checks.outcome import upstream
from npt_lib.gradcheck import numeric_gradient

__all__ = ["Exercise", "Mistake", "Verdict", "check", "code", "derive", "exercises", "judge",
           "mend", "predict"]

Case = tuple[Any, ...]


def check(id: str, answer: Any = None) -> None:
    """Print what is to be done in an exercise, that the answer is correct, or what is wrong."""
    print(judge(id, answer).text)


def judge(id: str, answer: Any = None) -> Verdict:
    """What ``check`` prints, with its status: "to do", "correct" or "not yet"."""
    return find(id).judge(answer)


def find(id: str) -> Exercise:
    """The exercise with this id, or an error that names those of its chapter."""
    chapter = str(id).partition(".")[0]
    if chapter not in map(str, chapters()):
        raise ValueError(f"exercise {id!r} is unknown: chapters with exercises are {chapters()}.")
    found = {exercise.id: exercise for exercise in exercises(int(chapter))}
    if id not in found:
        known = ", ".join(found)
        raise ValueError(f"exercise {id!r} is unknown: chapter {chapter} has {known}.")
    return found[id]


def chapters() -> list[int]:
    """The numbers of the chapters that have exercises."""
    files = (module.name for module in pkgutil.iter_modules(checks.__path__))
    return sorted(int(name[2:]) for name in files if name[:2] == "ch" and name[2:].isdigit())


def exercises(chapter: int) -> list[Exercise]:
    """The exercises of one chapter, in order."""
    return list(importlib.import_module(f"npt_lib.book.checks.ch{chapter:02}").EXERCISES)


def predict(
    id: str, prompt: str, expected: Any, mistakes: Iterable[Mistake] = ()
) -> Exercise:
    """An exercise whose answer is a value: a shape, a number, a word, True."""
    return Exercise(id, prompt, expected, tuple(mistakes))


def code(
    id: str,
    prompt: str,
    reference: Callable[..., Any],
    cases: Iterable[Case],
    mistakes: Iterable[Mistake] = (),
    outputs: Sequence[str] = (),
    tol: float | None = None,
    call: Callable[..., Any] | None = None,
) -> Exercise:
    """An exercise whose answer is a function that must do on each case what the reference does.

    If the reference returns ``(y, backward)``, both are compared. ``outputs`` names the members
    of a result; ``call(answer, *case)`` tells how to use an answer that is not called directly.
    """
    names = argument_names(reference if call is None else call, skip=0 if call is None else 1)
    how: dict[str, Any] = {} if call is None else {"call": call}
    return Exercise(id, prompt, reference, tuple(mistakes), tuple(map(tuple, cases)),
                    tuple(outputs), names, tol, kind="code", **how)


def mend(
    id: str,
    prompt: str,
    broken: Callable[..., Any],
    reference: Callable[..., Any],
    cases: Iterable[Case],
    mistakes: Iterable[Mistake] = (),
    tells_where: bool = True,
    **options: Any,
) -> Exercise:
    """An exercise that hands out a broken function, to be repaired: Find the bug.

    While the answer does on every case what ``broken`` does, the exercise is to do, and the
    symptom is shown: without the place of the first wrong value where that would name the bug
    (tells_where=False). Options as for ``code``.
    """
    exercise = code(id, prompt, reference, cases, mistakes, **options)
    return replace(exercise, kind="mend", broken=broken, tells_where=tells_where)


def derive(
    id: str,
    prompt: str,
    forward: Callable[..., Any],
    cases: Iterable[Case],
    mistakes: Iterable[Mistake] = (),
    tol: float = 1e-5,
) -> Exercise:
    """An exercise whose answer is ``(dy, *inputs) -> gradients``, judged by central differences.

    ``forward(*inputs)`` gives ``y``, or ``(y, backward)``, of which only y is used.
    """
    cases = [tuple(case) for case in cases]
    names = argument_names(forward)
    outputs = [f"d{name}" for name, x in zip(names, cases[0], strict=False) if _is_float(x)]
    return Exercise(id, prompt, lambda dy, *inputs: gradients(forward, dy, inputs),
                    tuple(mistakes), tuple((_dy(forward(*case)), *case) for case in cases),
                    tuple(outputs), ("dy", *names), tol, kind="derive")


def gradients(forward: Callable[..., Any], dy: Any, inputs: Case) -> Any:
    """dL/dx for every float input, one entry at a time."""
    exact = tuple(x.astype(float) if _is_float(x) else x for x in inputs)

    def loss() -> float:
        return float(np.sum(_first(forward(*exact)) * dy))

    found = tuple(numeric_gradient(loss, x) for x in exact if _is_float(x))
    return found[0] if len(found) == 1 else found


def argument_names(function: Callable[..., Any], skip: int = 0) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)[skip:]


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def _dy(result: Any) -> Any:
    return upstream(_first(result))


def _is_float(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"
