"""Judging an answer: to do, correct, or not yet, with what is wrong and which mistake it is."""

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npt_lib.book.checks.compare import WHERE, difference, kind, same
from npt_lib.book.checks.outcome import (
    PAIR,
    Outcome,
    returns_nothing,
    run,
    show_arguments,
    show_small,
    upstream,
)
from npt_lib.book.checks.prediction import feedback, matches, plain

TO_DO, CORRECT, NOT_YET = "to do", "correct", "not yet"
AGAIN = {"mend": "Mend it above and run this cell again."}


@dataclass(frozen=True)
class Mistake:
    """What a known mistake would hand in, its name, and the question that leads out of it."""

    name: str
    answer: Any
    question: str

    def advice(self) -> list[str]:
        return [f"This looks like a known mistake: {self.name}.", f"Ask yourself: {self.question}"]


@dataclass(frozen=True)
class Verdict:
    """What a check says, and its status: "to do", "correct" or "not yet"."""

    status: str
    text: str


@dataclass(frozen=True)
class Exercise:
    """``expected`` is the answer itself, or with ``cases`` a function that gives it for each.

    ``broken`` is what the reader is given where there is a bug to be found. Its symptom names
    the first wrong value, unless ``tells_where`` is off.
    """

    id: str
    prompt: str
    expected: Any
    mistakes: tuple[Mistake, ...] = ()
    cases: tuple[tuple[Any, ...], ...] = ()
    outputs: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    tol: float | None = None
    call: Callable[..., Any] = field(default=lambda answer, *case: answer(*case))
    kind: str = "predict"
    broken: Callable[..., Any] | None = None
    tells_where: bool = True

    def run(self, answer: Any) -> list[Outcome]:
        return [run(answer, self.call, case, self.arguments, self.outputs) for case in self.cases]

    def judge(self, answer: Any) -> Verdict:
        if answer is None or answer is ...:
            return self.verdict(TO_DO)
        return judge_function(self, answer) if self.cases else judge_value(self, answer)

    def verdict(self, status: str, *lines: str) -> Verdict:
        """The verdict with its text: a head line, then these lines, wrapped."""
        if status == TO_DO:
            again = AGAIN.get(self.kind, "Write your answer above and run this cell again.")
            lines = (self.prompt, *lines, again)
        many = f" ({len(self.cases)} cases)" if status == CORRECT and len(self.cases) > 1 else ""
        text = "\n".join([f"Exercise {self.id}: {status}{many}.", *lines])
        return Verdict(status, "\n".join(_wrap(line) for line in text.splitlines()))


def _wrap(line: str) -> str:
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.fill(line, 70, subsequent_indent=indent, break_long_words=False,
                         break_on_hyphens=False)


def judge_function(exercise: Exercise, answer: Any) -> Verdict:
    """Compare with the reference on every case; the first difference is told."""
    if not callable(answer):
        return exercise.verdict(NOT_YET, f"The answer is a function, got {kind(answer)}.")
    got, expected = exercise.run(answer), exercise.run(exercise.expected)
    if _untouched(got[0]):
        return _nothing(exercise, answer, got[0])
    for i, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
        wrong = describe(ours, theirs, exercise.tol)
        if wrong and _only_backward_is_missing(ours, theirs, exercise.tol):
            first = next(iter(theirs.results))
            return exercise.verdict(TO_DO, f"{first} is right; what is left is backward.")
        if wrong:
            return _not_yet(exercise, got, expected, i, wrong)
    return exercise.verdict(CORRECT)


def _nothing(exercise: Exercise, answer: Any, got: Outcome) -> Verdict:
    """A stub is to do; a function that has forgotten to return is told so."""
    if got.printed:
        return exercise.verdict(NOT_YET, "The function prints its result and returns None. What "
                                         "it prints is lost to whoever calls it: return it.")
    if not got.error and returns_nothing(answer):
        return exercise.verdict(NOT_YET, "The function returns None. Does it end with return?")
    return exercise.verdict(TO_DO)


def _not_yet(exercise: Exercise, got: list[Outcome], expected: list[Outcome], i: int,
             wrong: str) -> Verdict:
    """First what is understood, a known mistake; then case i, its digits and small inputs."""
    case, names = exercise.cases[i], exercise.arguments
    label = f"Case {i + 1} of {len(got)}, " if len(got) > 1 else "With "
    digits = [f"{label}{show_arguments(case, names)}: {wrong}"]
    if small := show_small(case, names):
        digits += [*_small_dy(got[i], expected[i]), *small]
    if exercise.broken and _recognised(exercise, exercise.broken, got, expected):
        if not exercise.tells_where:
            digits[0] = digits[0].partition(WHERE)[0]
        return exercise.verdict(TO_DO, "This is still the broken one.", *digits)
    mistake = recognise(exercise, got, expected)
    return exercise.verdict(NOT_YET, *(mistake.advice() if mistake else []), *digits)


