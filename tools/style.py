"""Measure the chapters against the sizes that BOOK promises its reader, and print the table.

    python tools/style.py [notebook …]

`measure` gives the numbers of one chapter, `judge` what is far out, `hygiene` what no notebook of
the book may hold. tests/test_book_style.py runs all three.
"""

import ast
import json
import re
import statistics
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONG_CHAPTERS = {6, 9, 10, 11, 12, 13, 14, 15, 16}  # allowed more of everything
TAGS = {"nbval-ignore-output", "hide-input", "hide-output", "remove-cell"}
# The second cell of every notebook, not shown in the pages: where the library is missing, it is
# installed from the public address; while none is set in _config.yml, the cell says what to do.
GUARD_START = """\
# Everything below needs the book's own package.
from importlib.util import find_spec

if find_spec("npt_lib") is None:
"""


def public_source() -> str:
    """What pip installs the library from; empty while repository_url in _config.yml is."""
    config = (ROOT / "_config.yml").read_text("utf8")
    url, branch = (re.search(rf"^ *{key}: *\"?([^\"\s]*)", config, re.M)[1]
                   for key in ("repository_url", "repository_branch"))  # fmt: skip
    return source_at(url, branch)


def source_at(url: str | None, branch: str) -> str:
    return f"npt-lib[book] @ git+{url.rstrip('/')}@{branch}" if url else ""


def guard(source: str) -> str:
    """The guard cell, with what pip installs from or without."""
    if source:
        return f'{GUARD_START}    %pip install -q "{source}"'
    return f"""{GUARD_START}    raise SystemExit("npt_lib is missing here. In the folder of the "
                     "repository, run: pip install -e .")"""


def is_guard(source: str) -> bool:
    return source.startswith(GUARD_START)


GUARD = guard(public_source())

COLUMNS, LINES = 88, 30

# what each chapter's headings start with; the first two and the last three stand in this order
SECTIONS = (
    "The question", "The map", "By hand", "The idea", "All at once", "Look", "Trap",
    "The way back", "The finished version", "A property", "Recap", "Exercises", "Further reading",
)  # fmt: skip

NUMBERED = {
    "equation": r"\\tag\{([\d.]+)\}",
    "figure": r"^\*\*Figure (\d+\.\d+)\.",
    "exercise": r"^### Exercise (\S+)",
}
REFUSED = {
    "a directive or role": r"^:::.*|\{[\w:]+\}`[^`]*`",
    "an image without alt text": r"!\[\s*\]\([^)]*\)",
    "a remote image": r"!\[[^\]]*\]\(\s*(?:https?:)?//[^)]*\)",
    "raw HTML beyond details": r"<(?:img|script|iframe|style)\b[^>]*>",
    "a sentence that Markdown takes for a list": r"(?:\A|\n[ ]*\n)(?:0|[2-9]|\d{2,})[.)] .*",
    "a promise put off": r"(?i)\b(?:todo|fixme|lorem ipsum|coming soon)\b",
    "emoji": r"[\U0001F000-\U0001FAFF\u2705\u274C\u26A0]",
}

# measure: what is aimed at, and what is far out (low, high), for other chapters and the long ones
SIZES = {
    "words": ("2000-2800", (1200, 2800), (1200, 3500)),
    "code cells": ("24-32", (15, 48), (15, 60)),
    "median lines": ("<= 6", (1, 9), (1, 9)),
    "lines, 9 in 10": ("<= 15", (1, 20), (1, 20)),
    "longest cell": ("<= 30", (1, LINES), (1, LINES)),
    "widest line": ("<= 70", (1, COLUMNS), (1, COLUMNS)),
    "words per code cell": ("75-100", (45, 150), (45, 150)),
    "code after code, %": ("<= 10", (0, 15), (0, 15)),
    "equations": ("4-10", (3, 15), (6, 27)),
    "figures": ("5-9", (4, 16), (4, 16)),
    "explorers": (">= 1", (1, 5), (1, 5)),
    "exercises": ("5, long 6", (5, 7), (6, 8)),
    "predictions": (">= 2", (2, 15), (2, 15)),
    "not compared, %": ("<= 10", (0, 10), (0, 10)),
}


def load(path: Path) -> list[dict]:
    return json.loads(path.read_text("utf8"))["cells"]


