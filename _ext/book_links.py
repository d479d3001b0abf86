"""Cross-references that read as plain Markdown everywhere, made to work and be checked here.

A notebook numbers an equation with ``\\tag{2.1}`` and a figure with ``**Figure 2.1.**``, and
links to them, to papers, to glossary terms and to the library by ordinary links:
``(#eq-2.1)``, ``(references.md#vaswani2017)``, ``(glossary.md#term-logit)``,
``(api.md#npt_lib.layers.softmax)``. A link that leads nowhere is a warning, so it fails the build.
Stored notebooks hold these links in the form that other viewers can follow (``tools/links.py``);
here they are read as they were written, so that papers and sections are places of the site.
"""

import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.transforms import SphinxTransform

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.links import slug, to_written

__all__ = ["setup", "slug"]         # slug: named in _config.yml

TAG = re.compile(r"\\tag\{([\d.]+)\}")
KIND = re.compile(r"(Predict|Symptom|Fix|Note|Elsewhere|Shapes)\.")
FIGURE = re.compile(r"Figure (\d+\.\d+)\.")
ANCHOR = re.compile(r'<a id="([^"]+)">(?:</a>)?')
TERM = re.compile(r'^<a id="term-[^"\n]+"></a>\n\*\*(.+?)\*\*:\n((?:.+\n)+)', re.M)


def read(app, docname, source):
    """A notebook as it was written; the glossary's paragraphs as the terms of Sphinx."""
    path = Path(app.env.doc2path(docname))
    if path.suffix == ".ipynb":
        source[0] = to_written(source[0], path)
    elif path.name == "glossary.md":
        source[0] = TERM.sub(term, source[0])


def term(found: re.Match) -> str:
    lines = "".join(f"    {line}\n" for line in found[2].splitlines())
    return f"```{{glossary}}\n{found[1]}\n{lines}```\n"


class Anchors(SphinxTransform):
    """An anchor at the start of a paragraph or item of a plain page: the whole is what it names."""

    default_priority = 800

    def apply(self, **kwargs):
        slugs = self.env.metadata[self.env.docname].setdefault("myst_slugs", {})
        for raw in list(self.document.findall(nodes.raw)):
            found = ANCHOR.fullmatch(raw.astext())
            if found and found[1] not in [slug.lower() for slug in slugs] and found[1] not in slugs:
                raw.parent["ids"].append(found[1])
                slugs[found[1]] = (raw.line, found[1], found[1])
            if found or raw.astext() == "</a>":
                self.drop(raw)

    def drop(self, raw) -> None:
        """Without it; a paragraph that held nothing else goes too: the heading below has the id."""
        paragraph = raw.parent
        paragraph.remove(raw)
        if not paragraph.astext().strip():
            paragraph.parent.remove(paragraph)


class NameNumbered(SphinxTransform):
    """Anchors for numbered equations and figures (eq-2.1, fig-2.1), a class for each aside."""

    default_priority = 800  # before MyST looks up the links of a page (879)

    def apply(self, **kwargs):
        self.slugs = self.env.metadata[self.env.docname].setdefault("myst_slugs", {})
        for heading in list(self.slugs):  # a page of plain Markdown has them in lower case
            self.slugs.setdefault(heading.lower(), self.slugs[heading])
        for node in self.document.findall(nodes.math_block):
            self.name(node, [f"eq-{n}" for n in TAG.findall(node.astext())])
        for strong in self.document.findall(nodes.strong):
            found = FIGURE.fullmatch(strong.astext())
            if found and strong.parent.astext().startswith(found[0]):
                strong.parent["classes"].append("npt-caption")
                self.name(strong.parent, [f"fig-{found[1]}"])
        for quote in self.document.findall(nodes.block_quote):
            kind = KIND.match(quote.astext())
            if kind and any(True for _ in quote.findall(nodes.strong)):
                quote["classes"] += ["npt-aside", f"npt-{kind[1].lower()}"]

    def name(self, node, names: list[str]) -> None:
        """An explicit name for links on this page, a slug for links from others."""
        for name in names:
            node["names"].append(name)
            self.document.note_explicit_target(node, node)
            self.slugs[name] = (node.line, self.document.nameids[name], name)


SUBJECT = re.compile(r"(\d+ · [^:]+): ")


def shorten(app, env):
    """A chapter is `2 · Attention` in lists; its own page and tab say the whole title."""
    for docname, title in env.titles.items():
        if subject := SUBJECT.match(title.astext()):
            env.titles[docname] = nodes.title("", subject[1])
            entry = next(iter(env.tocs[docname].findall(nodes.reference)))
            entry.children = [nodes.Text(subject[1])]


def add_slugs(env, docname: str, anchors: dict[str, str]) -> None:
    slugs = dict(env.metadata[docname].get("myst_slugs", {}))
    slugs.update({name: (None, anchor, name) for name, anchor in anchors.items()})
    env.metadata[docname]["myst_slugs"] = slugs


def anchor_pages(app, env):
    """Papers, terms and library objects as link targets."""
    pages: dict[str, dict[str, str]] = {}
    for domain in ("py", "std"):
        for name, _, kind, docname, anchor, _ in env.get_domain(domain).get_objects():
            if domain == "py" or kind == "term":
                pages.setdefault(docname, {})[anchor if kind == "term" else name] = anchor
    for docname, anchors in pages.items():
        add_slugs(env, docname, anchors)


def setup(app):
    app.connect("source-read", read)
    app.add_transform(Anchors)
    app.add_transform(NameNumbered)
    app.connect("env-updated", anchor_pages)
    app.connect("env-updated", shorten)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
