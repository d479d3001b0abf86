"""Cross-references that read as plain Markdown everywhere, made to work and be checked here.

A notebook numbers an equation with ``\\tag{2.1}`` and a figure with ``**Figure 2.1.**``, and
links to them, to papers, to glossary terms and to the library by ordinary links:
``(#eq-2.1)``, ``(references.md#vaswani2017)``, ``(glossary.md#term-logit)``,
``(api.md#npt_lib.layers.softmax)``. A link that leads nowhere is a warning, so it fails the build.
"""

import re
from pathlib import Path

from docutils import nodes
from sphinx.transforms import SphinxTransform

TAG = re.compile(r"\\tag\{([\d.]+)\}")
KIND = re.compile(r"(Predict|Symptom|Fix|Note|Elsewhere|Shapes)\.")
FIGURE = re.compile(r"Figure (\d+\.\d+)\.")


def slug(heading: str) -> str:
    """The anchor that JupyterLab and GitHub give to a notebook's heading."""
    return heading.strip().replace(" ", "-")


class NameNumbered(SphinxTransform):
    """Anchors for numbered equations and figures (eq-2.1, fig-2.1), a class for each aside."""

    default_priority = 800  # before MyST looks up the links of a page (879)

    def apply(self, **kwargs):
        self.slugs = self.env.metadata[self.env.docname].setdefault("myst_slugs", {})
        for heading in list(self.slugs):  # a page of plain Markdown has them in lower case
            self.slugs.setdefault(heading.lower(), self.slugs[heading])
        for node in self.document.findall(nodes.math_block):
            self.name(node, [f"eq-{n}" for n in TAG.findall(node.astext())])
            if not node.get("nowrap"):  # Sphinx would put `split` around it, which takes no tag
                node["nowrap"] = True
                node.children = [nodes.Text(rf"\[{node.astext()}\]")]
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
    for bib in app.config.bibtex_bibfiles:
        path = Path(app.srcdir, bib)
        keys = re.findall(r"^@\w+\{([^,\s]+),", path.read_text("utf8"), re.M)
        page = path.with_suffix("").relative_to(app.srcdir).as_posix()
        add_slugs(env, page, {key: key for key in keys})


def setup(app):
    app.add_transform(NameNumbered)
    app.connect("env-updated", anchor_pages)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
