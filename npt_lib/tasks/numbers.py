"""Whole numbers from 0 to 999,999 in English and Spanish words: a task of chapter 10."""

import numpy as np

from npt_lib.module import Array, Rng
from npt_lib.require import check_count, check_rng
from npt_lib.tasks.task import Task, translation

ENGLISH = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
).split()
ENGLISH_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()

SPANISH = (
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince "
    "dieciséis diecisiete dieciocho diecinueve veinte veintiuno veintidós veintitrés "
    "veinticuatro veinticinco veintiséis veintisiete veintiocho veintinueve"
).split()
SPANISH_TENS = "treinta cuarenta cincuenta sesenta setenta ochenta noventa".split()
SPANISH_HUNDREDS = (
    "ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos "
    "ochocientos novecientos"
).split()

LIMIT = 1_000_000


def number_to_english(n: int) -> str:
    """42 is forty-two; 1007 is one thousand and seven; 1200 is one thousand two hundred."""
    check_number(n)
    thousands, rest = divmod(n, 1000)
    if thousands == 0:
        return _english_below_1000(rest)
    words = _english_below_1000(thousands) + " thousand"
    if rest == 0:
        return words
    return words + (" and " if rest < 100 else " ") + _english_below_1000(rest)


def number_to_spanish(n: int) -> str:
    """42 is cuarenta y dos; 100 is cien, 101 ciento uno; 21,000 is veintiún mil."""
    check_number(n)
    thousands, rest = divmod(n, 1000)
    if thousands == 0:
        return _spanish_below_1000(rest)
    words = "mil" if thousands == 1 else _shorten(_spanish_below_1000(thousands)) + " mil"
    return words if rest == 0 else words + " " + _spanish_below_1000(rest)


def check_number(n: int) -> None:
    if not 0 <= n < LIMIT:
        raise ValueError(f"numbers go from 0 to {LIMIT - 1:,}, got {n:,}.")


def _english_below_1000(n: int) -> str:
    hundreds, rest = divmod(n, 100)
    if hundreds == 0:
        return _english_below_100(rest)
    words = ENGLISH[hundreds] + " hundred"
    return words if rest == 0 else words + " and " + _english_below_100(rest)


def _english_below_100(n: int) -> str:
    if n < 20:
        return ENGLISH[n]
    tens, ones = divmod(n, 10)
    return ENGLISH_TENS[tens - 2] + (f"-{ENGLISH[ones]}" if ones else "")


def _spanish_below_1000(n: int) -> str:
    hundreds, rest = divmod(n, 100)
    if hundreds == 0:
        return _spanish_below_100(rest)
    if n == 100:
        return "cien"
    words = SPANISH_HUNDREDS[hundreds - 1]
    return words if rest == 0 else words + " " + _spanish_below_100(rest)


def _spanish_below_100(n: int) -> str:
    if n < 30:
        return SPANISH[n]
    tens, ones = divmod(n, 10)
    return SPANISH_TENS[tens - 3] + (f" y {SPANISH[ones]}" if ones else "")


def _shorten(words: str) -> str:
    """Before mil, uno loses its o, and veintiuno then needs an accent."""
    if words.endswith("veintiuno"):
        return words.removesuffix("uno") + "ún"
    return words.removesuffix("o") if words.endswith("uno") else words


def draw_numbers(rng: Rng, n: int) -> list[int]:
    """Distinct numbers: 3 % have three digits, 17 % four, 30 % five, and half have six.

    Drawn evenly from the million, nine in ten would have six digits, and few be short.
    """
    counts = [n * share // 100 for share in (3, 17, 30)]
    parts = [
        draw_distinct(rng, count, 10**digits, 10**(digits + 1))
        for digits, count in zip((2, 3, 4, 5), [*counts, n - sum(counts)], strict=True)
    ]
    return rng.permutation(np.concatenate(parts)).tolist()


def draw_distinct(rng: Rng, n: int, low: int, high: int) -> Array:
    if n > high - low:
        raise ValueError(f"{n} distinct numbers from {low:,} to {high - 1:,} were asked for.")
    return low + rng.choice(high - low, n, replace=False)


def number_words(rng: Rng, n_train: int = 20_000, n_test: int = 2_000) -> Task:
    """Numbers in English words, to be written in Spanish: forty-two -> cuarenta y dos.

    All numbers below 100 are trained on: they are the words. The held-out numbers, and the rest
    of those trained on, are drawn from 100 to 999,999, by their digits: see ``draw_numbers``.
    """
    check_rng(rng)
    n_train, n_test = check_count("n_train", n_train, 200), check_count("n_test", n_test)
    drawn = draw_numbers(rng, n_train - 100 + n_test)
    pairs = [(number_to_english(n), number_to_spanish(n)) for n in [*range(100), *drawn]]
    return translation("number words", pairs[:n_train], pairs[n_train:])
