"""Whether everyone did the same work: losses, tokens, gradients."""

from collections.abc import Sequence

import numpy as np

from benchmarks.race import Disagreement

Values = dict[str, list[float]]

TOLERANCE = 1e-4                # relative
# Adam divides every gradient by its own size, so it makes whole steps of those that are nothing
# but rounding: two right implementations part by about ten times more after each step
LOSS_TOLERANCES = (1e-5, 1e-5, 1e-4, 1e-3, 1e-3)
AGREEING = 0.99                 # share of tokens: two nearly equal logits may fall either way


def same_numbers(values: Values, tolerance: float | Sequence[float] = TOLERANCE) -> Values:
    """The numbers, if everyone's are within the relative tolerance of the first contestant's."""
    (first, wanted), *others = values.items()
    for key, got in others:
        off = np.abs(np.subtract(got, wanted)) / np.abs(wanted)
        if not (off <= tolerance).all():
            raise Disagreement(f"relative differences of {', '.join(f'{x:.0e}' for x in off)}: "
                               f"{key} has {got}, {first} has {wanted}")
    return values


def same_losses(values: Values) -> Values:
    """The losses, if everyone starts and goes on as the first contestant does."""
    return same_numbers(values, LOSS_TOLERANCES)


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
