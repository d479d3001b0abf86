"""A picture of a built page, as a reader sees it.

    python tools/shot.py book/02_attention.html [--dark] [--width 390] [--out page.png] [--open]
    python tools/shot.py book/01_introduction.html --at look-temperature --width 1360 \\
        --out book/figures/page.png            README's, and what others show of a link to us

A tall page becomes page-1.png, page-2.png, … of at most 2400 pixels; --open unfolds folds. With
--at, one window is taken where a section begins.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.browser import SITE, browser, serve, settle  # noqa: E402

TALL = 2400


def shoot(address: str, out: Path, width: int, dark: bool, unfold: bool) -> list[Path]:
    """Take the page in pieces; returns the files written."""
    written = []
    with browser() as chrome:
        page = chrome.new_page(
            viewport={"width": width, "height": 1000},
            color_scheme="dark" if dark else "light",
        )
        page.goto(address)
        page.add_style_tag(
            content=".bd-header, .bd-header-article { position: static !important }"
            "* { content-visibility: visible !important }"       # a picture has no scrolling
        )
        if unfold:
            page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        settle(page)
        # a window as tall as a piece: a page that is cut from outside is laid out anew each time
        page.set_viewport_size({"width": width, "height": TALL})
        height = page.evaluate("document.documentElement.scrollHeight")
        tops = range(0, height, TALL)
        for n, top in enumerate(tops, 1):
            name = out if len(tops) == 1 else out.with_stem(f"{out.stem}-{n}")
            page.evaluate(f"window.scrollTo({{top: {top}, behavior: 'instant'}})")
            above = top - page.evaluate("window.scrollY")       # seen already on the piece before
            clip = {"x": 0, "y": above, "width": width, "height": TALL - above}
            page.screenshot(path=name, clip=clip)
            written.append(name)
    return written


def window(address: str, out: Path, width: int, dark: bool, unfold: bool, at: str) -> list[Path]:
    """One window, about as high as a screen, where the section with this id begins."""
    with browser() as chrome:
        page = chrome.new_page(viewport={"width": width, "height": 850},
                               color_scheme="dark" if dark else "light")
        page.goto(address)
        if unfold:
            page.evaluate("document.querySelectorAll('details:not(.above-input)')"
                          ".forEach(d => d.open = true)")
        settle(page)
        page.evaluate(f"window.scrollTo({{top: document.getElementById('{at}')"
                      ".getBoundingClientRect().top + window.scrollY - 70, behavior: 'instant'})")
        page.wait_for_timeout(500)
        page.screenshot(path=out)
    return [out]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("page", help="below _build/html, such as book/index.html")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--out", type=Path, default=Path("page.png"))
    parser.add_argument("--at", help="the id of a section")
    parser.add_argument("--open", action="store_true", help="unfold what folds")
    parser.add_argument("--site", type=Path, default=SITE, help="a built site elsewhere")
    choice = parser.parse_args()
    with serve(choice.site) as root:
        address = f"{root}/{choice.page}"
        how = address, choice.out, choice.width, choice.dark, choice.open
        taken = window(*how, choice.at) if choice.at else shoot(*how)
        for name in taken:
            print(name)


if __name__ == "__main__":
    main()
