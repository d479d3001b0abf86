"""Links of a notebook in two forms: as a writer writes them, and as they work in any viewer.

A writer links to a paper by its key, to a section by its heading, and numbers equations and
figures; CONTRIBUTING.md says how. A stored notebook holds the same links so that JupyterLab,
GitHub and Colab can follow them: a paper by its address, and an anchor in front of each
equation, figure and section that is linked to. `linked` writes this form, and leaves a notebook
that has it unchanged; `written` goes back, and is what the site is built from.
"""

import json
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIB = ROOT / "book" / "references.bib"
BELOW = ("solutions", "beyond")            # the folders of notebooks in book/
CHAPTERS = "chapters"                      # the anchor of the line that leads to each chapter

ANCHOR = re.compile(r'<a id="[^"\n]+"></a>\n*')
EQUATION = re.compile(r"^\$\$\n(?:(?!\$\$).*\n)*?.*\\tag\{.*\n(?:(?!\$\$).*\n)*?\$\$$", re.M)
FIGURE = re.compile(r"^\*\*Figure (\d+\.\d+)\.", re.M)
HEADING = re.compile(r"^#{2,6} (.+)$", re.M)
CITED = re.compile(r"\]\((?:\.\./)?references\.md#([^)\s]+)\)")
WITHIN = re.compile(r"\]\(#([^)\s]+)\)")
LINE = re.compile(rf'<a id="{CHAPTERS}"></a>.*\n*')


@cache
def papers() -> dict[str, str]:
    """The address of every paper in references.bib, by its key."""
    entries = re.split(r"\n(?=@)", BIB.read_text("utf8"))[1:]
    fields = [dict(re.findall(r"^\s*(url|doi)\s*=\s*\{(.+)\},?$", e, re.M)) for e in entries]
    keys = [re.match(r"@\w+\{([^,\s]+),", e)[1] for e in entries]
    return {key: address(found) for key, found in zip(keys, fields, strict=True)}


def address(fields: dict[str, str]) -> str:
    """Where a paper is: its address, else its DOI; safe inside a Markdown link."""
    if "url" not in fields and "doi" not in fields:
        return ""
    where = fields.get("url") or f"https://doi.org/{fields['doi']}"
    return where.replace("(", "%28").replace(")", "%29")


def slug(heading: str) -> str:
    """The anchor that JupyterLab gives to a heading, and the site too."""
    return re.sub(r"[`*]", "", heading.strip()).replace(" ", "-")


