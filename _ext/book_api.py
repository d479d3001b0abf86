"""The library's page, written from the library: a section a file, in the chapters' order."""

import importlib
import inspect
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = "<!-- the library -->"

# file: what its section is called beside the name; the order of the book. Others follow by name.
CHAPTERS = {
    "module": "chapter 1", "gradcheck": "chapter 1", "layers": "chapter 1",
    "attention": "chapter 2", "multihead": "chapter 3", "feed_forward": "chapter 4",
    "tokenizer": "chapter 5", "embedding": "chapter 5", "norm": "chapter 6",
    "config": "chapter 6", "encoder": "chapters 6 and 7", "decoder": "chapter 8",
    "transformer": "chapter 9", "generate": "chapters 9 and 10", "loss": "chapter 10",
    "optim": "chapter 10", "tasks": "chapter 10", "checkpoint": "chapter 10",
    "train": "chapter 10", "peek": "looking inside", "plots": "for the book",
    "widgets": "for the book", "exercises": "for the book",
}  # fmt: skip


def modules() -> list[str]:
    """The library's files: in the order of the chapters, then the rest."""
    there = [p.stem for p in sorted((ROOT / "npt_lib").glob("*.py")) if p.stem != "__init__"]
    return [m for m in CHAPTERS if m in there] + [m for m in there if m not in CHAPTERS]


def members(module) -> list[tuple[str, type | object]]:
    """Public classes and functions that the module itself defines, in the order of its source."""
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
    lines = [f"## `{stem}.py`", f"*{CHAPTERS.get(stem, 'besides')}*", ""]
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
        source[0] = source[0].replace(MARK, "\n".join(section(stem) for stem in modules()))


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
