"""Runs that are kept: a JSON file with a line for each, which a page of the book reads again."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from npt_lib.checkpoint import written_whole

Run = dict[str, Any]


def stored(path: Path) -> list[Run]:
    """The runs of a file, none if it is not there yet."""
    return json.loads(path.read_text("utf8")) if path.exists() else []


def store(path: Path, runs: Iterable[Run]) -> None:
    """All runs in one file, whole or not at all."""
    with written_whole(path) as file:
        file.write(("[\n" + ",\n".join(map(json.dumps, runs)) + "\n]\n").encode())
