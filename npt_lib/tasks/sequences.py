"""Random sequences to copy, reverse and sort: tasks of chapter 10."""

from collections.abc import Callable
from typing import Any

import numpy as np

from npt_lib.module import Rng
from npt_lib.require import check_count, check_rng
from npt_lib.tasks.task import Task, shuffled
from npt_lib.tokenizer import SPECIAL, CharTokenizer, Tokenizer, WordTokenizer

MOST_VALUES, MOST_TOKENS = 1_000_000, 1000
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def copy_task(rng: Rng, n_train: int = 4000, n_test: int = 400,
              lengths: tuple[int, int] = (3, 8), n_values: int = 10) -> Task:
    """Numbers below n_values, to be written as they are: 3 1 4 -> 3 1 4."""
    numbers = number_tokenizer(n_values)
    return sequence_task("copy", numbers, list, rng, n_train, n_test, lengths)


def reverse_numbers(rng: Rng, n_train: int = 4000, n_test: int = 400,
                    lengths: tuple[int, int] = (3, 8), n_values: int = 10) -> Task:
    """Numbers below n_values, to be written backwards: 3 1 4 -> 4 1 3."""
    numbers = number_tokenizer(n_values)
    return sequence_task("reverse numbers", numbers, backwards, rng, n_train, n_test, lengths)


def sort_numbers(rng: Rng, n_train: int = 4000, n_test: int = 400,
                 lengths: tuple[int, int] = (3, 8), n_values: int = 10) -> Task:
    """Numbers below n_values, to be written in order: 3 1 4 -> 1 3 4."""
    numbers = number_tokenizer(n_values)
    return sequence_task("sort numbers", numbers, sorted, rng, n_train, n_test, lengths)


def identity_strings(rng: Rng, n_train: int = 4000, n_test: int = 400,
                     lengths: tuple[int, int] = (3, 8), letters: str = LETTERS) -> Task:
    """Random words, to be written as they are: cab -> cab."""
    letter = CharTokenizer(letters)
    return sequence_task("identity of strings", letter, list, rng, n_train, n_test, lengths)


def reverse_strings(rng: Rng, n_train: int = 4000, n_test: int = 400,
                    lengths: tuple[int, int] = (3, 8), letters: str = LETTERS) -> Task:
    """Random words, to be written backwards: cab -> bac."""
    letter = CharTokenizer(letters)
    return sequence_task("reverse strings", letter, backwards, rng, n_train, n_test, lengths)


def next_token(length: int = 6) -> Task:
    """One fixed sequence, 1 2 3 4 5 6: every beginning of it, and the number that follows."""
    numbers = [str(i + 1) for i in range(length)]
    pairs = [(" ".join(numbers[:i]), numbers[i]) for i in range(1, length)]
    tokenizer = WordTokenizer(numbers)
    return Task("next token", tokenizer, tokenizer, pairs, pairs)


def sequence_task(name: str, tokenizer: Tokenizer, change: Callable[[list[int]], list[int]],
                  rng: Rng, n_train: int, n_test: int, lengths: tuple[int, int]) -> Task:
    """Distinct random sequences of the tokenizer's own tokens, and what becomes of them."""
    check_count("n_train", n_train), check_count("n_test", n_test, 0)
    n_values = len(tokenizer) - len(SPECIAL)
    sequences = distinct_sequences(rng, n_train + n_test, n_values, lengths)

    def text(sequence: list[int]) -> str:
        return tokenizer.decode([len(SPECIAL) + i for i in sequence])

    pairs = [(text(sequence), text(change(sequence))) for sequence in sequences]
    return Task(name, tokenizer, tokenizer, pairs[:n_train], pairs[n_train:])


def number_tokenizer(n_values: int) -> WordTokenizer:
    """0, 1, 2 ... as words, so that id and value go up together."""
    if check_count("n_values", n_values) > MOST_VALUES:
        raise ValueError(f"n_values must be at most {MOST_VALUES:,}, got {n_values:,}.")
    return WordTokenizer(str(i) for i in range(n_values))


def distinct_sequences(
    rng: Rng, n: int, n_values: int, lengths: tuple[int, int]
) -> list[list[int]]:
    """n different lists of values, of random lengths from the first to the second, shuffled."""
    check_rng(rng)
    low, high = _check_lengths(lengths)
    if n_values < 1:
        raise ValueError(f"sequences need n_values >= 1, got {n_values}.")
    possible = sum(n_values**length for length in range(low, high + 1))
    if possible < 2 * n:
        raise ValueError(f"{n} sequences need at least {2 * n} to choose from, got {possible}.")
    found: set[tuple[int, ...]] = set()
    while len(found) < n:
        length = rng.integers(low, high + 1)
        found.add(tuple(rng.integers(n_values, size=length).tolist()))
    return shuffled(rng, [list(sequence) for sequence in sorted(found)])


def _check_lengths(lengths: Any) -> tuple[int, int]:
    """The shortest and the longest length."""
    whole = isinstance(lengths, tuple | list) and len(lengths) == 2 and all(
        isinstance(n, int | np.integer) and not isinstance(n, bool) for n in lengths)
    if not whole or not 1 <= lengths[0] <= lengths[1] <= MOST_TOKENS:
        raise ValueError(f"lengths must be two whole numbers, 1 <= shortest <= longest <= "
                         f"{MOST_TOKENS:,}, got {lengths!r}.")
    return int(lengths[0]), int(lengths[1])


def backwards(sequence: list[int]) -> list[int]:
    return sequence[::-1]
