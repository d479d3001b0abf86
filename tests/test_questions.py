"""Each solution begins with its question, as the chapter asks it."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.questions import asked, questions
from tools.style import chapters, solutions

PAIRS = list(zip(chapters(), solutions(), strict=True))


@pytest.mark.parametrize(("chapter", "path"), PAIRS, ids=lambda path: path.stem)
def test_every_question_stands_above_its_solution(chapter, path):
    found = questions(chapter, path.parent)
    cells = [cell.source for cell in nbformat.read(path, as_version=4).cells
             if cell.cell_type == "markdown"]
    assert [cell for cell in cells if asked(cell, found) != cell] == []
    assert "".join(cells).count('<div class="question">') == len(found) >= 5


def test_a_question_keeps_its_links_and_the_code_that_it_gives(tmp_path):
    chapter = tmp_path / "02_attention.ipynb"
    nbformat.write(new_notebook(cells=[
        new_markdown_cell("## Exercises\n\n### Exercise 2.1 · Code\n\nBy [(2.5)](#eq-2.5), "
                          "[this](notes.md#a) and [that](https://doi.org/1).\n[Solution\n2.1](a#b)"),
        new_code_cell('def f(x):\n    ...\n\n\ncheck("2.1", f)'),
        new_markdown_cell("### Exercise 2.2 · Predict the number\n\nWhich? [Solution 2.2](a#c)"),
        new_code_cell('n = ...\n\ncheck("2.2", n)')]), chapter)
    found = questions(chapter, tmp_path / "solutions")
    assert found["2.1"] == (
        '<div class="question">\n\n**Exercise 2.1 · Code**\n\nBy [(2.5)](../02_attention.ipynb'
        "#eq-2.5), [this](../notes.md#a) and [that](https://doi.org/1).\n\n"
        "```python\ndef f(x):\n    ...\n```\n\n</div>\n\n")
    assert found["2.2"] == ('<div class="question">\n\n**Exercise 2.2 · Predict the number**\n\n'
                            "Which?\n\n</div>\n\n")


def test_a_question_is_put_below_its_heading_once():
    found = {"2.1": '<div class="question">\n\nNew.\n\n</div>\n\n'}
    text = "## Solution 2.1\n\nBecause."
    once = asked(text, found)
    assert once == '## Solution 2.1\n\n<div class="question">\n\nNew.\n\n</div>\n\nBecause.'
    assert asked(once.replace("New.", "Old."), found) == once
