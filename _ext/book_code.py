"""Code on a narrow page: a line that must break goes on behind its own indentation.

A line that may be too long for a phone is an element that knows its indentation; the style sheet
does the rest. Brackets, commas and dots are places to break, so that no name is cut. What a reader
copies stays what stands in the notebook. On paper, only code of more than LONG lines may break.
"""

import re

from pygments.formatters import HtmlFormatter
from sphinx.highlighting import PygmentsBridge

SHORT = 30                              # letters that fit on every page
LONG = 16                               # lines
TAG = re.compile(r"<[^>]*>")
OPENED = re.compile(r'(<span class="p">[^<]*[(\[{,])(?=</span>)')
DOT = re.compile(r'(?=<span class="o">\.</span>)')


def hanging(html: str) -> str:
    """One line of highlighted code, ready to break."""
    code = re.sub(r"&#?\w+;", "&", TAG.sub("", html.rstrip("\n")))
    if len(code) <= SHORT:
        return html
    indent = len(code) - len(code.lstrip())
    broken = DOT.sub("<wbr>", OPENED.sub(r"\1<wbr>", html.rstrip("\n")))
    return f'<span class="npt-line" style="--in:{indent}">{broken}</span>\n'


class Formatter(HtmlFormatter):
    """Pygments' own, with lines that break well."""

    def wrap(self, source):
        lines = [(is_code, hanging(line) if is_code else line) for is_code, line in source]
        if len(lines) > LONG:
            lines[0] = lines[0][0], '<span class="npt-long"></span>' + lines[0][1]
        return super().wrap(iter(lines))


def setup(app):
    PygmentsBridge.html_formatter = Formatter
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