def outside_code(change, text: str) -> str:
    """The text with its prose changed and its fenced code as it was."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)
    return "".join(part if i % 2 else change(part) for i, part in enumerate(parts))


# as it is written


def written(texts: list[str], path: Path) -> list[str]:
    """The Markdown cells of a notebook without anchors, papers by key, sections by heading."""
    sections = {}
    for text in texts:
        sections |= {name: slug(heading) for name, heading in
                     re.findall(r'<a id="([^"\n]+)"></a>\n+#{2,6} (.+)', text)}  # fmt: skip
    keys = {where: key for key, where in papers().items() if where}
    up = "../" if path.parent.name in BELOW else ""

    def change(text: str) -> str:
        text = ANCHOR.sub("", LINE.sub("", text))
        text = WITHIN.sub(lambda m: f"](#{sections.get(m[1], m[1])})", text)
        return re.sub(r"\]\((https?://[^)\s]+)\)", lambda m: f"]({cite(m[1])})", text)

    def cite(where: str) -> str:
        return f"{up}references.md#{keys[where]}" if where in keys else where

    return [outside_code(change, text).rstrip() for text in texts]


# as any viewer can follow it


def linked(texts: list[str], path: Path, places: list[int]) -> list[str]:
    """The Markdown cells with anchors and addresses; places are their numbers in the notebook."""
    texts = written(texts, path)
    named = {m for text in texts for m in WITHIN.findall(text)}
    sections = {slug(h): unique(slug(h), path) for text in texts for h in HEADING.findall(text)
                if slug(h) in named}  # fmt: skip
    texts = [outside_code(lambda part: anchored(part, sections), text) for text in texts]
    return with_map(with_figures(texts, places), path)


def unique(section: str, path: Path) -> str:
    """A name for a section that no other notebook has, for two may be open in JupyterLab."""
    prefix = path.stem.split("_")[0] + ("s" if path.parent.name == "solutions" else "")
    return f"{prefix}-{re.sub(r'[^A-Za-z0-9-]', '', section)}"


def anchored(text: str, sections: dict[str, str]) -> str:
    """Anchors in front of equations and of the sections that are linked to; papers by address."""
    def mark(found: re.Match) -> str:
        numbers = re.findall(r"\\tag\{([\d.]+)\}", found[0])
        return "".join(f'<a id="eq-{n}"></a>' for n in numbers) + f"\n\n{found[0]}"

    def head(found: re.Match) -> str:
        name = sections.get(slug(found[1]))
        return f'<a id="{name}"></a>\n\n{found[0]}' if name else found[0]

    text = HEADING.sub(head, EQUATION.sub(mark, text))
    text = WITHIN.sub(lambda m: f"](#{sections.get(m[1], m[1])})", text)
    return CITED.sub(lambda m: f"]({papers().get(m[1])})" if papers().get(m[1]) else m[0], text)


def with_figures(texts: list[str], places: list[int]) -> list[str]:
    """An anchor for each figure: before the cell that draws it, else before its caption."""
    texts = list(texts)
    for i, text in enumerate(texts):
        caption = FIGURE.match(text)
        if caption and i and places[i] - places[i - 1] == 2:
            texts[i - 1] += f'\n\n<a id="fig-{caption[1]}"></a>'
        else:
            texts[i] = FIGURE.sub(r'<a id="fig-\1"></a>\n\g<0>', text)
    return texts


def with_map(texts: list[str], path: Path) -> list[str]:
    """A line under the heading of the map that leads where its drawing leads on the site."""
    book = path.parent.parent if path.parent.name in BELOW else path.parent
    ten, beyond = (sorted(folder.glob("[01][0-9]_*.ipynb")) for folder in (book, book / BELOW[1]))
    if path not in [*ten, *beyond]:
        return texts
    up = "" if path.parent == book else "../"
    numbers = {other: str(int(other.name[:2])) for other in [*ten, *beyond]}
    line = " · ".join(n if other == path else f"[{n}]({up}{other.relative_to(book)})"
                      for other, n in numbers.items())
    line = f'<a id="{CHAPTERS}"></a>To a chapter: {line} · [contents]({up}contents.md)'
    return [re.sub(r"^## The map.*$", f"\\g<0>\n\n{line}", t, count=1, flags=re.M) for t in texts]


# whole notebooks


def rewrite(cells: list, change) -> None:
    """Put what `change` makes of the Markdown cells in their place."""
    places = [i for i, cell in enumerate(cells) if cell["cell_type"] == "markdown"]
    texts = ["".join(cells[i]["source"]) for i in places]
    for i, text in zip(places, change(texts, places), strict=True):
        cells[i]["source"] = text


def astray(cells: list) -> list[str]:
    """The anchors that a stored notebook links to and does not have."""
    prose = [c["source"] for c in cells if c["cell_type"] == "markdown"]
    prose = [re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S) for text in prose]
    there = {m for text in prose for m in re.findall(r'<a id="([^"\n]+)"></a>', text)}
    return [m for text in prose for m in WITHIN.findall(text) if m not in there]


def to_stored(cells: list, path: Path) -> None:
    rewrite(cells, lambda texts, places: linked(texts, path, places))


def to_written(notebook: str, path: Path) -> str:
    """A stored notebook as its writer wrote it."""
    loaded = json.loads(notebook)
    rewrite(loaded["cells"], lambda texts, _: written(texts, path))
    return json.dumps(loaded)
