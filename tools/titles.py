"""Write each chapter's title where another page names it: the landing page, and the teachers'.

    python tools/titles.py          bring both up to date with the chapters
"""

import re
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.nb import dump, normalise  # noqa: E402

BOOK = ROOT / "book"
NAMED = re.compile(r"\[\d+ · [^\]]+\]\(((?:beyond/)?\d\d_\w+\.ipynb)\)")


def title(chapter: Path) -> str:
    """What stands behind the # of its first line."""
    first = nbformat.read(chapter, as_version=4).cells[0].source
    return first.split("\n")[0].removeprefix("# ")


def named(text: str) -> str:
    """The same text; each link whose words are a chapter's number and title has today's title."""
    return NAMED.sub(lambda link: f"[{title(BOOK / link[1])}]({link[1]})", text)


def main() -> int:
    teaching, index = BOOK / "teaching.md", BOOK / "index.ipynb"
    teaching.write_text(named(teaching.read_text("utf8")), "utf8")
    nb = nbformat.read(index, as_version=4)
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            cell.source = named(cell.source)
    index.write_text(dump(normalise(nb)), "utf8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
