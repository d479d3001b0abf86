"""Store what PyTorch makes of every case: tests/fixtures/*.npz, for tests/test_parity.py.

    .venv-parity/bin/python tests/make_fixtures.py            writes them all
    .venv-parity/bin/python tests/make_fixtures.py --check    compares with those that are there
"""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE), str(HERE / "parity")]

from cases import CASES  # noqa: E402
from parity_runs import FIXTURES, TRAININGS, draw, fixture_path, relative  # noqa: E402
from twins import theirs, train_theirs  # noqa: E402


def contents():
    """(name, arrays) for each fixture, the arrays as they are stored."""
    for case in CASES:
        given = draw(case)
        yield case.name, stored(given, theirs(case, given))
    for training in TRAININGS:
        given = training.draw()
        yield training.name, stored(given, train_theirs(training, given))


def stored(given, result):
    return {**{f"given/{name}": x for name, x in given.items()},
            **{f"result/{name}": x for name, x in result.items()}}


def write():
    FIXTURES.mkdir(exist_ok=True)
    for old in FIXTURES.glob("*.npz"):
        old.unlink()
    for name, arrays in contents():
        np.savez(fixture_path(name), **arrays)


def differences():
    """What is stored and no longer so: a line for each array, or for a whole fixture."""
    unknown = set(FIXTURES.glob("*.npz"))
    for name, arrays in contents():
        path = fixture_path(name)
        if path not in unknown:
            yield f"{name}: there is no {path.name}"
            continue
        unknown.remove(path)
        with np.load(path) as file:
            if set(file) != set(arrays):
                yield f"{name}: other arrays, {sorted(set(file) ^ set(arrays))}"
                continue
            yield from (f"{name}: {key} differs" for key in file if differ(file[key], arrays[key]))
    yield from (f"{path.name}: no such case" for path in sorted(unknown))


def differ(old, new):
    if old.shape != np.shape(new) or old.dtype != np.asarray(new).dtype:
        return True
    if old.dtype.kind == "f":
        return not relative(new, old) < 1e-9
    return not np.array_equal(old, new)


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        found = list(differences())
        print("\n".join(found) or "the fixtures are what PyTorch makes of the cases")
        sys.exit(bool(found))
    write()
