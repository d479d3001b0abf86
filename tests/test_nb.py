"""The notebook runner: one form for one content, and a refusal of what comparison cannot see."""

import base64
import copy
import io
import subprocess
import sys

import nbformat
import pytest
from PIL import Image

from npt_lib.book.figures.svg import Picture, rect, text
from tests import same_bytes
from tools import bitmaps, nb, style
from tools.kernel_env import start_again

v4 = nbformat.v4


def notebook(*sources):
    return v4.new_notebook(cells=[v4.new_code_cell(s) for s in sources])


@pytest.mark.parametrize("deaths", [0, 1, 2])
def test_a_kernel_that_dies_at_its_start_is_started_once_more(deaths):
    left = [None] * deaths

    def start(name):
        if left:
            left.pop()
            raise RuntimeError("Kernel died before replying to kernel_info")
        return name

    if deaths == 2:
        with pytest.raises(RuntimeError, match="Kernel died"):
            start_again(start)(name="python")
    else:
        assert start_again(start)(name="python") == "python"


def test_a_kernel_knows_no_settings_of_the_user(tmp_path, monkeypatch):
    settings = tmp_path / "settings"
    settings.mkdir()
    monkeypatch.setenv("MPLCONFIGDIR", str(settings))
    (settings / "matplotlibrc").write_text("lines.linewidth: 9\n", "utf8")
    made = notebook("import matplotlib\nmatplotlib.rcParams['lines.linewidth']")
    nb.execute(made, tmp_path)
    assert made.cells[0].outputs[0]["data"]["text/plain"] == "1.5"


def test_running_twice_gives_the_same_bytes(tmp_path):
    texts = []
    for _ in range(2):
        made = notebook("import os\nprint(os.environ['OPENBLAS_NUM_THREADS'])", "{1: 2}")
        nb.execute(made, tmp_path)
        texts.append(nb.dump(nb.normalise(made)))
        assert not nb.problems(made)
    assert texts[0] == texts[1]
    assert '"1\\n"' in texts[0] and '"text/plain"' in texts[0]


def test_normal_form_is_a_fixed_point():
    made = notebook("x = 1  \n\n", "x = 1", "y")
    made.metadata["widgets"] = {"state": 1}
    made.cells[0].metadata = {"ExecuteTime": "12:00", "tags": ["b", "a"], "collapsed": False}
    once = nb.dump(nb.normalise(made))
    assert nb.dump(nb.normalise(nbformat.reads(once, as_version=4))) == once
    assert "ExecuteTime" not in once and "widgets" not in once and "collapsed" not in once
    assert made.cells[0].source == "x = 1" and made.cells[0].metadata["tags"] == ["a", "b"]


def test_ids_come_from_the_content():
    one, two = nb.normalise(notebook("a", "b", "a")), nb.normalise(notebook("b", "a", "a"))
    ids = [c.id for c in one.cells]
    assert len(set(ids)) == 3
    assert ids[1] == two.cells[0].id and ids[0] == two.cells[1].id


def test_an_explorer_keeps_only_what_works_without_a_kernel():
    made = notebook("explore()")
    view = {"model_id": "f" * 32, "version_major": 2, "version_minor": 0}
    data = {nb.WIDGET_VIEW: view, "text/html": "<figure></figure>", "text/plain": "explorer"}
    made.cells[0].outputs = [v4.new_output("execute_result", data, execution_count=7)]
    made.cells[0].execution_count = 7
    nb.normalise(made)
    assert set(made.cells[0].outputs[0].data) == {"text/html", "text/plain"}
    assert made.cells[0].execution_count == made.cells[0].outputs[0].execution_count == 1


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        (v4.new_output("stream", name="stderr", text="Warning: x"), "stored stderr"),
        (v4.new_output("error", ename="ValueError", evalue="x"), "stored error ValueError"),
        (v4.new_output("display_data", {"image/png": "AAAA"}), "never compares"),
        (v4.new_output("display_data", {nb.WIDGET_VIEW: {}}), "never compares"),
        (v4.new_output("stream", text="\x1b[31mred\x1b[0m"), "colours"),
    ],
)
def test_outputs_that_comparison_does_not_see_are_refused(output, fault):
    made = notebook("x")
    made.cells[0].execution_count = 1
    made.cells[0].outputs = [copy.deepcopy(output)]
    assert any(fault in line for line in nb.problems(made))


def test_a_link_that_leads_nowhere_is_refused(tmp_path):
    path = tmp_path / "02_x.ipynb"
    text = "[here](#Here), [gone](#02-Gone)\n\n```\n[in code](#code)\n```\n\n## Here\n\nNow."
    path.write_text(nb.dump(v4.new_notebook(cells=[v4.new_markdown_cell(text)])), "utf8")
    nb.work(path, "norm")
    _, wrong, _ = nb.work(path, "check")
    assert wrong == ["a link to #02-Gone, which is not here"]


def test_check_refuses_a_cell_that_never_ran(tmp_path):
    path = tmp_path / "x.ipynb"
    path.write_text(nb.dump(nb.normalise(notebook("1 + 1"))), "utf8")
    _, wrong, _ = nb.work(path, "check")
    assert wrong == ["never run, so nbval compares nothing: 1 + 1"]


def test_check_refuses_another_form(tmp_path):
    made = nb.normalise(notebook("1 + 1"))
    made.cells[0].execution_count = 1
    path = tmp_path / "x.ipynb"
    path.write_text(nb.dump(made).replace('\n "', '\n  "'), "utf8")
    assert nb.work(path, "check")[1] == ["not in normal form: python tools/nb.py norm"]


