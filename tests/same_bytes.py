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
    """After a notebook's last cell; its earlier cells are those of the same collector."""
    if not item.config.option.same_bytes or not hasattr(item, "test_outputs"):
        return
    ran = item.parent.__dict__.setdefault("ran", {})
    ran[item.cell_num] = item.test_outputs
    if nextitem is None or nextitem.parent is not item.parent:
        path = Path(item.parent.path)
        before = path.read_text("utf8")
        n_cells = sum(cell.cell_type == "code" for cell in item.parent.nb.cells)
        if len(ran) == n_cells and stored(before, path, ran) != before:      # not for a part of it
            pytest.fail(f"{path.name} {WHY}.", pytrace=False)


def stored(text: str, path: Path, ran: dict[int, list] | list[list]) -> str:
    """The file that a run with these outputs writes; cells that vary keep what they have."""
    from tools import nb as notebooks

    nb = nbformat.reads(text, as_version=4)
    code = [cell for cell in nb.cells if cell.cell_type == "code"]
    for n, cell in enumerate(code):
        if not notebooks.varies(cell):
            cell.outputs = [nbformat.from_dict(dict(out)) for out in ran[n]]
    notebooks.complete(nb, path)
    return notebooks.dump(notebooks.normalise(nb))
