"""What is measured. Each function returns raw numbers, of which the report is made."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.checks import LOSS_TOLERANCES, same_losses, same_numbers, same_tokens, unchecked
from benchmarks.contestants import ANATOMY, CONTESTANTS, FORMS, SETTINGS, Contestant
from benchmarks.flops import training_flops
from benchmarks.process import Process, WorkerError
from benchmarks.race import give_up, peak_bytes, peaks, race, say
from benchmarks.sizes import Size

N_COMPARED = len(LOSS_TOLERANCES)       # training steps whose losses are compared
LENGTHS = (256, 512, 1024, 2048, 4096)
Contestants = Sequence[Contestant]
Numbers = dict[str, Any]


@contextmanager
def weights_of(size: Size) -> Iterator[str]:
    """A file with the weights that everyone starts from: npt_lib's own for a seed of 0."""
    from benchmarks.contestants.npt import model_of

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.npz"
        arrays: Numbers = model_of(size).state_dict()
        np.savez(path, **arrays)
        yield str(path)


def able(contestants: Contestants, part: str) -> list[Contestant]:
    return [c for c in contestants if part in c.parts]


def training(size: Size, contestants: Contestants, rounds: int) -> Numbers:
    """Seconds for a step, round by round, and sgemm's peak, the better of before and after."""
    say(f"training, {size.name}")
    racers = able(contestants, "train")
    before = peaks(racers)
    with weights_of(size) as weights:
        options = {"size": size.as_dict(), "weights": weights}
        found = race(racers, "train", options, rounds, same_losses, N_COMPARED)
    after = peaks(racers)
    peak = {key: max(before[key], after[key]) for key in before}
    return {**found, "flops": training_flops(size), "peak": peak}


def training_with_dropout(size: Size, contestants: Contestants, rounds: int) -> Numbers:
    """Seconds for a step with dropout 0.1, among those that have it."""
    say(f"training with dropout, {size.name}")
    with weights_of(size) as weights:
        options = {"size": size.as_dict(), "weights": weights, "dropout": 0.1}
        return race(able(contestants, "dropout"), "train", options, rounds, unchecked, N_COMPARED)


def decoding(size: Size, contestants: Contestants, rounds: int) -> Numbers:
    """Seconds to write N_TOKENS, for one sequence and for a batch of them."""
    found = {}
    with weights_of(size) as weights:
        for name, n_rows in (("one", 1), ("batch", size.batch)):
            say(f"decoding, {size.name}, {name}")
            options = {"size": size.as_dict(), "weights": weights, "n_rows": n_rows}
            found[name] = race(able(contestants, "decode"), "decode", options, rounds, same_tokens)
            found[name]["rows"] = n_rows
    return found


def attention(n: int, contestants: Contestants, rounds: int) -> Numbers:
    """Seconds and bytes of attention over n positions, forwards and backwards."""
    say(f"attention, {n} positions")
    racers = able(contestants, "attend")
    found = race(racers, "attend", {"n": n}, rounds, same_numbers)
    held = {c.key: peak_bytes(c, "attend", {"n": n}, 1) for c in racers}
    return {**found, "bytes": held}


def memory(size: Size, contestants: Contestants) -> dict[str, int]:
    """The most bytes that N_COMPARED training steps held over the start."""
    say(f"memory, {size.name}")
    held = {}
    with weights_of(size) as weights:
        options = {"size": size.as_dict(), "weights": weights}
        for contestant in able(contestants, "train"):
            try:
                held[contestant.key] = peak_bytes(contestant, "train", options, N_COMPARED)
            except WorkerError as error:
                give_up(contestant, error)
    return held


def forms(rounds: int) -> list[Numbers]:
    """Seconds of every fast form and of its textbook form, round by round."""
    from benchmarks.contestants.forms import FORMS as names

    say("forms, before and after")
    found = []
    with Process(FORMS) as process:
        for name in names:
            process.prepare("compare", name=name)
            old, new, before, after = process.run(3 * rounds).values     # they are short
            found.append({"name": name, "from": old, "to": new, "before": before, "after": after})
    return found


def settings(sizes: Sequence[Size], rounds: int) -> list[Numbers]:
    """The same for settings of train, which need a process each: a training step."""
    found = []
    for name, at, (old, before), (new, after) in SETTINGS:
        for size in (size for size in sizes if size.name in at):
            say(f"{name}, {size.name}")
            pair = [replace(CONTESTANTS["npt"], key=key, variant=variant)
                    for key, variant in (("before", before), ("after", after))]
            with weights_of(size) as weights:
                options = {"size": size.as_dict(), "weights": weights}
                raced = race(pair, "train", options, rounds, same_losses, N_COMPARED)
            found.append({"name": f"{name}, {size.name}", "from": old, "to": new,
                          **raced["seconds"]})
    return found


def profile(size: Size, rounds: int) -> Numbers:
    """Seconds of a training step of npt_lib, by kind of work and by part of the library."""
    say(f"profile, {size.name}")
    found = {}
    with Process(ANATOMY) as process:
        for kind in ANATOMY.parts:
            process.prepare(kind, size=size.as_dict())
            found[kind] = dict(process.run(rounds).values)
    return found
