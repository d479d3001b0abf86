"""What README, CONTRIBUTING and the book's front pages say is so: code runs, commands exist."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import npt_lib as npt
from npt_lib.book.exercises import judge
from tools import style

ROOT = Path(__file__).resolve().parent.parent


def text(name: str) -> str:
    """A page's Markdown."""
    written = (ROOT / name).read_text("utf8")
    if not name.endswith(".ipynb"):
        return written
    cells = json.loads(written)["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


NAMES = ("README.md", "CONTRIBUTING.md", "book/index.ipynb", "book/teaching.md")
PAGES = {name: text(name) for name in NAMES}
README, CONTRIBUTING = PAGES["README.md"], PAGES["CONTRIBUTING.md"]
MAKEFILE = (ROOT / "Makefile").read_text("utf8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.M))
# files in commands that stand for the reader's own
EXAMPLES = {"book/NN_x.ipynb", "book/NN_x.html", "book/NN_*.ipynb", "book/solutions/NN_*.ipynb",
            "mark.py"}
each_page = pytest.mark.parametrize("page", NAMES)


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGES[page], re.S)


def test_the_code_prints_what_its_comment_promises():
    _, code = python_blocks("README.md")
    promised = code.rstrip().rsplit("# ", 1)[1]
    every_phrase = """
english, spanish = zip(*task.test)
said = task.tgt_tokenizer.decode_batch(npt.greedy(model, task.encode_sources(english), max_len=8))
print(len(said), np.mean([a == b for a, b in zip(said, spanish, strict=True)]))
"""
    done = subprocess.run([sys.executable, "-c", code + every_phrase], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    translated, held_out = done.stdout.splitlines()
    assert translated == promised == "las casas rojas"
    count, share = held_out.split()
    assert f"Of the {int(count):,} held-out phrases it gets more than 99 %" in README
    assert float(share) > 0.99


def test_the_layer_on_the_first_screen_is_right():
    layer_code, _ = python_blocks("README.md")
    names: dict = {}
    exec(layer_code, names)
    layer = npt.Linear(4, 3, np.random.default_rng(0)).astype(np.float64)
    layer.b.value[...] = np.arange(3)
    x, dy = np.random.default_rng(1).normal(size=(5, 4)), np.ones((5, 3))
    found = []
    for forward in (layer.forward, lambda x: names["forward"](layer, x)):
        layer.zero_grad()
        y, backward = forward(x)
        found.append([y, backward(dy), layer.W.grad, layer.b.grad])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_the_example_of_an_exercise_works():
    (code,) = python_blocks("CONTRIBUTING.md")
    names: dict = {}
    exec(code, names)
    (exercise,) = names["EXERCISES"]
    assert exercise.judge(names["weights"]).status == "correct"
    assert exercise.judge(None).status == "to do"
    assert len(exercise.mistakes) == 2
    for mistake in exercise.mistakes:
        verdict = exercise.judge(mistake.answer)
        assert verdict.status == "not yet" and mistake.name in " ".join(verdict.text.split())


def test_the_example_of_marking_works(tmp_path, monkeypatch, capsys):
    """Hand-ins with an error, a kernel nobody has, a dead kernel, and no notebook at all.

    None keeps those after it from being marked. And the single answer told below.
    """
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    start = "from npt_lib.book.exercises import check"
    hand_ins = {"ada": [start, 'check("2.1", ...)', 'check("2.2", (2, 8, 5, 7))'],
                "ben": [start, "1 / 0", 'check("2.2", (8, 5, 7))'],
                "cleo": [start, "import os; os._exit(1)", 'check("2.2", (2, 8, 5, 7))'],
                "eve": [start, 'check("2.2", (2, 8, 5, 7))']}
    (tmp_path / "hand_ins").mkdir()
    (tmp_path / "hand_ins" / "dan.ipynb").write_text("no notebook", "utf8")
    for student, cells in hand_ins.items():
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
        notebook.metadata.kernelspec = {"name": "of-ones-own", "display_name": "My own"}
        nbformat.write(notebook, tmp_path / "hand_ins" / f"{student}.ipynb")
    monkeypatch.chdir(tmp_path)
    (code,) = python_blocks("book/teaching.md")
    exec(code, {})
    assert capsys.readouterr().out.splitlines() == [
        "student,exercise,verdict", "ada,2.1,to do", "ada,2.2,correct", "ben,2.2,not yet",
        "cleo,all,DeadKernelError", "dan,all,NotJSONError", "eve,2.2,correct"]
    (single,) = re.findall(r"`(judge\(.*\))\.status`", PAGES["book/teaching.md"])
    assert eval(single, {"judge": judge}).status == "not yet"


def test_the_example_of_a_case_is_one():
    (line,) = re.findall(r"^ {4,}(Case\(.*\))$", CONTRIBUTING, re.M)
    packed = re.sub(r"\s+", "", (ROOT / "tests/cases.py").read_text("utf8"))
    assert re.sub(r"\s+", "", line) in packed


def test_there_is_no_other_code():
    """A block in another language, or untested, would be a promise that nothing keeps."""
    for page, count in {"README.md": 2, "CONTRIBUTING.md": 1, "book/teaching.md": 1,
                        "book/index.ipynb": 0}.items():
        assert len(re.findall(r"^```\w", PAGES[page], re.M)) == count


@each_page
def test_every_make_command_is_a_target(page):
    used = set(re.findall(r"`make ([a-z-]+)", PAGES[page]))
    assert used <= TARGETS
    assert used or page == "book/teaching.md"


@pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")
@pytest.mark.parametrize("target", sorted(TARGETS))
def test_make_knows_how(target):
    """Make reads its file and finds all that the target depends on; nothing is run."""
    done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_make_help_lists_every_target():
    listed = set(re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.M))
    assert listed == TARGETS


@each_page
def test_commands_name_files_that_are_there(page):
    """Programs of the repository, and their arguments, in any command between backticks."""
    commands = re.findall(r"`((?:\.venv\S*/)?(?:python|bash) [^`]+)`", PAGES[page])
    commands += re.findall(r"NB=(\S+)`", PAGES[page])
    files = [word for line in commands for word in line.split() if re.search(r"\w/\w|\.py$", word)]
    files = [name for name in files if not name.startswith(".venv")]
    assert [f for f in files if f not in EXAMPLES and not (ROOT / f).exists()] == []


def test_the_way_without_make_is_the_makefiles():
    (block,) = re.findall(r"```\n(python -m venv.*?)```", README, re.S)
    programs = re.findall(r"\.venv\\Scripts\\(\S+)", block)
    assert programs == ["pip", "jupyter-book", "python", "python"]
    (pytest_line,) = (line for line in block.splitlines() if "pytest" in line)
    nbval = re.findall(r"^NBVAL.*:= (.*)$", MAKEFILE, re.M)[0].split()
    options = set(re.findall(r"--nbval\S*", pytest_line))
    assert options == set(nbval) - {"--nbval-cell-timeout=900"}


@pytest.mark.parametrize("command", [
    ["tools/style.py", "book/01_introduction.ipynb"],
    ["tools/nb.py", "check", "book/index.ipynb"],
    ["tools/shot.py", "--help"],
], ids=lambda command: command[0])
def test_the_tools_run_as_described(command):
    if command[0] != "tools/style.py":
        pytest.importorskip("nbformat")
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@each_page
def test_every_file_that_is_linked_or_named_exists(page):
    """The build checks anchors in the book's pages; README and CONTRIBUTING are not part of it."""
    plain = re.sub(r"`[^`]*`|^ {4}.*$", "", PAGES[page], flags=re.M)
    linked = [t for t in re.findall(r"\]\(([^)#\s]+)", plain) if not re.match(r"[a-z]+:", t)]
    folder = (ROOT / page).parent
    assert [t for t in linked if not (folder / t).exists()] == []
    folders = r"book|npt_lib|tests|tools|_ext|_static|\.ci|\.binder|\.github"
    named = re.findall(rf"`((?:{folders})/[\w./-]*)`", PAGES[page])
    assert [t for t in named if t not in EXAMPLES and not (ROOT / t).exists()] == []
    assert len(linked) + len(named) >= 5


def test_every_chapter_is_in_the_table():
    rows = [int(n) for n in re.findall(r"^\| (\d+) ", README, re.M)]
    assert rows == [style.number(path) for path in style.chapters()]


def test_no_page_names_an_address():
    """Until repository_url is set there is none to name."""
    config = (ROOT / "_config.yml").read_text("utf8")
    if 'repository_url: ""' in config:
        for page in NAMES:
            assert not re.search(r"https?://(?!localhost)", PAGES[page]), page
