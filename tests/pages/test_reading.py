"""Reading by keyboard, on paper and on a phone."""

import io
import re

import pikepdf
import pytest

from tools.browser import SITE, chapter_pages, chromium
from tools.pdf import HOME, make, order

pytestmark = pytest.mark.pages
if chromium() is None:
    pytest.skip("no Chromium on this machine", allow_module_level=True)

CHAPTERS = [p.relative_to(SITE / "book").as_posix() for p in chapter_pages()]
STOPS = """() => {
    const article = document.querySelector('article');
    const end = document.querySelector('section#exercises');
    return [...document.querySelectorAll('a[href], button, input, select, summary, [tabindex]')]
        .filter(e => e.tabIndex >= 0 && e.checkVisibility({visibilityProperty: true}))
        .filter(e => article.contains(e) && e.compareDocumentPosition(end) & 4).length;
}"""


@pytest.fixture
def at(chrome, root):
    """Opens a page of the book: at("02_attention.html", width=390, color_scheme="dark")."""
    contexts = []

    def visit(name, width=1280, **settings):
        context = chrome.new_context(
            viewport={"width": width, "height": 900}, reduced_motion="reduce", **settings
        )
        contexts.append(context)
        page = context.new_page()
        page.goto(f"{root}/book/{name}")
        return page

    yield visit
    for context in contexts:
        context.close()


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_has_at_most_60_tab_stops_before_its_exercises(at, chapter):
    assert at(chapter).evaluate(STOPS) <= 60


def test_look_opens_the_output_of_its_bet(at):
    page = at("02_attention.html")
    outputs = page.locator("article details.below-input:has(> summary[tabindex='-1'])")
    assert outputs.count() >= 2 and not outputs.evaluate_all("all => all.some(e => e.open)")
    for look in page.get_by_text("Look", exact=True).and_(page.locator("summary")).all():
        look.focus()
        page.keyboard.press("Enter")
    page.wait_for_function("""() => [...document.querySelectorAll("article details.below-input")]
        .filter(e => e.querySelector("summary").tabIndex < 0).every(e => e.open)""")


def test_the_map_is_one_stop_and_the_arrows_go_through_it(at):
    page = at("02_attention.html")
    links = page.locator("svg.npt-fig a")
    assert page.locator("svg.npt-fig a[tabindex='0']").count() == 1
    assert all(links.nth(n).inner_html() for n in range(links.count())), "a link around nothing"
    links.first.focus()
    page.keyboard.press("ArrowRight")
    assert links.nth(1).evaluate("e => e === document.activeElement")
    assert links.nth(1).get_attribute("tabindex") == "0"


def test_focus_is_seen_in_the_sidebar_the_header_and_the_text(at):
    page = at("02_attention.html")
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        part, width = page.evaluate("""() => {
            const e = document.activeElement, style = getComputedStyle(e);
            const part = ['.bd-sidebar-primary', '.bd-header-article', 'article'].find(
                s => e.closest(s));
            const width = style.outlineStyle === 'none' ? 0 : parseFloat(style.outlineWidth);
            return [part ?? null, width];
        }""")
        if part:
            seen.add(part)
            assert width >= 2, f"a focus that is not seen in {part}"
    assert len(seen) == 3


def test_paper_is_light_also_from_dark_mode(at):
    page = at("02_attention.html", color_scheme="dark")
    look = "() => getComputedStyle(document.querySelector('article p')).color"
    assert sum(rgb(page.evaluate(look))) > 3 * 128
    page.emulate_media(media="print", color_scheme="dark")
    page.wait_for_function("document.documentElement.dataset.theme === 'light'")
    assert sum(rgb(page.evaluate(look))) < 3 * 80
    assert page.locator("article details:not(.above-input):not([open])").count() == 0
    assert page.locator("article .below-input > summary:visible").count() == 0
    assert page.locator("article .above-input:not([open]):visible").count() == 0
    page.emulate_media(media="screen", color_scheme="dark")
    page.wait_for_function("document.documentElement.dataset.theme === 'dark'")


def rgb(colour: str) -> list[float]:
    return [float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]


@pytest.mark.parametrize("chapter", ["02_attention.html", "10_training.html"])
def test_code_on_a_phone_wraps(at, chapter):
    hidden = at(chapter, width=390).evaluate("""() => [...document.querySelectorAll(
        '.cell_input pre')].filter(e => e.scrollWidth > e.clientWidth + 1).length""")
    assert hidden == 0


def test_the_pdf_has_contents_with_pages_an_outline_and_links(at):
    pages = [HOME, "book/07_encoder.html", "book/glossary.html"]
    page = at("index.html")
    root = page.url.removesuffix(f"/{HOME}")
    with pikepdf.open(io.BytesIO(make(page, root, pages))) as pdf, pdf.open_outline() as outline:
        titles = [entry.title for entry in outline.root]
        starts = [pikepdf.Page(entry.destination[0]).index + 1 for entry in outline.root]
        uris = [str(a.A.URI) for page in pdf.pages for a in page.get("/Annots", [])
                if "/A" in a and "/URI" in a.A]  # fmt: skip
    assert len(titles) == 4 and titles[1] == "Contents" and titles[2].startswith("7 ")
    assert starts == sorted(set(starts)) and starts[0] == 1
    assert not [uri for uri in uris if "127.0.0.1" in uri], "a link to the machine that printed"


def test_the_pdf_holds_every_page_of_the_book():
    assert {f"book/{chapter}" for chapter in CHAPTERS} < set(order(SITE))


def test_every_page_has_a_description_and_names_no_address(at):
    for chapter in CHAPTERS:
        html = (SITE / "book" / chapter).read_text("utf8")
        assert re.search(r'<meta name="description" content="[^"]{60,}"', html), chapter
        assert "og:url" not in html and "og:image" not in html


def test_a_wrong_address_leads_back_to_the_book(at):
    page = at("../404.html")
    page.click("article a:has-text('first page')")
    assert page.url.endswith("/book/index.html")


def test_the_librarys_source_is_as_large_as_other_code(at):
    size = """() => parseFloat(getComputedStyle(
        document.querySelector('.cell_output .highlight-python pre')).fontSize)"""
    assert at("02_attention.html").evaluate(size) >= 13


def test_the_librarys_page_at_390_pixels(at):
    """Links to the source stay beside their signature; no role is left in a description."""
    page = at("api.html", width=390)
    dropped = page.evaluate("""() => [...document.querySelectorAll('dl.py > dt')].filter(dt => {
        const link = dt.querySelector('.viewcode-link')?.getBoundingClientRect();
        return link && link.bottom > dt.getBoundingClientRect().bottom + 1;
    }).length""")
    assert dropped == 0
    assert not re.search(r":(func|class|meth):", page.inner_text("article"))


def test_most_entries_of_the_glossary_lead_to_a_section(at):
    html = (SITE / "book" / "glossary.html").read_text("utf8")
    links = re.findall(r'href="[01]\d_\w+\.html(#[^"]+)?"', html.split("<article")[1])
    assert sum(map(bool, links)) >= len(links) / 2
