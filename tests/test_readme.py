"""What the README says is so: its code runs and prints what it promises, its commands exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf8")
PAGES = {name: (ROOT / name).read_text("utf8")
         for name in ("README.md", "CONTRIBUTING.md", "book/index.md")}


def test_the_code_prints_what_its_comment_promises():
    (code,) = re.findall(r"```python\n(.*?)```", README, re.S)
    promised = code.rstrip().rsplit("# ", 1)[1]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == promised == "las casas rojas"


@pytest.mark.parametrize("page", PAGES)
def test_every_make_command_is_a_target(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf8"), re.M))
    used = set(re.findall(r"`make ([a-z-]+)", PAGES[page]))
    assert used and used <= targets


def test_every_file_that_the_readme_links_or_names_exists():
    linked = re.findall(r"\]\(([^)#:]+)\)", README)
    named = re.findall(r"`((?:book|npt_lib|tests|tools)/[\w./-]*)`", README)
    assert len(linked) >= 5
    assert [name for name in (*linked, *named) if not (ROOT / name).exists()] == []


def test_every_chapter_is_in_the_table():
    rows = [int(n) for n in re.findall(r"^\| (\d+) ", README, re.M)]
    assert rows == list(range(1, 11))
