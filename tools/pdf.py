"""The whole book as one PDF, from the built pages: contents, outline, page numbers.

    python tools/pdf.py        (make pdf builds the pages first)

Chromium prints all articles as one document, twice: the second time, the contents know the pages
on which the first has put each title. The landing page gets its link to the PDF only then.
"""

import io
import re
import sys
from pathlib import Path

import pikepdf

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.browser import SITE, browser, serve  # noqa: E402

HOME, NAME = "book/index.html", "transformer-from-scratch.pdf"
PLACE = "<!-- pdf -->"
MARGIN = dict.fromkeys(("top", "bottom", "left", "right"), "16mm")
FOOT = ('<div style="width: 100%; text-align: center; font: 8px system-ui; color: #57606a">'
        '<span class="pageNumber"></span></div>')  # fmt: skip


def order(site: Path) -> list[str]:
    """The pages of the book as `next` leads through them."""
    found, page = [], HOME
    while page:
        found.append(page)
        html = (site / page).read_text("utf8")
        following = re.search(r'class="right-next"\s+href="([^"#]+)"', html)
        page = following and (site / page).parent.joinpath(following[1]).resolve()
        page = page and page.relative_to(site.resolve()).as_posix()
    return found


def pages_of(pdf: bytes) -> list[int]:
    """The page, counted from one, of each title and of the contents, as the outline says."""
    with pikepdf.open(io.BytesIO(pdf)) as book, book.open_outline() as outline:
        return [pikepdf.Page(title.destination[0]).index + 1 for title in outline.root]


def packed(pdf: bytes) -> bytes:
    """The same in half the size."""
    small = io.BytesIO()
    with pikepdf.open(io.BytesIO(pdf)) as book:
        book.save(small, object_stream_mode=pikepdf.ObjectStreamMode.generate)
    return small.getvalue()


def make(page, root: str, pages: list[str]) -> bytes:
    """These pages of the site at root, their contents after the first."""
    page.goto(f"{root}/{pages[0]}")
    page.emulate_media(media="print")
    page.evaluate((ROOT / "tools" / "gather.js").read_text("utf8"), pages)
    first, _contents, *others = pages_of(printed(page))
    page.evaluate("""numbers => document.querySelectorAll('.npt-contents li i').forEach(
        (place, n) => { place.textContent = numbers[n]; })""", [first, *others])  # fmt: skip
    return packed(printed(page))


def printed(page) -> bytes:
    return page.pdf(format="A4", margin=MARGIN, outline=True, tagged=True, print_background=True,
                    display_header_footer=True, header_template="<i></i>", footer_template=FOOT)


def main() -> None:
    with serve() as root, browser() as chrome:
        page = chrome.new_page(color_scheme="light", reduced_motion="reduce")
        (SITE / NAME).write_bytes(make(page, root, order(SITE)))
    home = SITE / HOME
    link = f'<a href="../{NAME}">The book as one PDF</a>: to print, or to read on paper.'
    home.write_text(home.read_text("utf8").replace(PLACE, f"<p>{link}</p>"), "utf8")
    print(SITE / NAME)


if __name__ == "__main__":
    main()
