"""With ``--same-bytes``: a notebook that nbval runs is the file that ``make execute`` would store.

nbval compares what the cells printed and drew, and leaves out what it takes for noise. So CI asks
for the whole file too: from the same run, not from a second one of ten minutes.
"""

from pathlib import Path

import nbformat
import pytest

WHY = "is another file when it is run again: make execute, and look at what changed"


def pytest_addoption(parser):
    parser.addoption("--same-bytes", action="store_true",
                     help="notebooks that nbval runs must come out the same, to the byte")


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """After a notebook's last cell, if all its cells have run."""
    last = nextitem is None or nextitem.parent is not item.parent
    if not item.config.option.same_bytes or not hasattr(item, "test_outputs") or not last:
        return
    outputs = [cell.test_outputs for cell in item.session.items if cell.parent is item.parent]
    n_cells = sum(cell.cell_type == "code" for cell in item.parent.nb.cells)
    if len(outputs) < n_cells or None in outputs:
        return
    path = Path(item.parent.path)
    text = path.read_text("utf8")
    if stored(text, path, outputs) != text:
        pytest.fail(f"{path.name} {WHY}.", pytrace=False)


def stored(text: str, path: Path, outputs: list) -> str:
    """The file that a run with these outputs writes; cells that vary keep what they have."""
    from tools import nb as notebooks

    nb = nbformat.reads(text, as_version=4)
    code = [cell for cell in nb.cells if cell.cell_type == "code"]
    for cell, found in zip(code, outputs, strict=True):
        if not notebooks.varies(cell):
            cell.outputs = [nbformat.from_dict(dict(out)) for out in found]
    return notebooks.finished(nb, path)