def number(path: Path) -> int:
    return int(path.name[:2])


def source(cell: dict) -> str:
    return "".join(cell["source"])


def prose(cells: list[dict]) -> str:
    """All Markdown of a notebook, without fenced code."""
    text = "\n\n".join(source(c) for c in cells if c["cell_type"] == "markdown")
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def words(text: str) -> int:
    """Words of prose: no displayed formulas, tables, markup or line of chapters; $…$ is one."""
    text = re.sub(r'^<a id="chapters">.*$', " ", text, flags=re.M)
    text = re.sub(r"\$\$.*?\$\$", " ", text, flags=re.S)
    text = re.sub(r"^\|.*$", " ", text, flags=re.M)
    text = re.sub(r"\$[^$\n]+\$", "x", text)
    text = re.sub(r"\]\([^)]*\)", " ", re.sub(r"<[^>\n]+>", " ", text))
    return len(re.findall(r"[\w'’-]*\w[\w'’-]*", text))


def outputs(cell: dict) -> str:
    return json.dumps(cell.get("outputs", []))


def has_figure(cell: dict) -> bool:
    data = [out.get("data", {}) for out in cell.get("outputs", [])]
    return any("image/svg+xml" in d or "<svg" in "".join(d.get("text/html", [])) for d in data)


def has_explorer(cell: dict) -> bool:
    return "npt-frame" in outputs(cell)


def measure(path: Path) -> dict[str, float]:
    """The numbers of one chapter, under the names in SIZES."""
    cells = [c for c in load(path) if not is_guard(source(c))]
    code = [c for c in cells if c["cell_type"] == "code"]
    lines = [len([x for x in source(c).split("\n") if x.strip()]) for c in code]
    text = prose(cells)
    kinds = [c["cell_type"] for c in cells]
    follow = sum(a == b == "code" for a, b in pairwise(kinds))
    exempt = sum("nbval-ignore-output" in c["metadata"].get("tags", []) for c in code)
    figures = sum(has_figure(c) or has_explorer(c) for c in code)
    return {
        "words": words(text),
        "code cells": len(code),
        "median lines": statistics.median(lines),
        "lines, 9 in 10": sorted(lines)[int(0.9 * (len(lines) - 1))],
        "longest cell": max(lines),
        "widest line": max(len(x) for c in code for x in source(c).split("\n")),
        "words per code cell": round(words(text) / len(code)),
        "code after code, %": round(100 * follow / len(code)),
        "equations": len(re.findall(r"^\$\$", text, flags=re.M)) // 2,
        "figures": figures + len(re.findall(r"!\[", text)),
        "explorers": sum(has_explorer(c) for c in code),
        "exercises": len(re.findall(r"^### Exercise \d+\.\d+", text, flags=re.M)),
        "predictions": len(re.findall(r"^> \*\*Predict\.\*\*", text, flags=re.M)),
        "not compared, %": round(100 * exempt / len(code), 1),
    }


def judge(path: Path) -> list[str]:
    """What is far out in a chapter: sizes, and the skeleton's sections."""
    faults = []
    for name, value in measure(path).items():
        low, high = bounds(path, name)
        if not low <= value <= high:
            faults.append(f"{name}: {value}, allowed {low} to {high}")
    return faults + predictions(path) + drawings(path) + skeleton(path)


def bounds(path: Path, name: str) -> tuple[float, float]:
    """The least and the most that a chapter may have of something."""
    long = LONG_CHAPTERS | {1} if name == "words" else LONG_CHAPTERS
    return SIZES[name][1:][number(path) in long]


def predictions(path: Path) -> list[str]:
    """Predictions whose answer can be read before the reader has made a bet."""
    cells, faults = load(path), []
    for i, cell in enumerate(cells):
        if cell["cell_type"] == "markdown":
            asked = re.split(r"^> \*\*Predict\.\*\*", source(cell), flags=re.M)[1:]
            for n, text in enumerate(asked, 1):
                fault = unfolded(cells[i + 1:]) if n == len(asked) else "has no fold"
                if "<details>" not in text and fault:
                    faults.append(f"a prediction {fault}: {text.strip().splitlines()[0]}")
    return faults


