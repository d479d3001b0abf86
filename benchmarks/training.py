"""Training steps, raced: every contestant starts from the same weights and sees the same data."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contestants import Contestant
from benchmarks.contestants.npt import model_of
from benchmarks.flops import training_flops
from benchmarks.race import race, say, sgemm_peak
from benchmarks.sizes import Size

N_COMPARED, TOLERANCE = 5, 1e-4


class Disagreement(RuntimeError):
    """Contestants that do not compute the same thing: their times say nothing."""


@contextmanager
def weights_of(size: Size) -> Iterator[str]:
    """A file with the weights that everyone starts from."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.npz"
        np.savez(path, **model_of(size).state_dict())
        yield str(path)


def same_losses(losses: dict[str, list[float]]) -> dict[str, list[float]]:
    """The losses, if all are within TOLERANCE of the first contestant's."""
    (first, wanted), *others = losses.items()
    for key, got in others:
        worst = max(abs(a - b) / abs(b) for a, b in zip(got, wanted, strict=True))
        if not worst <= TOLERANCE:
            raise Disagreement(f"losses differ by {worst:.1e}: {key} {got}, {first} {wanted}")
    return losses


def measure(size: Size, contestants: Sequence[Contestant], rounds: int,
            dropout: float = 0.0) -> dict[str, Any]:
    """Seconds for a step, round by round, and sgemm's peak before and after.

    With dropout every contestant draws its own random numbers, so losses are not compared.
    """
    say(f"train {size.name}{f', dropout {dropout}' if dropout else ''}")
    kernels = {c.key: c.environment for c in contestants}
    before = peaks(kernels)
    with weights_of(size) as weights:
        options = {"size": size.as_dict(), "weights": weights, "dropout": dropout}
        found = race(contestants, "train", options, rounds,
                     (lambda losses: losses) if dropout else same_losses, N_COMPARED)
    after = peaks(kernels)
    found["losses"] = found.pop("values")
    peak = {key: max(before[key], after[key]) for key in kernels}
    return {**found, "flops": training_flops(size), "peak": peak}


def peaks(kernels: dict[str, dict[str, str]]) -> dict[str, float]:
    """sgemm's GFLOP/s for each contestant: under its own kernel where it is held to one."""
    own = sgemm_peak()
    return {key: sgemm_peak(held) if held else own for key, held in kernels.items()}
