"""The library's page, written from the library: a section a file, in the chapters' order."""

import importlib
import inspect
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = "<!-- the library -->"

# In the order in which the book meets them. A file that is not named here stands with the chapter
# that its first line names; one that names no chapter is an inner part and is left out.
ORDER = (
    "module", "gradcheck", "layers", "attention", "multihead", "feed_forward", "tokenizer",
    "embedding", "norm", "config", "encoder", "decoder", "transformer", "peek", "generate",
    "loss", "optim", "tasks", "checkpoint", "train", "exercises", "plots", "widgets",
)  # fmt: skip
CHAPTER = {"module": 1, "gradcheck": 1, "config": 6, "peek": 9}
TOOLS = {"exercises", "plots", "widgets"}
CHAPTERS = {
    1: "First parts", 2: "Attention", 3: "Heads", 4: "Feed-forward network",
    5: "Tokens and positions", 6: "Encoder block", 7: "Encoder", 8: "Decoder",
    9: "The Transformer", 10: "Training",
}  # fmt: skip
BOOK = 11  # after the chapters: what the notebooks themselves use


def chapter(stem: str) -> int | None:
    """The chapter that a file belongs to; None for an inner part."""
    if stem in TOOLS:
        return BOOK
    doc = importlib.import_module(f"npt_lib.{stem}").__doc__ or ""
    named = re.search(r"[Cc]hapters? (\d+)", doc.split("\n")[0])
    return CHAPTER.get(stem) or (int(named[1]) if named else None)


def page() -> str:
    """The whole page below its introduction: a heading for each chapter, the files under it."""
    there = [p.stem for p in sorted((ROOT / "npt_lib").glob("*.py")) if p.stem != "__init__"]
    files = [m for m in ORDER if m in there] + [m for m in there if m not in ORDER]
    chapters: dict[int, list[str]] = {}
    for stem in files:
        if (number := chapter(stem)) and (text := section(stem)):
            chapters.setdefault(number, []).append(text)
    parts = []
    for number in sorted(chapters):
        name = CHAPTERS.get(number)
        parts += [f"## Chapter {number} · {name}" if name else "## For the notebooks"]
        parts += ["", *chapters[number]]
    return "\n".join(parts)


def members(module) -> list[tuple[str, type | object]]:
    """Public classes and functions: those in __all__, else what the module itself defines."""
    if hasattr(module, "__all__"):
        return [(name, getattr(module, name)) for name in module.__all__]
    own = [
        (name, thing)
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(thing) or inspect.isfunction(thing))
        and thing.__module__ == module.__name__
        and thing.__doc__
    ]
    return sorted(own, key=lambda pair: inspect.getsourcelines(pair[1])[1])


def methods(cls) -> list[str]:
    """Public methods that the class itself defines and explains."""
    return [
        name
        for name, thing in vars(cls).items()
        if not name.startswith("_")
        and (inspect.isfunction(thing) or isinstance(thing, (property, classmethod, staticmethod)))
        and (name in ("forward", "step") or getattr(thing, "__doc__", None))
    ]


def section(stem: str) -> str:
    """One file of the library as Markdown, its members by autodoc."""
    name = f"npt_lib.{stem}"
    module = importlib.import_module(name)
    listed = members(module)
    if not listed:
        return ""
    lines = [f"### `{stem}.py`", ""]
    lines += [paragraph(inspect.getdoc(module) or ""), "", "```{eval-rst}"]
    lines += [f".. py:module:: {name}", f".. py:currentmodule:: {name}", ""]
    for member, thing in listed:
        lines += [f".. auto{'class' if inspect.isclass(thing) else 'function'}:: {member}"]
        if inspect.isclass(thing) and methods(thing):
            lines += [f"   :members: {', '.join(methods(thing))}", "   :undoc-members:"]
        lines += [""]
    return "\n".join([*lines, "```", ""])


def paragraph(text: str) -> str:
    """A module's docstring as Markdown: double backticks become single ones."""
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def write_page(app, docname, source):
    if MARK in source[0]:
        source[0] = source[0].replace(MARK, page())


def plain(app, what, name, obj, options, lines):
    """Docstrings are read as plain text: only ``code`` and line breaks mean something."""
    text = "\n".join(lines)
    parts = re.split(r"(``.+?``)", text, flags=re.S)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"`([^`\n]+)`", r"``\1``", parts[i])
        pieces = re.split(r"(``.+?``)", parts[i], flags=re.S)
        pieces[::2] = [re.sub(r"([*|]|\b_(?=\W|$))", r"\\\1", p) for p in pieces[::2]]
        parts[i] = "".join(pieces)
    lines[:] = "".join(parts).split("\n")


def setup(app):
    app.connect("source-read", write_page)
    app.connect("autodoc-process-docstring", plain)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