def _small_dy(got: Outcome, expected: Outcome) -> list[str]:
    """The gradient that backward was given, if it is small, and what came back is wrong."""
    name = next(iter(expected.results), "")
    y = expected.results.get(name)
    gave_y = PAIR == got.form == expected.form and not got.error
    if not gave_y or not isinstance(y, np.ndarray) or difference(got.results.get(name), y):
        return []
    return show_small((upstream(y),), (f"d{name}",))


def describe(got: Outcome, expected: Outcome, tol: float | None) -> str:
    """What is wrong with one case, or an empty text: results first, then errors."""
    if not got.error and got.form != expected.form:
        single = kind(got.results.get("")) if "" in got.results else "one result"
        return f"{expected.form or 'one result'} expected, got {got.form or single}."
    for name, value in expected.results.items():
        wrong = difference(got.results[name], value, tol, name) if name in got.results else ""
        if wrong:
            return wrong + (f" NumPy warned: {got.warned}." if got.warned else "")
    if got.error:
        return _raised(got)
    if got.results.keys() != expected.results.keys():
        return _miscounted(got, expected)
    return f"the argument {got.changed} was changed in place." if got.changed else ""


def _raised(got: Outcome) -> str:
    message = (str(got.error).splitlines() or [""])[0][:200]
    return f"{type(got.error).__name__}: {message}" + (f" ({got.where})" if got.where else "")


def _miscounted(got: Outcome, expected: Outcome) -> str:
    """The names differ only if their number does: too few or too many gradients or results."""
    names, n = list(expected.results), len(got.results)
    if expected.form == PAIR:
        one = "gradient" if len(names) == 2 else "gradients"
        return f"backward must return {len(names) - 1} {one} ({', '.join(names[1:])}), got {n - 1}."
    return f"{', '.join(names)} expected, got {', '.join(got.results)}."


def _untouched(outcome: Outcome) -> bool:
    """Whether an answer is still the stub: nothing returned, or not implemented."""
    stub = isinstance(outcome.error, NotImplementedError) and not outcome.results
    return stub or _unset(outcome, list(outcome.results))


def _unset(outcome: Outcome, names: list[str]) -> bool:
    return bool(names) and all(outcome.unset(name) for name in names)


def _only_backward_is_missing(got: Outcome, expected: Outcome, tol: float | None) -> bool:
    first, *rest = expected.results
    pair = expected.form == got.form == PAIR
    if not pair or difference(got.results[first], expected.results[first], tol):
        return False
    if got.error:
        return isinstance(got.error, NotImplementedError)
    return _unset(got, [name for name in got.results if name != first] or rest)


def recognise(exercise: Exercise, got: list[Outcome], expected: list[Outcome]) -> Mistake | None:
    """The first known mistake with these results in every case."""
    return next((mistake for mistake in exercise.mistakes
                 if _recognised(exercise, mistake.answer, got, expected)), None)


def _recognised(exercise: Exercise, answer: Any, got: list[Outcome],
                expected: list[Outcome]) -> bool:
    cases = zip(got, exercise.run(answer), expected, strict=True)
    return all(_agree(*outcomes, exercise.tol) for outcomes in cases)


def _agree(got: Outcome, mistake: Outcome, expected: Outcome, tol: float | None) -> bool:
    """Alike in results and in failure; where a dtype alone is wrong, it is that of one result."""
    return (
        type(got.error) is type(mistake.error)
        and got.changed == mistake.changed
        and got.results.keys() == mistake.results.keys()
        and all(same(got.results[name], value, tol) for name, value in mistake.results.items())
        and _wrong_dtype(got, expected, tol) == _wrong_dtype(mistake, expected, tol)
    )


def _wrong_dtype(outcome: Outcome, expected: Outcome, tol: float | None) -> str:
    """Which result is wrong in its dtype alone, and what was expected; empty if none is."""
    said = describe(outcome, expected, tol)
    return said.partition(", got")[0] if "but dtype" in said else ""


def judge_value(exercise: Exercise, answer: Any) -> Verdict:
    """Compare a prediction, and say what is right about it without giving the answer away."""
    got, expected = plain(answer), plain(exercise.expected)
    if matches(got, expected):
        return exercise.verdict(CORRECT)
    for mistake in exercise.mistakes:
        if matches(got, plain(mistake.answer)):
            return exercise.verdict(NOT_YET, *mistake.advice())
    return exercise.verdict(NOT_YET, feedback(got, expected))
