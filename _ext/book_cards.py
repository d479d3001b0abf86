"""Cards that show what a link leads to: a term, an equation, a figure's caption or a paper.

What a card says is taken from the pages while they are written: one file for each page, asked for
when the first card about it opens. cards.js shows them.
"""

import json
from pathlib import Path

from docutils import nodes
from sphinx import addnodes

SCRIPT = Path(__file__).resolve().parent / "cards.js"
CARDS: dict[str, dict[str, str]] = {}


def collect(app, doctree, docname) -> None:
    if app.builder.format == "html":
        CARDS[docname] = {name: html(app, node) for node in doctree.findall(has_card)
                          for name in node["ids"]}  # fmt: skip


def has_card(node) -> bool:
    if isinstance(node, nodes.term):
        return isinstance(node.parent.parent.parent, addnodes.glossary)
    return isinstance(node, nodes.paragraph | nodes.math_block) and bool(node["ids"])


def html(app, node) -> str:
    """The element as it stands in its page; a term with what it means."""
    if isinstance(node, nodes.term):
        node = nodes.definition_list("", node.parent.deepcopy())
    return app.builder.render_partial(node.deepcopy())["fragment"]


def write(app, error) -> None:
    if error is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir, "_static", "cards")
    folder.mkdir(exist_ok=True)
    for docname, cards in CARDS.items():
        page = json.dumps(app.builder.get_target_uri(docname))
        text = f"(window.nptCards ||= {{}})[{page}] = {json.dumps(cards, ensure_ascii=False)};\n"
        if cards:
            (folder / f"{docname.replace('/', '-')}.js").write_text(text, "utf8")


def add_script(app, config) -> None:
    config.html_static_path = [*config.html_static_path, str(SCRIPT)]


def setup(app):
    app.connect("config-inited", add_script, priority=101)
    app.connect("doctree-resolved", collect, priority=900)
    app.connect("build-finished", write)
    app.add_js_file("cards.js", loading_method="defer")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": False}