def unfolded(after: list[dict]) -> str:
    """What gives an answer away in the cells after a question, up to the fold that holds it."""
    for cell in after:
        if cell["cell_type"] == "markdown":
            return "" if "<details>" in source(cell) else "has no fold"
        tags = cell["metadata"].get("tags", [])
        if "hide-input" not in tags and (told := descriptions(source(cell))):
            return f"is answered by alt={told[0]!r} in visible code"
        if "hide-output" in tags:
            return ""
    return "has no fold"


def descriptions(code: str) -> list[str]:
    """Descriptions of figures that stand in code word for word."""
    keys = [n.value for n in ast.walk(ast.parse(code))
            if isinstance(n, ast.keyword) and n.arg == "alt"]  # fmt: skip
    return [v.value for v in keys if isinstance(v, ast.Constant) and isinstance(v.value, str)]


def drawings(path: Path) -> list[str]:
    """Visible cells that only draw: nothing they make is used again, and nothing is printed."""
    code = [c for c in load(path) if c["cell_type"] == "code" and not is_guard(source(c))]
    trees = [ast.parse(source(c)) for c in code]
    faults = []
    for i, cell in enumerate(code):
        later = {n.id for tree in trees[i + 1:] for n in ast.walk(tree) if isinstance(n, ast.Name)}
        drawn = (has_figure(cell) or has_explorer(cell)) and not made(trees[i]) & {*later, "print"}
        if drawn and "hide-input" not in cell["metadata"].get("tags", []):
            faults.append(f"code that only draws is not tagged hide-input: {first_line(cell)}")
    return faults