def test_a_cell_that_raises_fails_the_run_and_leaves_the_file(tmp_path):
    path = tmp_path / "x.ipynb"
    path.write_text(nb.dump(notebook("1 / 0")), "utf8")
    before = path.read_text("utf8")
    _, wrong, word = nb.work(path, "run")
    assert word == "failed" and "ZeroDivisionError" in wrong[0]
    assert path.read_text("utf8") == before


def run(path):
    made = nbformat.read(path, 4)
    _, wrong, _ = nb.work(path, "run")
    assert not wrong
    return made, nbformat.read(path, 4)


def test_an_output_that_varies_is_kept_until_its_code_changes(tmp_path):
    path = tmp_path / "x.ipynb"
    made = notebook("import os", "print(os.urandom(8).hex())", "print(os.urandom(8).hex())")
    made.cells[1].metadata["tags"] = ["nbval-ignore-output"]
    path.write_text(nb.dump(made), "utf8")
    _, first = run(path)
    _, second = run(path)
    assert "text" in first.cells[1].outputs[0]
    assert second.cells[1].outputs == first.cells[1].outputs
    assert second.cells[2].outputs != first.cells[2].outputs   # not tagged: stored afresh

    second.cells[1].source += "  # changed"
    path.write_text(nb.dump(second), "utf8")
    _, third = run(path)
    assert third.cells[1].outputs != second.cells[1].outputs

    third.cells[0].source += "  # above it"
    path.write_text(nb.dump(third), "utf8")
    _, fourth = run(path)
    assert fourth.cells[1].outputs != third.cells[1].outputs

    fourth.cells[2].source += "  # below it"
    path.write_text(nb.dump(fourth), "utf8")
    _, fifth = run(path)
    assert fifth.cells[1].outputs != fourth.cells[1].outputs    # all from one run

    nb.work(path, "run", fresh=True)
    assert nbformat.read(path, 4).cells[1].outputs != fourth.cells[1].outputs

    third.cells[1].source = "print(3)"
    path.write_text(nb.dump(third), "utf8")
    assert any("never run" in line for line in nb.work(path, "check")[1])


def test_what_the_site_hides_is_folded_in_jupyterlab():
    made = notebook("plot()", "print(1)", "x")
    made.cells[0].metadata["tags"] = ["hide-input"]
    made.cells[1].metadata["tags"] = ["hide-output"]
    made.cells[2].metadata["jupyter"] = {"source_hidden": True}
    cells = nb.normalise(made).cells
    assert cells[0].metadata == {"jupyter": {"source_hidden": True}, "tags": ["hide-input"]}
    assert cells[1].metadata == {"jupyter": {"outputs_hidden": True}, "tags": ["hide-output"]}
    assert cells[2].metadata == {}


def test_normal_form_has_the_guard_of_today(tmp_path):
    made = notebook(style.guard("somewhere else"), "1")
    nb.complete(made, tmp_path / "x.ipynb")
    assert [c.source for c in made.cells] == [style.GUARD, "1"]


def test_a_drawing_has_a_bitmap_beside_it():
    """For JupyterLab, which shows an untrusted notebook no SVG; the same bytes on every run."""
    made = notebook("figure")
    svg = Picture(rect(0, 0, 20, 10, "#0b5cb0") + text(10, 5, "x"), 40, 30, "a word").svg
    made.cells[0].outputs = [v4.new_output("display_data", {"image/svg+xml": svg})]
    bitmaps.add(made.cells)
    stored = made.cells[0].outputs[0].data["image/png"]
    image = Image.open(io.BytesIO(base64.b64decode(stored)))
    assert image.size == (64, 53) and len(image.convert("RGB").getcolors()) > 2
    assert base64.b64decode(stored) == bitmaps.bitmap(svg)
    made.cells[0].execution_count = 1
    assert not nb.problems(made)
    made.cells[0].outputs[0].data["image/png"] = "A" * 60_000
    assert "a bitmap of 45000 bytes, at most 40000: figure" in nb.problems(made)


DRAWN = """from IPython.display import SVG
import os
SVG('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><path d="M0 0h9v9"/></svg>')"""
VARIED = "print(os.urandom(8).hex())"


def test_a_file_that_a_run_would_change_is_found_where_nbval_sees_nothing(tmp_path):
    """A bitmap of another drawing, though the drawing is the same; a cell that varies may vary."""
    path = tmp_path / "x.ipynb"
    made = notebook(DRAWN, VARIED)
    made.cells[1].metadata["tags"] = ["nbval-ignore-output"]
    path.write_text(nb.dump(made), "utf8")
    _, changed = run(path)
    outputs = [copy.deepcopy(changed.cells[0].outputs), []]
    del outputs[0][0].data[bitmaps.PNG]                           # as nbval finds it
    assert same_bytes.stored(path.read_text("utf8"), path, outputs) == path.read_text("utf8")

    changed.cells[0].outputs[0].data[bitmaps.PNG] = base64.b64encode(b"another").decode() + "\n"
    path.write_text(nb.dump(changed), "utf8")
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.same_bytes", "--same-bytes", "--nbval",
         "--nbval-current-env", f"--rootdir={tmp_path}", path],
        cwd=style.ROOT, capture_output=True, text=True)
    assert "2 passed, 1 error" in found.stdout and "x.ipynb is another file" in found.stdout
