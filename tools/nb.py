"""Run the book's notebooks and keep their files in one normal form.

    python tools/nb.py run   [notebook …]    execute, normalise, write back
    python tools/nb.py norm  [notebook …]    normalise and write back
    python tools/nb.py check [notebook …]    fail unless every file is normal, run and clean

Without names: every notebook in book/ and book/solutions/. Running twice gives the same bytes.
"""

import hashlib
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.kernel_env import ENV  # noqa: E402

PROCESSES = 2
CELL_SECONDS = 300

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
NEVER_COMPARED = {"image/png", "image/jpeg", WIDGET_VIEW}


def notebooks() -> list[Path]:
    """Every notebook of the book: the chapters, then the solutions."""
    return [*sorted(ROOT.glob("book/*.ipynb")), *sorted(ROOT.glob("book/solutions/*.ipynb"))]


def execute(nb, folder: Path) -> None:
    """Run all cells in a fresh kernel, in the notebook's own folder, and store the outputs."""
    from nbclient import NotebookClient

    os.environ.update(ENV)
    client = NotebookClient(
        nb, timeout=CELL_SECONDS, kernel_name="python3", record_timing=False,
        coalesce_streams=True, resources={"metadata": {"path": str(folder)}},
    )  # fmt: skip
    client.execute(stderr=subprocess.DEVNULL)


def normalise(nb):
    """One form for one content: ids from it, counts 1…n, nothing of the session that ran it."""
    nb.nbformat, nb.nbformat_minor = 4, 5
    nb.metadata = nbformat.from_dict(NOTEBOOK_METADATA)
    taken: set[str] = set()
    count = 0
    for cell in nb.cells:
        cell.source = "\n".join(line.rstrip() for line in cell.source.split("\n")).strip("\n")
        tags = cell.metadata.get("tags", [])
        cell.metadata = nbformat.from_dict({"tags": sorted(tags)} if tags else {})
        cell.id = _fresh_id(cell, taken)
        if cell.cell_type == "code":
            count += 1
            _normalise_outputs(cell, count)
    nbformat.validate(nb)
    return nb


def _fresh_id(cell, taken: set[str]) -> str:
    stem = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:8]
    name, n = stem, 1
    while name in taken:
        n += 1
        name = f"{stem}-{n}"
    taken.add(name)
    return name


def _normalise_outputs(cell, count: int) -> None:
    if cell.execution_count is not None:
        cell.execution_count = count
    for out in cell.outputs:
        if "execution_count" in out:
            out.execution_count = count
        if "metadata" in out:
            out.metadata = nbformat.from_dict({})
        data = out.get("data", {})
        if "text/html" in data:  # an explorer stored without its kernel: the live half is dead
            data.pop(WIDGET_VIEW, None)


def dump(nb) -> str:
    return nbformat.writes(nb).rstrip("\n") + "\n"


def problems(nb) -> list[str]:
    """What strict comparison cannot see, or what a stored notebook must not hold."""
    found = []
    for cell in nb.cells:
        if cell.cell_type != "code":
            continue
        first = (cell.source.strip().splitlines() or ["(empty)"])[0]
        if cell.execution_count is None:
            found.append(f"never run, so nbval compares nothing: {first}")
        for out in cell.outputs:
            if out.output_type == "error":
                found.append(f"stored error {out.ename}: {first}")
            if out.get("name") == "stderr":
                found.append(f"stored stderr ({out.text.strip()[:60]}): {first}")
            for kind in sorted(NEVER_COMPARED & set(out.get("data", {}))):
                found.append(f"output of type {kind}, which nbval never compares: {first}")
            if re.search(r"\x1b\[", str(out.get("text", ""))):
                found.append(f"terminal colours in the output: {first}")
    return found


def work(path: Path, verb: str) -> tuple[Path, list[str], str]:
    """One notebook: its path, what is wrong with it, and a word on what was done."""
    began = time.monotonic()
    before = path.read_text("utf8")
    nb = nbformat.reads(before, as_version=4)
    if verb == "run":
        try:
            execute(nb, path.parent)
        except Exception as error:  # a cell that raises ends this notebook, not the others
            return path, [str(error).strip()], "failed"
    after = dump(normalise(nb))
    wrong = problems(nb) if verb != "norm" else []
    if verb == "check":
        if after != before:
            wrong.append("not in normal form: python tools/nb.py norm")
        return path, wrong, "checked"
    if after != before:
        path.write_text(after, "utf8")
    took = f" in {time.monotonic() - began:.1f} s" if verb == "run" else ""
    return path, wrong, ("unchanged" if after == before else "written") + took


def main(argv: list[str]) -> int:
    if not argv or argv[0] not in ("run", "norm", "check"):
        print(__doc__)
        return 2
    verb, files = argv[0], [Path(name).resolve() for name in argv[1:]] or notebooks()
    os.environ.update(ENV)
    failed = False
    with ProcessPoolExecutor(min(PROCESSES, max(1, len(files)))) as pool:
        # the last chapter takes longest: start it first
        for path, wrong, word in pool.map(partial(work, verb=verb), files[::-1]):
            if verb != "check":
                print(f"{path.name}: {word}", flush=True)
            for line in wrong:
                failed = True
                print(f"{path.name}: {line}", flush=True)
    if verb == "check" and not failed:
        print(f"{len(files)} notebooks in normal form, every code cell run")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
