"""Formulas, set while the pages are built: drawings for the eye, MathML for screen readers.

MathJax (from the wheel sphinx-mathjax-offline) runs in QuickJS (the wheel quickjs-ng), so that a
page needs neither scripts nor fonts for its formulas and shows them at its first paint.
"""

import importlib.util
import re
from functools import cache
from pathlib import Path

import quickjs
from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

HERE = Path(__file__).resolve().parent
STYLES = HERE.parent / "_build" / "local" / "mathjax.css"
PARTS = ("loader.js", "core.js", "adaptors/liteDOM.js", "input/tex-full.js", "output/svg.js",
         "output/svg/fonts/tex.js", "a11y/assistive-mml.js")  # fmt: skip
BARE = "var MathJax = {loader: {load: []}, startup: {typeset: false, ready: function () {}}}; 0"
UNUSED = re.compile(r' (?:data-mml-node="(?!mtable)[^"]*"|data-mjx-[\w-]+="[^"]*")')
BEFORE = re.compile(r"(.*?)([(\[“‘]+)", re.S)    # what a line may not break off a formula
AFTER = re.compile(r"([.,;:!?)\]”’'%]+(?:s\b)?)(.*)", re.S)
WIDTH = re.compile(r'(?:min-width: |width=")([\d.]+)ex')  # which theme.css makes fit a phone
log = logging.getLogger(__name__)


@cache
def mathjax() -> quickjs.Context:
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    if spec is None or spec.origin is None:
        raise RuntimeError("no sphinx-mathjax-offline: pip install -r requirements.txt")
    source = Path(spec.origin).parent / "static" / "mathjax"
    context = quickjs.Context()
    context.eval(BARE)
    for file in [*(source / part for part in PARTS), HERE / "typeset.js"]:
        context.eval(file.read_text("utf8") + "\n0")
    return context


@cache
def typeset(formula: str, display: bool) -> str:
    """The formula as HTML; ValueError where MathJax does not understand it."""
    try:
        return UNUSED.sub("", mathjax().get("typeset")(formula, display))
    except quickjs.JSException as error:
        raise ValueError(str(error).splitlines()[0].removeprefix("Error: ")) from None


def inline(translator, node) -> None:
    visit(translator, node, "span")


def block(translator, node) -> None:
    visit(translator, node, "div")


def visit(translator, node, tag: str) -> None:
    try:
        maths = typeset(node.astext(), tag == "div")
    except ValueError as error:
        log.warning("formula not understood: %s: %s", error, node.astext(), location=node)
        maths = translator.encode(node.astext())
    width = WIDTH.search(maths)
    style = {"STYLE": f"--ex: {width[1]}"} if width and tag == "div" else {}
    start = translator.starttag(node, tag, "", CLASS="math notranslate nohighlight", **style)
    translator.body.append(f"{start}{maths}</{tag}>")
    raise nodes.SkipNode


class Together(SphinxPostTransform):
    """A line may break beside a drawing: not between a formula and the comma behind it."""

    default_priority = 500
    formats = ("html",)

    def run(self, **kwargs):
        for formula in list(self.document.findall(nodes.math)):
            parts = formula.parent
            at = parts.index(formula)
            before = split(BEFORE, parts[at - 1]) if at else None
            after = split(AFTER, parts[at + 1]) if at + 1 < len(parts) else None
            if before or after:
                start, mark = before or ("", "")
                point, rest = after or ("", "")
                whole = nodes.inline(classes=["npt-together"])
                texts = [nodes.Text(text) for text in (start, mark, point, rest)]
                parts[at - bool(before):at + 1 + bool(after)] = [texts[0], whole, texts[3]]
                whole += [texts[1], formula, texts[2]]


def split(form: re.Pattern, node: nodes.Node) -> tuple[str, str] | None:
    found = form.fullmatch(node) if isinstance(node, nodes.Text) else None
    return found and (found[1], found[2])


def write_styles(app, config) -> None:
    STYLES.parent.mkdir(parents=True, exist_ok=True)
    STYLES.write_text(mathjax().get("styles")(), "utf8")
    config.html_static_path = [*config.html_static_path, str(STYLES)]


def setup(app):
    app.add_html_math_renderer("built", (inline, None), (block, None))
    app.add_post_transform(Together)
    app.connect("config-inited", write_styles, priority=100)
    app.add_css_file("mathjax.css")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
