"""An entry of the glossary leads to the section of its chapter that first uses the term."""

from docutils import nodes
from sphinx import addnodes

GLOSSARY = "book/glossary"


def lead(app, doctree, docname) -> None:
    if docname != GLOSSARY:
        return
    for entry in doctree.findall(nodes.definition_list_item):
        terms = {name for term in entry.findall(nodes.term) for name in term["ids"]}
        for link in entry.findall(nodes.reference):
            chapter = f"book/{link.get('refuri', '').removesuffix('.html')}"
            if chapter in app.env.found_docs and (place := explained(app.env, chapter, terms)):
                link["refuri"] += f"#{place}"


def explained(env, chapter: str, terms: set[str]) -> str | None:
    """The section of the chapter that holds its first link to one of the terms."""
    for link in env.get_doctree(chapter).findall(addnodes.pending_xref):
        if link.get("reftargetid") in terms:
            while not isinstance(link, nodes.section):
                link = link.parent
            return link["ids"][0]
    return None


def setup(app):
    app.connect("doctree-resolved", lead, priority=800)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
