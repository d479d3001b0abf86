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

from npt_lib.figures.svg import themed

LINK = re.compile(r'<a href="([^"]+)\.ipynb"([^>]*)>(.*?)</a>', re.S)


def _resolve(env, docname: str, svg: str) -> str:
    """Chapter links as the page needs them, relative to it."""

    def link(match: re.Match) -> str:
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


def unpacked(html: str) -> str:
    """An explorer whose first frame is part of the page."""
    return FIRST.sub(lambda match: themed(base64.b64decode(match[1]).decode("utf8")), html)


def setup(app):
    as_image, as_html = NbElementRenderer.render_image, NbElementRenderer.render_text_html

    def render_image(self, data):
        content = data.content if isinstance(data.content, str) else ""
        env = getattr(self.renderer, "sphinx_env", None)
        if data.mime_type != "image/svg+xml" or 'class="npt-fig"' not in content or env is None:
            return as_image(self, data)
        return [nodes.raw("", inline(env, env.docname, content), format="html")]

    def render_text_html(self, data):
        return [nodes.raw("", unpacked(node.astext()), format="html", classes=node["classes"])
                for node in as_html(self, data)]

    NbElementRenderer.render_image = render_image
    NbElementRenderer.render_text_html = render_text_html
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
