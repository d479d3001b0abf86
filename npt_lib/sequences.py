"""Random sequences without repetition: what the tasks of chapter 10 are drawn from."""

from collections.abc import Sequence
from typing import TypeVar

from npt_lib.module import Rng

T = TypeVar("T")


def distinct_sequences(
    rng: Rng, n: int, n_values: int, lengths: tuple[int, int]
) -> list[list[int]]:
    """n different lists of values, of random lengths from the first to the second, shuffled."""
    low, high = lengths
    if n_values < 1 or not 1 <= low <= high:
        raise ValueError(f"sequences need n_values >= 1 and 1 <= shortest <= longest, "
                         f"got n_values={n_values} and lengths={lengths}.")
    possible = sum(n_values**length for length in range(low, high + 1))
    if possible < 2 * n:
        raise ValueError(f"{n} sequences need at least {2 * n} to choose from, got {possible}.")
    found: set[tuple[int, ...]] = set()
    while len(found) < n:
        length = rng.integers(low, high + 1)
        found.add(tuple(rng.integers(n_values, size=length).tolist()))
    return shuffled(rng, [list(sequence) for sequence in sorted(found)])


def backwards(sequence: list[int]) -> list[int]:
    return sequence[::-1]


def shuffled(rng: Rng, items: Sequence[T]) -> list[T]:
    return [items[i] for i in rng.permutation(len(items))]
