"""The library's pages: the names that the plain pages list, with all their words by autodoc."""

import inspect
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.reference import LIBRARY, members, methods, pair, public

TYPED = re.compile(r'(pip install "[^"]+"|\b\w+="[^"]*")')      # straight quotes stay
LISTED = re.compile(r"<!-- npt_lib\.([\w.]+) -->\n.*?<!-- end -->", re.S)


def described(found: re.Match) -> str:
    """The names of one file, by autodoc."""
    name = f"npt_lib.{found[1]}"
    lines = ["```{eval-rst}", f".. py:module:: {name}", f".. py:currentmodule:: {name}", ""]
    shown = public(found[1])
    inside = [pair for pair in members(found[1]) if pair not in shown]
    for member, thing in shown + inside:
        if inside and (member, thing) == inside[0]:
            lines += [".. rubric:: Inside: used by the library, and not promised to stay", ""]
        lines += [f".. auto{'class' if inspect.isclass(thing) else 'function'}:: {member}"]
        if inspect.isclass(thing) and methods(thing):
            lines += [f"   :members: {', '.join(methods(thing))}", "   :undoc-members:"]
        lines += [""]
    return "\n".join([*lines, "```", ""])


def write_page(app, docname, source):
    if f"{docname.removeprefix('book/')}.md" in LIBRARY:
        source[0] = LISTED.sub(described, source[0])


def plain(app, what, name, obj, options, lines):
    """Docstrings are read as plain text: only ``code`` and line breaks mean something."""
    text = re.sub(r":\w+:(?=`)", "", "\n".join(lines))
    parts = re.split(r"(``.+?``)", text, flags=re.S)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"`([^`\n]+)`", r"``\1``", parts[i])
        parts[i] = re.sub(TYPED, r"``\1``", parts[i])
        pieces = re.split(r"(``.+?``)", parts[i], flags=re.S)
        pieces[::2] = [re.sub(r"([*|]|\b_(?=\W|$))", r"\\\1", p) for p in pieces[::2]]
        parts[i] = "".join(pieces)
    lines[:] = "".join(parts).split("\n")
    if what in ("function", "method") and (returned := pair(obj)):
        lines += ["", f"→ ``{returned}``"]


def called(app, what, name, obj, options, signature, returned):
    """A signature without what no reader could type; none for what nobody makes."""
    if getattr(obj, "_is_protocol", False):
        return "", None
    return signature and re.sub(r"<function [^,)]*>|<factory>", "…", signature), returned


def setup(app):
    app.connect("source-read", write_page)
    app.connect("autodoc-process-docstring", plain)
    app.connect("autodoc-process-signature", called)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
