"""What a page weighs and shows before any script has run."""

import gzip

import pytest

from tools.browser import SITE, chapter_pages, chromium

pytestmark = pytest.mark.pages
if chromium() is None:
    pytest.skip("no Chromium on this machine", allow_module_level=True)

CHAPTERS = [p.relative_to(SITE / "book").as_posix() for p in chapter_pages()]
PACKED = (".woff2", ".png", ".zip")


@pytest.fixture(scope="module")
def first_visit(chrome, root):
    """A browser that has seen nothing yet, without scripts; the address of the site."""
    return chrome, root


@pytest.mark.parametrize("chapter", ["02_attention.html", "06_encoder_block.html"])
def test_formulas_need_no_script(first_visit, chapter):
    chrome, root = first_visit
    context = chrome.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{root}/book/{chapter}")
    formulas = page.locator("section > div.math mjx-container > svg")
    boxes = [formulas.nth(n).bounding_box() for n in range(formulas.count())]
    context.close()
    assert len(boxes) >= 4
    assert all(box and box["width"] > 20 and box["height"] > 10 for box in boxes)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_first_visit_is_at_most_600_kilobytes(first_visit, chapter):
    chrome, root = first_visit
    context, answers = chrome.new_context(), []
    page = context.new_page()
    page.on("response", lambda answer: answers.append(answer))
    page.goto(f"{root}/book/{chapter}", wait_until="networkidle")
    weights = {a.url.split("/")[-1].split("?")[0]: compressed(a) for a in answers}
    context.close()
    assert sum(weights.values()) <= 600_000, sorted(weights.items(), key=lambda w: -w[1])[:6]


def compressed(answer) -> int:
    body = answer.body()
    return len(body if answer.url.split("?")[0].endswith(PACKED) else gzip.compress(body))


def test_a_formula_at_390_pixels_fits_without_scrolling(first_visit):
    chrome, root = first_visit
    page = chrome.new_page(viewport={"width": 390, "height": 900})
    for chapter in CHAPTERS:
        page.goto(f"{root}/book/{chapter}")
        wide = page.evaluate("""[...document.querySelectorAll('div.math')]
            .filter(e => e.offsetParent && e.scrollWidth > e.clientWidth).map(e => e.id)""")
        assert not wide, f"{chapter}: {wide}"
    page.close()
