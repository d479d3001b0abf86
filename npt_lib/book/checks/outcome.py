"""Calling an answer on a case: what it returned, by name, or how it failed."""

import copy
import inspect
import io
import linecache
import traceback
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npt_lib.book.checks.compare import is_numeric, kind, same

SMALL = 24                              # an array of so many numbers is shown as it is
PAIR = "a pair (y, backward)"


@dataclass
class Outcome:
    """The results by name ("" when there is just one), and whatever went wrong on the way."""

    results: dict[str, Any] = field(default_factory=dict)
    form: str = ""                      # "a pair (y, backward)", where the result was one
    error: BaseException | None = None
    where: str = ""                     # the answer's own line that raised
    changed: str = ""                   # the argument, or dy, that was changed in place
    warned: str = ""
    printed: str = ""

    def unset(self, name: str) -> bool:
        return self.results.get(name) is None or self.results[name] is ...


def run(
    answer: Any,
    call: Callable[..., Any],
    case: tuple[Any, ...],
    arguments: tuple[str, ...],
    outputs: tuple[str, ...],
) -> Outcome:
    """Call ``call(answer, *case)`` on copies of the case, and if there is a backward, that too."""
    outcome, given, printed = Outcome(), copy.deepcopy(case), io.StringIO()
    with warnings.catch_warnings(record=True) as caught, redirect_stdout(printed):
        warnings.simplefilter("always")
        try:
            _collect(outcome, call(answer, *given), _gradient_names(case, arguments), outputs)
        except Exception as error:
            outcome.error, outcome.where = error, location(error, answer)
    outcome.changed = next(
        (name for name, now, before in zip(arguments, given, case, strict=False)
         if isinstance(before, np.ndarray) and not same(now, before, 0.0)), outcome.changed)
    outcome.warned = str(caught[0].message) if caught else ""
    outcome.printed = printed.getvalue()
    print(outcome.printed, end="")
    return outcome


def _collect(outcome: Outcome, result: Any, gradients: list[str], outputs: tuple[str, ...]) -> None:
    if not (isinstance(result, tuple) and len(result) == 2 and _is_backward(result[1])):
        outcome.form = kind(result) if isinstance(result, tuple | dict) else ""
        outcome.results = named(result, outputs, "result")
        return
    y, backward = result
    outcome.form = PAIR
    outcome.results = {outputs[0] if outputs else "y": y}
    if callable(backward) and is_numeric(y):
        dy = upstream(y) if np.ndim(y) else None
        found = call_backward(backward, dy)
        outcome.results |= named(found, outputs[1:] or gradients, "gradient")
        outcome.changed = "dy" if np.ndim(y) and not same(dy, upstream(y), 0.0) else ""


def _is_backward(value: Any) -> bool:
    return callable(value) or value is None or value is ...


def call_backward(backward: Callable[..., Any], dy: np.ndarray | None) -> Any:
    """backward(dy); a loss's backward has no dy, and takes 1 or nothing."""
    if dy is None:
        return backward() if not inspect.signature(backward).parameters else backward(1.0)
    return backward(dy)


def upstream(y: Any) -> np.ndarray:
    """A fixed dL/dy: random numbers, the same for every y of this shape."""
    dy = np.random.default_rng(0).standard_normal(np.shape(y))
    return dy.astype(y.dtype if np.asarray(y).dtype.kind == "f" else float)


def named(result: Any, names: Any, default: str) -> dict[str, Any]:
    """The members of a tuple or dict by name; a single result by the single name, or ""."""
    if isinstance(result, dict):
        return {str(name): value for name, value in result.items()}
    if not isinstance(result, tuple):
        return {names[0] if len(names) == 1 else "": result}
    fits = len(names) == len(result)
    return {names[i] if fits else f"{default} {i}": value for i, value in enumerate(result)}


def _gradient_names(case: tuple[Any, ...], arguments: tuple[str, ...]) -> list[str]:
    return ["d" + name for name, x in zip(arguments, case, strict=False)
            if isinstance(x, np.ndarray) and x.dtype.kind == "f"]


def location(error: BaseException, answer: Any) -> str:
    """The deepest line of the answer's own file that led to the error."""
    filename = _filename(answer)
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == filename]
    if not lines or lines[-1] is None:
        return ""
    source = linecache.getline(filename, lines[-1]).strip()
    return f"line {lines[-1]}" + (f": {source}" if source else "")


def _filename(answer: Any) -> str:
    """Where a function, or the first method of a class, was written."""
    for part in (answer, *vars(type(answer)).values(), *getattr(answer, "__dict__", {}).values()):
        code = getattr(inspect.unwrap(part) if callable(part) else part, "__code__", None)
        if code is not None:
            return str(code.co_filename)
    return ""


def show_arguments(case: tuple[Any, ...], arguments: tuple[str, ...]) -> str:
    """``q (2, 3, 5), ids = [1, 2], mask (3, 3) bool``: enough to know the case again."""
    return ", ".join(_show(name, x) for name, x in zip(arguments, case, strict=False))


def _show(name: str, x: Any) -> str:
    """An argument in full, if it is short; else an array's shape; of others what kind they are."""
    plain = _plain(x)
    if plain is not None and len(repr(plain)) <= 60:
        return f"{name} = {plain!r}"
    if isinstance(x, np.ndarray):
        return f"{name} {x.shape}" + ("" if x.dtype == float else f" {x.dtype}")
    if isinstance(x, list) and plain is None:
        return f"{name} = {x!r}" if len(repr(x)) <= 40 else f"{name} (a list of {len(x)})"
    return name if callable(x) else f"{name} ({kind(x)})"


def _plain(x: Any) -> Any:
    """Numbers with some four digits, texts, ranges, and short rows of them; or None."""
    if isinstance(x, np.ndarray):
        return [_plain(v) for v in x.tolist()] if x.ndim == 1 and x.size <= 6 else None
    if isinstance(x, tuple | list):
        items = [_plain(v) for v in x]
        short = tuple(items) if isinstance(x, tuple) else items
        return None if any(item is None for item in items) else short
    if isinstance(x, np.generic):
        return _plain(x.item())
    if isinstance(x, float):
        return round(x, 4) or float(f"{x:.4g}")                       # a tiny number is not 0
    return x if isinstance(x, int | str | range) else None


def show_small(case: tuple[Any, ...], arguments: tuple[str, ...]) -> list[str]:
    """The small arrays of a case, number by number: what can be followed on paper."""
    lines: list[str] = []
    for name, x in zip(arguments, case, strict=False):
        if isinstance(x, np.ndarray) and x.ndim > 1 and 0 < x.size <= SMALL:
            head = f"  {name} = "
            wide = x.astype(np.float32) if x.dtype == np.float16 else x       # 4 digits fit
            rounded = wide.round(4) + 0.0 if x.dtype.kind == "f" else x
            shown = np.array2string(rounded, separator=", ", prefix=head, max_line_width=70)
            lines += (head + shown).splitlines()
    return lines


def returns_nothing(answer: Any) -> bool:
    """Whether a function does something and yet has no return: no stub, but unfinished."""
    code = getattr(answer, "__code__", None)
    if code is None or len(code.co_code) <= len((lambda: None).__code__.co_code):
        return False
    try:
        return "..." not in inspect.getsource(answer)
    except (OSError, TypeError):
        return True
