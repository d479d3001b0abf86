"""Exercises on the page: predictions are answered there, code is written in the notebook.

A notebook's stub, ``check("2.1", shape)``, prints *to do*. On the page that output has no use. The
stub of a prediction becomes a field with a button: ``answers.js`` says what `check` would say.
What it says is locked with the answer that it belongs to, so that no hint stands in the source.
Under the first of the other stubs stands where they are written and checked.
"""

import base64
import html
import json
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
from docutils import nodes
from sphinx.transforms import SphinxTransform

from npt_lib.book.checks.judge import Exercise
from npt_lib.book.checks.prediction import plain, sort
from npt_lib.book.exercises import find

SCRIPT = (Path(__file__).resolve().parent / "answers.js").read_text("utf8")
STUB = re.compile(r'^check\("(\d+\.\d+)",', re.M)
WORD = 0xFFFFFFFF
EXAMPLES = {"a tuple": "a tuple, such as (2, 3)", "a number": "a number",
            "True or False": "True or False", "a word": "a word"}
MORE = "14", "15", "16"         # chapters that need requirements-beyond.txt


def fnv(text: str) -> int:
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 & WORD
    return value


def lock(key: str, content: object) -> str:
    """The content as JSON, unreadable without its key; `unlock` in answers.js is the inverse."""
    state, locked = fnv(key), []
    for byte in json.dumps(content, ensure_ascii=False).encode():
        state = state + 0x6D2B79F5 & WORD
        t = (state ^ state >> 15) * (1 | state) & WORD
        t = t + ((t ^ t >> 7) * (61 | t) & WORD) & WORD ^ t
        locked.append(byte ^ (t ^ t >> 14) & 255)
    return base64.b64encode(bytes(locked)).decode()


def keys(value: object) -> Iterator[str]:
    """Every text under which the page may meet this value: a float within its tolerance."""
    if isinstance(value, tuple):
        if any(isinstance(part, float) for part in value):     # then the page rounds all parts
            value = tuple(float(part) if type(part) is int else part for part in value)
        for parts in product(*(list(keys(part)) for part in value)):
            yield f"({','.join(parts)})"
    elif isinstance(value, float):
        reach = 1e-3 * abs(value) + 1e-9
        near = np.linspace(value - reach, value + reach, 500)
        yield from dict.fromkeys(_four_digits(float(x)) for x in near)
    else:
        yield str(value)


def _four_digits(x: float) -> str:
    if abs(x) < 1e-9:
        return "0.000e+0"
    digits, power = f"{x:.3e}".split("e")
    return f"{digits}e{int(power):+d}"


def locks(exercise: Exercise) -> list[str]:
    """What is said of the right answer and of each known mistake, locked with that answer."""
    answers = [exercise.expected, *(mistake.answer for mistake in exercise.mistakes)]
    said = []
    for answer in answers:
        status, *lines = _said(exercise, answer)
        said += [lock(f"{exercise.id}|{key}", {"status": status, "lines": lines})
                 for key in keys(plain(answer))]
    return said


def _said(exercise: Exercise, answer: object) -> list[str]:
    """The status, and the lines that `check` prints below it, each in one piece."""
    verdict = exercise.judge(answer)
    mistake = next((m for m in exercise.mistakes if m.answer is answer), None)
    return [verdict.status, *(mistake.advice() if mistake else [])]


def form(exercise: Exercise) -> dict:
    """What a wrong answer is measured by: sort, number of parts, each part by its hash alone."""
    expected = plain(exercise.expected)
    known: dict[str, object] = {"sort": sort(expected)}
    if isinstance(expected, tuple):
        known["parts"] = [[fnv(f"{exercise.id}|{i}|{key}") for key in keys(part)]
                          for i, part in enumerate(expected)]
    elif known["sort"] == "a number":
        known["value"] = expected
    return known


def field(exercise: Exercise) -> str:
    """The form in which a prediction is answered."""
    n, example = exercise.id, EXAMPLES[sort(plain(exercise.expected))]
    name = f"answer-{n.replace('.', '-')}"
    return (f'<form class="npt-answer" data-id="{n}" data-form="{lock(n, form(exercise))}" '
            f'data-locks="{" ".join(locks(exercise))}">'
            f'<p class="npt-dead">Scripts are off: answer it in the notebook.</p>'
            f'<label for="{name}">Your answer to {n}</label>'
            f'<span><input id="{name}" type="text" placeholder="{html.escape(example)}" '
            'autocomplete="off" autocapitalize="off" spellcheck="false">'
            '<button type="submit">Check</button></span>'
            '<div role="status"></div></form>')


def where(app, docname: str, several: bool) -> str:
    """Where code is written and checked: two links, or the archive and two commands."""
    what = "Write and check " + ("this and the next in the notebook" if several
                                 else "it in the notebook")
    options = app.config.html_theme_options
    url = (options.get("repository_url") or "").rstrip("/")
    name = f"{docname}.ipynb"
    if "github.com/" in url:
        slug, branch = url.split("github.com/")[1], options.get("repository_branch", "main")
        return (f'<p class="npt-where">{what}: '
                f'<a href="https://colab.research.google.com/github/{slug}/blob/{branch}/{name}">'
                f'open it in Colab</a> or <a href="https://mybinder.org/v2/gh/{slug}/{branch}'
                f'?urlpath=lab/tree/{name}">in Binder</a>.</p>')
    up = "../" * app.builder.get_target_uri(docname).count("/")
    more = " -r requirements-beyond.txt" if Path(docname).name[:2] in MORE else ""
    return (f'<details class="npt-where"><summary>{what}</summary>'
            f'<p>Download <a href="{up}notebooks.zip">the notebooks</a>, unpack them, and in '
            f"their folder run:</p><pre>pip install -r requirements.txt{more}\n"
            f"jupyter lab {name}</pre></details>")


class Answers(SphinxTransform):
    """The stub of a prediction becomes a form; other stubs lose their *to do*."""

    default_priority = 850

    def apply(self, **kwargs):
        written = []
        for exercise, cell, out in list(self.stubs()):
            if exercise.cases:
                written.append(out)
            else:
                cell.replace_self(nodes.raw("", field(exercise), format="html"))
        for out in written[1:]:
            out.parent.remove(out)
        if written:
            said = where(self.app, self.env.docname, several=len(written) > 1)
            written[0].replace_self(nodes.raw("", said, format="html"))

    def stubs(self) -> Iterator[tuple[Exercise, nodes.Element, nodes.Element]]:
        """Each exercise that is still to do, with its cell and the output that says so."""
        for cell in self.document.findall(nodes.container):
            if cell.get("nb_element") != "cell_code":
                continue
            given, out = (next((c for c in cell.children if c.get("nb_element") == kind), None)
                          for kind in ("cell_code_source", "cell_code_output"))
            found = STUB.search(given.astext()) if given and out else None
            if found and ": to do." in out.astext():
                yield find(found[1]), cell, out


def script(app, pagename, templatename, context, doctree):
    """The script stands in pages that have something to answer."""
    if doctree and any("npt-answer" in raw.astext() for raw in doctree.findall(nodes.raw)):
        app.add_js_file(None, body=SCRIPT)


def setup(app):
    app.add_transform(Answers)
    app.connect("html-page-context", script)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
