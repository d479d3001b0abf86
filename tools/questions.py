"""Write each exercise's question above its solution, as it stands in the chapter.

    python tools/questions.py       bring the solutions up to date with the chapters
"""

import os
import re
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.nb import dump, normalise  # noqa: E402
from tools.style import chapters, solutions  # noqa: E402

EXERCISE = re.compile(r"^### Exercise (\S+) · (.+)\n\n((?:.|\n)+)", re.M)
SOLUTION = re.compile(r"^## Solution (\S+)\n\n", re.M)
QUESTION = re.compile(r'<div class="question">\n(?:.|\n)*?\n</div>\n\n')
TO_SOLUTION = re.compile(r"\s*\[Solution\s\S+\]\(\S+\)\s*$")
NEAR = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]+)?\)")


def questions(chapter: Path, folder: Path) -> dict[str, str]:
    """What each exercise asks, with the code that it gives; links start from folder."""
    found = {}
    cells = nbformat.read(chapter, as_version=4).cells
    for i, cell in enumerate(cells):
        exercise = EXERCISE.search(cell.source) if cell.cell_type == "markdown" else None
        if exercise:
            number, kind, text = exercise.groups()
            text = from_folder(TO_SOLUTION.sub("", text), chapter, folder)
            found[number] = (f'<div class="question">\n\n**Exercise {number} · {kind}**\n\n'
                             f"{text}{given(cells[i + 1].source)}\n\n</div>\n\n")
    return found


def from_folder(text: str, chapter: Path, folder: Path) -> str:
    """The same text with links that work from folder, and not from where the chapter is."""
    def move(link: re.Match[str]) -> str:
        target = chapter.parent / link[1] if link[1] else chapter
        return f"]({Path(os.path.relpath(target, folder)).as_posix()}{link[2] or ''})"

    return NEAR.sub(move, text)


def given(code: str) -> str:
    """The function that an exercise begins with, fenced; nothing where the answer is a value."""
    function = code.partition("\n\n\ncheck(")[0]
    return f"\n\n```python\n{function}\n```" if function.startswith("def ") else ""


def asked(text: str, found: dict[str, str]) -> str:
    """A cell of a solution, with the question below its heading."""
    return SOLUTION.sub(lambda m: m[0] + found[m[1]], QUESTION.sub("", text))


def main() -> int:
    for chapter, path in zip(chapters(), solutions(), strict=True):
        found = questions(chapter, path.parent)
        nb = nbformat.read(path, as_version=4)
        for cell in nb.cells:
            if cell.cell_type == "markdown":
                cell.source = asked(cell.source, found)
        path.write_text(dump(normalise(nb)), "utf8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
