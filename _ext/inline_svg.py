"""The book's figures as part of the page: inline SVG in its colours, links to its chapters.

A stored figure, and the first frame of a stored explorer, is an image with plain colours, which
any notebook viewer can show. Here it becomes inline SVG, so that it follows light and dark; a
link to a page that the book does not have is left out, the words stay.
"""

import base64
import re
from pathlib import PurePosixPath

from docutils import nodes
from myst_nb.core.render import NbElementRenderer

from npt_lib.book.figures.svg import themed

LINK = re.compile(r'<a href="([^"]+)\.ipynb"([^>]*)>(.*?)</a>', re.S)


class drawing(nodes.General, nodes.Element):
    """HTML that is seen and not searched: the labels of a figure are no prose."""


def write_drawing(translator, node) -> None:
    translator.body.append(node["html"])
    raise nodes.SkipNode


def _resolve(env, docname: str, svg: str) -> str:
    """Chapter links as the page needs them, relative to it."""

    def link(match: re.Match) -> str:
        if not match[3]:
            return ""
        target = str(PurePosixPath("book") / match[1])
        if target not in env.found_docs or target == docname:
            return f"<g>{match[3]}</g>"
        uri = env.app.builder.get_relative_uri(docname, target)
        return f'<a href="{uri}"{match[2]}>{match[3]}</a>'

    return LINK.sub(link, svg)


def inline(env, docname: str, svg: str) -> str:
    """A stored figure as it stands in the page."""
    return _resolve(env, docname, themed(svg))


FIRST = re.compile(r'<img class="npt-first"[^>]*src="data:image/svg\+xml;base64,([^"]+)">')


STYLE = re.compile(r'<style class="npt-style">.*?</style>\n?', re.S)
ASLEEP = re.compile(r'(<p class="npt-dead">).*?(</p>)')


def unpacked(html: str) -> str:
    """An explorer whose first frame is part of the page, in the page's style."""
    html = STYLE.sub("", html)
    html = ASLEEP.sub(r"\1Scripts are off: this is the first of the explorer's pictures.\2", html)
    return FIRST.sub(lambda match: themed(base64.b64decode(match[1]).decode("utf8")), html)


ROW = re.compile(r"<tr>.*?</tr>", re.S)
CELL = re.compile(r"<(t[hd])([^>]*)>(.*?)</\1>", re.S)
NUMBER = re.compile(r"(?:(?:&lt;|<|≈)\s*)?[−+-]?[\d,.]+(?:e[−+-]?\d+)?\s*%?")


def aligned(html: str) -> str:
    """A printed table whose columns of numbers stand at their right."""
    body = [[text for _, _, text in CELL.findall(row)] for row in ROW.findall(html)[1:]]
    right = [all(map(NUMBER.fullmatch, column)) for column in zip(*body)]

    def row(match: re.Match) -> str:
        numbers = iter(right)
        return CELL.sub(
            lambda cell: cell[0].replace("<" + cell[1], f'<{cell[1]} class="npt-num"', 1)
            if next(numbers, False) else cell[0], match[0])  # fmt: skip

    return ROW.sub(row, html)


def setup(app):
    as_image, as_html = NbElementRenderer.render_image, NbElementRenderer.render_text_html

    def render_image(self, data):
        content = data.content if isinstance(data.content, str) else ""
        env = getattr(self.renderer, "sphinx_env", None)
        if data.mime_type != "image/svg+xml" or 'class="npt-fig"' not in content or env is None:
            return as_image(self, data)
        return [drawing(html=inline(env, env.docname, content))]

    def render_text_html(self, data):
        return [shown(node) for node in as_html(self, data)]

    def shown(node):
        if 'class="npt-explorer"' in node.astext():
            return drawing(html=unpacked(node.astext()), classes=node["classes"])
        if 'class="npt-table"' in node.astext():
            return nodes.raw("", aligned(node.astext()), format="html", classes=node["classes"])
        return node

    app.add_node(drawing, html=(write_drawing, None))
    NbElementRenderer.render_image = render_image
    NbElementRenderer.render_text_html = render_text_html
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
