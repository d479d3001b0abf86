"""Whether everyone did the same work: losses, tokens, gradients."""

import numpy as np

from benchmarks.race import Disagreement

TOLERANCE = 1e-4                # of losses and gradients, relative
AGREEING = 0.99                 # share of tokens: two nearly equal logits may fall either way


def same_numbers(values: dict[str, list[float]]) -> dict[str, list[float]]:
    """The numbers, if everyone's are within TOLERANCE of the first contestant's."""
    (first, wanted), *others = values.items()
    for key, got in others:
        worst = float(np.max(np.abs(np.subtract(got, wanted)) / np.abs(wanted)))
        if not worst <= TOLERANCE:
            raise Disagreement(f"relative difference of {worst:.1e}: "
                               f"{key} has {got}, {first} has {wanted}")
    return values


def same_tokens(values: dict[str, list[list[int]]]) -> dict[str, float]:
    """The share of tokens that equal the first contestant's, if it is at least AGREEING."""
    (first, wanted), *_ = values.items()
    shares = {key: float(np.mean(np.equal(got, wanted))) for key, got in values.items()}
    for key, share in shares.items():
        if share < AGREEING:
            raise Disagreement(f"{key} writes {share:.1%} of the tokens that {first} writes")
    return shares


def unchecked(values: dict[str, list]) -> None:
    """With dropout everyone draws random numbers of its own: there is nothing to compare."""