def made(tree: ast.Module) -> set[str]:
    """The names that a cell binds, and print where it calls that."""
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)
             and (isinstance(n.ctx, ast.Store) or n.id == "print")}  # fmt: skip
    names |= {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    imports = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
    return names | {alias.asname or alias.name for n in imports for alias in n.names}


def first_line(cell: dict) -> str:
    return source(cell).strip().split("\n")[0]


def skeleton(path: Path) -> list[str]:
    """Whether the chapter has the skeleton's headings, numbers in order, and five bullets."""
    cells, n = load(path), number(path)
    text = prose(cells)
    faults = []
    title = source(cells[0])
    if not re.match(rf"# {n} · [^:\n]+: \S", title):
        faults.append(f"the title is not '# {n} · Subject: what the chapter does'")
    for lead in ("You will build", "You need", "Time"):
        if f"**{lead}**" not in title:
            faults.append(f"the first cell lacks **{lead}**")
    heads = re.findall(r"^## (.+)$", text, flags=re.M)
    kinds = [next((s for s in SECTIONS if re.match(rf"{s}\b", h)), None) for h in heads]
    faults += [f"no section '## {s}'" for s in SECTIONS if s not in kinds]
    if tuple(kinds[:2]) != SECTIONS[:2] or tuple(kinds[-3:]) != SECTIONS[-3:]:
        faults.append("the first two and the last three sections are not the skeleton's")
    recap = re.search(r"^## Recap\n(.*?)^## ", text, flags=re.M | re.S)
    if recap and (found := len(re.findall(r"^- ", recap[1], flags=re.M))) != 5:
        faults.append(f"the recap has {found} bullets, not 5")
    for exercise in re.findall(r"^### Exercise (\S+)", text, flags=re.M):
        if f"#Solution-{exercise})" not in text:
            faults.append(f"exercise {exercise} has no link to its solution")
        if not any(f'check("{exercise}"' in source(c) for c in cells if c["cell_type"] == "code"):
            faults.append(f"exercise {exercise} has no check")
    for what, pattern in NUMBERED.items():
        found = re.findall(pattern, text, flags=re.M)
        if found != [f"{n}.{i}" for i in range(1, len(found) + 1)]:
            faults.append(f"{what} numbers are not {n}.1, {n}.2, …: {', '.join(found)}")
    return faults


def hygiene(path: Path) -> list[str]:
    """What no notebook may hold, chapters and solutions alike."""
    cells = load(path)
    faults, text = [], prose(cells)
    if [source(c) for c in cells[1:2]] != [GUARD]:
        faults.append("the second cell must be the guard: GUARD in tools/style.py")
    for cell in cells:
        tags = set(cell["metadata"].get("tags", []))
        first = first_line(cell)
        if tags - TAGS:
            faults.append(f"tags {sorted(tags - TAGS)} are not used in this book: {first}")
        if cell["cell_type"] == "code":
            faults += code_faults(cell, first)
    for what, pattern in REFUSED.items():
        faults += [f"{what}: {x}" for x in re.findall(pattern, text, flags=re.M)]
    for found in re.finditer(r"\[([^\]]+)\]\(([^)\s]*)#(eq|fig)-([\d.]+)\)", text):
        if found[4] not in found[1]:
            faults.append(f"the link says '{found[1]}' and leads to {found[3]}-{found[4]}")
    faults += broken_links(path, text)
    return faults


def code_faults(cell: dict, first: str) -> list[str]:
    faults, lines = [], source(cell).split("\n")
    if len([x for x in lines if x.strip()]) > LINES:
        faults.append(f"a cell above {LINES} lines: {first}")
    if wide := [x for x in lines if len(x) > COLUMNS]:
        faults.append(f"a line above {COLUMNS} columns: {wide[0]}")
    if source(cell).rstrip().endswith(";"):
        faults.append(f"a trailing ; (assign the value instead): {first}")
    shown = outputs(cell).replace('\\"', '"')
    for svg in re.findall(r"<svg\b[^>]*>", shown):
        if not re.search(r'aria-label="[^"]+|aria-hidden="true"', svg):
            faults.append(f"a drawing without a description: {first}")
    for img in re.findall(r"<img\b[^>]*>", shown):
        if not re.search(r'alt="[^"]+', img):
            faults.append(f"an image without alt text: {first}")
    if re.search(r'(?:src|href)="(?:https?:)?//|<script(?! type="text/html")', shown):
        faults.append(f"an output that loads from elsewhere or runs a script: {first}")
    return faults


def broken_links(path: Path, text: str) -> list[str]:
    """Relative links to files that are not there, and to papers that are not in references.bib."""
    bib = (ROOT / "book" / "references.bib").read_text("utf8")
    keys, faults = set(re.findall(r"^@\w+\{([^,\s]+),", bib, flags=re.M)), []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        name, _, anchor = target.partition("#")
        if not name or re.match(r"[a-z]+:", name):
            continue
        if not (path.parent / name).is_file():
            faults.append(f"a link to a file that is not there: {target}")
        if Path(name).name == "references.md" and anchor and anchor not in keys:
            faults.append(f"a citation that references.bib does not know: {anchor}")
    return faults


def duplicates(paths: list[Path]) -> list[str]:
    """Exercises that are numbered twice in the book."""
    found = Counter(
        x for p in paths for x in re.findall(r"^### Exercise (\S+)", prose(load(p)), flags=re.M)
    )
    return [f"exercise {x} occurs {n} times" for x, n in found.items() if n > 1]


def table(paths: list[Path]) -> str:
    """The measures of all chapters, one row a measure; what is far out is marked with !"""
    measured = [measure(p) for p in paths]
    head = ["", "target", *(p.name[:2] for p in paths)]
    rows = [head]
    for name, (target, *_) in SIZES.items():
        row = [name, target]
        for path, values in zip(paths, measured):
            low, high = bounds(path, name)
            row.append(f"{values[name]:g}" + ("" if low <= values[name] <= high else "!"))
        rows.append(row)
    widths = [max(len(r[i]) for r in rows) for i in range(len(head))]
    lines = []
    for first, target, *values in rows:
        cells = [value.rjust(width) for value, width in zip(values, widths[2:])]
        lines.append("  ".join([first.ljust(widths[0]), target.ljust(widths[1]), *cells]))
    return "\n".join(lines)


def chapters() -> list[Path]:
    """The ten, then those beyond them."""
    return [*ten(), *sorted((ROOT / "book" / "beyond").glob("[01][0-9]_*.ipynb"))]


def ten() -> list[Path]:
    return sorted((ROOT / "book").glob("[01][0-9]_*.ipynb"))


def solutions() -> list[Path]:
    return sorted((ROOT / "book" / "solutions").glob("*.ipynb"))


def main(argv: list[str]) -> int:
    named = [Path(a).resolve() for a in argv]
    mine = [p for p in named if p in chapters()] if named else chapters()
    failed = False
    if mine:
        print(table(mine))
    for path in named or [*chapters(), *solutions()]:
        faults = (judge(path) if path in mine else []) + hygiene(path)
        for fault in faults:
            failed = True
            print(f"{path.parent.name}/{path.name}: {fault}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
