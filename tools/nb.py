"""Run the book's notebooks and keep their files in one normal form.

    python tools/nb.py run   [--fresh] [notebook …]    execute, normalise, write back
    python tools/nb.py norm  [notebook …]              normalise and write back
    python tools/nb.py check [notebook …]              fail unless all are normal, run and clean

Without names: every notebook in book/ and book/solutions/. Running twice gives the same bytes:
a cell tagged nbval-ignore-output keeps the output it has, unless code of its notebook has changed
or --fresh is given; so all that is kept comes from one run. Normal form includes the guard cell,
links that work in any viewer (tools/links.py), a bitmap beside each drawing (tools/bitmaps.py),
and folds: what the site hides, JupyterLab folds too.
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

from tools import bitmaps, links  # noqa: E402
from tools.kernel_env import ENV, list_fonts  # noqa: E402
from tools.style import GUARD, is_guard  # noqa: E402

PROCESSES = 2
CELL_SECONDS = 900

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
NOTEBOOK_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
VARIES = "nbval-ignore-output"
FOLDED = {"source_hidden": {"hide-input", "remove-input", "remove-cell"},
          "outputs_hidden": {"hide-output"}}  # fmt: skip
NEVER_COMPARED = {"image/jpeg", WIDGET_VIEW}


def notebooks() -> list[Path]:
    """Every notebook of the book: the chapters, those beyond the ten, the solutions."""
    return [path for folder in ("book", "book/beyond", "book/solutions")
            for path in sorted((ROOT / folder).glob("*.ipynb"))]


def execute(nb, folder: Path) -> None:
    """Run all cells in a fresh kernel, in the notebook's own folder, and store the outputs."""
    from nbclient import NotebookClient

    os.environ.update(ENV)
    client = NotebookClient(
        nb, timeout=CELL_SECONDS, kernel_name="python3", record_timing=False,
        coalesce_streams=True, resources={"metadata": {"path": str(folder)}},
    )  # fmt: skip
    client.execute(stderr=subprocess.DEVNULL)


def execute_again(nb, folder: Path) -> None:
    """Run all cells; one whose output varies from run to run keeps what is stored for its code."""
    kept: dict[str, list] = {}
    outdated = {cell.id for cell in stale(nb)}
    for cell in nb.cells:
        if varies(cell) and cell.id not in outdated and cell.execution_count is not None:
            kept.setdefault(cell.source, []).append(cell.outputs)
    execute(nb, folder)
    for cell in nb.cells:
        if varies(cell) and kept.get(cell.source):
            cell.outputs = kept[cell.source].pop(0)


def varies(cell) -> bool:
    return VARIES in cell.metadata.get("tags", [])


def changed(cell) -> bool:
    """Whether the source is another than when the cell got its id."""
    return not re.fullmatch(rf"{_hash(cell)}(-\d+)?", cell.id)


def stale(nb) -> list:
    """The cells that vary, if any code is another than when they were run: all from one run."""
    code = [cell for cell in nb.cells if cell.cell_type == "code" and not is_guard(cell.source)]
    return [cell for cell in code if varies(cell)] if any(map(changed, code)) else []


def forget(nb) -> None:
    """Outputs that would be kept, though the code that made them is another now."""
    for cell in stale(nb):
        cell.outputs, cell.execution_count = [], None


def complete(nb, path: Path) -> None:
    """The guard as it is today, links that work in any viewer, a bitmap beside each drawing."""
    for cell in nb.cells[:2]:
        if is_guard(cell.source):
            cell.source = GUARD
    links.to_stored(nb.cells, path)
    bitmaps.add(nb.cells)


def normalise(nb):
    """One form for one content: ids from it, counts 1…n, nothing of the session that ran it."""
    nb.nbformat, nb.nbformat_minor = 4, 5
    nb.metadata = nbformat.from_dict(NOTEBOOK_METADATA)
    taken: set[str] = set()
    count = 0
    for cell in nb.cells:
        cell.source = "\n".join(line.rstrip() for line in cell.source.split("\n")).strip("\n")
        tags = cell.metadata.get("tags", [])
        cell.metadata = nbformat.from_dict(_metadata(tags))
        cell.id = _fresh_id(cell, taken)
        if cell.cell_type == "code":
            count += 1
            _normalise_outputs(cell, count)
    nbformat.validate(nb)
    return nb


def _metadata(tags: list[str]) -> dict:
    """The tags, and for JupyterLab the folds that they stand for."""
    folds = {fold: True for fold, by in FOLDED.items() if by & set(tags)}
    return ({"jupyter": folds} if folds else {}) | ({"tags": sorted(tags)} if tags else {})


def _fresh_id(cell, taken: set[str]) -> str:
    stem = name = _hash(cell)
    n = 1
    while name in taken:
        n += 1
        name = f"{stem}-{n}"
    taken.add(name)
    return name


def _hash(cell) -> str:
    return hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:8]


def _normalise_outputs(cell, count: int) -> None:
    if cell.execution_count is not None:
        cell.execution_count = count
    # the kernel's half of an explorer is dead without its kernel
    cell.outputs = [out for out in cell.outputs if list(out.get("data", [])) != [WIDGET_VIEW]]
    for out in cell.outputs:
        if "execution_count" in out:
            out.execution_count = count
        if "metadata" in out:
            out.metadata = nbformat.from_dict({})
        data = out.get("data", {})
        if "text/html" in data:  # an explorer stored without its kernel: the live half is dead
            data.pop(WIDGET_VIEW, None)


def finished(nb, path: Path) -> str:
    """The text of a notebook's file, in normal form and with all that belongs to it."""
    complete(nb, path)
    return dump(normalise(nb))


def dump(nb) -> str:
    return nbformat.writes(nb).rstrip("\n") + "\n"


def problems(nb) -> list[str]:
    """What strict comparison cannot see, or what a stored notebook must not hold."""
    found = [f"a link to #{place}, which is not here" for place in links.astray(nb.cells)]
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
            if wrong := bitmaps.fault(out.get("data", {})):
                found.append(f"{wrong}: {first}")
            if re.search(r"\x1b\[", str(out.get("text", ""))):
                found.append(f"terminal colours in the output: {first}")
    return found


def work(path: Path, verb: str, fresh: bool = False) -> tuple[Path, list[str], str]:
    """One notebook: its path, what is wrong with it, and a word on what was done."""
    began = time.monotonic()
    before = path.read_text("utf8")
    nb = nbformat.reads(before, as_version=4)
    if verb == "run":
        try:
            (execute if fresh else execute_again)(nb, path.parent)
        except Exception as error:  # a cell that raises ends this notebook, not the others
            return path, [str(error).strip()], "failed"
    else:
        forget(nb)
    after = finished(nb, path)
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
    verb, fresh = argv[0], "--fresh" in argv
    files = [Path(name).resolve() for name in argv[1:] if name != "--fresh"] or notebooks()
    os.environ.update(ENV)
    if verb == "run":
        list_fonts()
    failed = False
    with ProcessPoolExecutor(min(PROCESSES, max(1, len(files)))) as pool:
        # the last chapter takes longest: start it first
        for path, wrong, word in pool.map(partial(work, verb=verb, fresh=fresh), files[::-1]):
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
