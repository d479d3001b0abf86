"""Exercises in the page say what `check` says, and nothing before."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from npt_lib.book import exercises
from npt_lib.book.exercises import Mistake, predict
from tools.browser import chapter_pages, chromium

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "_ext"))

from book_answers import SCRIPT, field  # noqa: E402

pytestmark = pytest.mark.pages
if chromium() is None:
    pytest.skip("no Chromium on this machine", allow_module_level=True)
pytest.importorskip("playwright")

PREDICTIONS = [entry for chapter in exercises.chapters() for entry in exercises.exercises(chapter)
               if not entry.cases]
OTHERS = [
    predict("1.1", "?", 12, [Mistake("a dozen too many", 24, "Is it counted twice?")]),
    predict("1.2", "?", 0.25, [Mistake("the other half", 0.75, "Which part?")]),
    predict("1.3", "?", True),
    predict("1.4", "?", "cat", [Mistake("the other one", "ball", "Who lost it?")]),
    predict("1.5", "?", (3,)),
    predict("1.6", "?", ((2, 3), (3,))),
    predict("1.7", "?", (0.5, 2)),
    predict("1.8", "?", 0.0),
]
TYPED = {
    "1.1": ["12", "12.0", " 12 ", "7", "24", "13.5", "True", "a cat", "(12,)"],
    "1.2": ["0.25", ".25", "0.25001", "0.2502", "0.75", "0.7501", "0.5", "0.2", "1/4"],
    "1.3": ["true", "True", "False", "3", "yes"],
    "1.4": ["cat", " Cat ", "'cat'", "ball", "dog", "1", "('cat',)", "die Katze"],
    "1.5": ["(3,)", "[3]", "3,", "3", "(4,)", "(3, 1)"],
    "1.6": ["((2, 3), (3,))", "[[2,3],[3]]", "((2, 3), (2,))", "(2, 3), (2, 3)"],
    "1.7": ["(0.5, 2)", "(0.5001, 2)", "(0.51, 2)", "(0.5, 3)"],
    "1.8": ["0", "0.0", "1", "-1"],
}


@pytest.fixture(scope="module")
def page(chrome):
    return chrome.new_page()


def asked(page, entry, typed: str) -> tuple[str, str]:
    """The status, and the words that the page shows for an answer, entered by keyboard."""
    page.fill(f"[data-id='{entry.id}'] input", typed)
    page.press(f"[data-id='{entry.id}'] input", "Enter")
    form = page.locator(f"[data-id='{entry.id}']")
    words = form.locator("[role=status] p").all_text_contents()
    return form.get_attribute("data-status"), " ".join(words)


def said(entry, answer) -> tuple[str, str]:
    verdict = entry.judge(answer)
    return verdict.status, verdict.text.replace("\n", " ")


def value(typed: str):
    """What a reader of the notebook would hand in for it."""
    try:
        return eval(typed.strip().replace("true", "True"), {}, {})
    except (NameError, SyntaxError):
        return typed


def near(right):
    """Wrong answers that are nearly right: of a shape, or of a number."""
    if isinstance(right, tuple):
        return [(*right[:-1], right[-1] + 1), right[:-1] or (9,), (*right, 1), right[0], "seven"]
    return [right + 1, -right, (right,), (right, 1), "seven"]


@pytest.mark.parametrize("entry", PREDICTIONS, ids=lambda entry: entry.id)
def test_the_page_says_of_an_answer_what_check_says(page, entry):
    page.set_content(f"{field(entry)}<script>{SCRIPT}</script>")
    right = entry.expected
    rng = np.random.default_rng(1)
    wrong = [tuple(int(n) for n in rng.integers(1, 9, rng.integers(1, 6))) for _ in range(5)]
    for answer in [right, *(mistake.answer for mistake in entry.mistakes), *wrong, *near(right)]:
        assert asked(page, entry, str(answer)) == said(entry, answer)
    several = right if isinstance(right, tuple) else (right,)
    for typed in (str(list(several)), ",".join(map(str, several)), " × ".join(map(str, several))):
        assert asked(page, entry, typed)[0] == "correct" or len(several) == 1


@pytest.mark.parametrize("entry", OTHERS, ids=lambda entry: str(entry.expected))
def test_the_page_says_of_other_answers_what_check_says(page, entry):
    page.set_content(f"{field(entry)}<script>{SCRIPT}</script>")
    for typed in TYPED[entry.id]:
        if typed == "1/4":
            assert asked(page, entry, typed)[0] == "not yet"
        else:
            assert asked(page, entry, typed) == said(entry, value(typed)), typed


def test_an_empty_field_says_nothing(page):
    page.set_content(f"{field(PREDICTIONS[0])}<script>{SCRIPT}</script>")
    assert asked(page, PREDICTIONS[0], "  ") == (None, "")


def test_the_built_pages_ask_and_do_not_tell(page):
    """Every prediction has its field; no hint, no answer and no *to do* stands in a source."""
    fields = 0
    for entry in PREDICTIONS:
        chapter = next((page for page in chapter_pages()
                        if int(page.name[:2]) == int(entry.id.split(".")[0])), None)
        assert chapter, "run: make book"
        source = chapter.read_text("utf8")
        fields += f'<form class="npt-answer" data-id="{entry.id}"' in source
        for mistake in entry.mistakes:
            assert mistake.question not in source
        assert ": to do." not in source and "run this cell again" not in source
    assert fields == len(PREDICTIONS)


def test_it_works_on_a_built_page(page, root):
    entry = next(entry for entry in PREDICTIONS if entry.id == "2.1")
    page.goto(f"{root}/book/02_attention.html")
    assert asked(page, entry, "(2, 4, 5, 3)") == said(entry, (2, 4, 5, 3))
    field = page.get_by_label("Your answer to 2.1")
    assert field.input_value() == "(2, 4, 5, 3)"
    where = page.locator("details.npt-where").first
    where.locator("summary").click()
    assert "jupyter lab book/02_attention.ipynb" in where.inner_text()
    assert "requirements-beyond" not in where.inner_text()


@pytest.mark.parametrize("chapter", sorted((ROOT / "book" / "beyond").glob("*.ipynb")),
                         ids=lambda path: path.stem)
def test_the_box_of_a_chapter_installs_what_the_chapter_imports(page, root, chapter):
    page.goto(f"{root}/book/beyond/{chapter.stem}.html")
    needs = re.search(r"ml_dtypes|npt-lib\[|mpiexec|safetensors",
                      chapter.read_text("utf8"))
    more = "requirements-beyond.txt" in page.locator("details.npt-where").first.text_content()
    assert more == bool(needs)
