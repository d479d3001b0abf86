"""Cards over links: by focus and by pointer, never in the way of a finger."""

import pytest

from tests.pages.test_pages import AXE, accessibility
from tools.browser import chromium

pytestmark = pytest.mark.pages
if chromium() is None:
    pytest.skip("no Chromium on this machine", allow_module_level=True)

LINKS = {
    "term": "article a[href*='glossary.html#term-']",
    "equation": "article a[href^='#eq-']",
    "figure": "article a[href^='#fig-']",
    "paper": "article a[href*='references.html#']",
}


@pytest.fixture(scope="module")
def site(chrome, root):
    return chrome, f"{root}/book/06_encoder_block.html"


@pytest.fixture(scope="module")
def page(site):
    chrome, address = site
    page = chrome.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page.goto(address)
    page.keyboard.press("Tab")
    return page


@pytest.mark.parametrize("kind", LINKS)
def test_a_card_opens_by_focus_and_escape_closes_it(page, kind):
    link = page.locator(LINKS[kind]).first
    link.focus()
    card = page.locator("#npt-card")
    card.wait_for(timeout=5000)
    assert link.get_attribute("aria-describedby") == "npt-card"
    assert len(card.inner_text().strip()) > 10 or card.locator("svg").count()
    box = card.bounding_box()
    assert 0 <= box["x"] and box["x"] + box["width"] <= 1280
    assert card.locator("a[href], [tabindex]").count() == 0, "a card is not a place to tab into"
    if AXE.exists():
        assert not accessibility(page)
    page.keyboard.press("Escape")
    assert card.count() == 0


def test_a_card_opens_by_pointer_and_stays_while_the_pointer_is_on_it(page):
    page.locator(LINKS["term"]).first.hover()
    card = page.locator("#npt-card")
    card.wait_for(timeout=5000)
    card.hover()
    page.wait_for_timeout(400)
    assert card.count() == 1
    page.mouse.move(1279, 5)
    card.wait_for(state="detached", timeout=5000)


def test_a_tap_follows_the_link(site):
    chrome, address = site
    context = chrome.new_context(viewport={"width": 390, "height": 800}, has_touch=True)
    page = context.new_page()
    page.goto(address)
    link = page.locator(LINKS["term"]).first
    term = link.get_attribute("href").split("#")[1]
    link.tap()
    page.wait_for_url(f"**/glossary.html#{term}")
    assert page.locator(f"#{term}").is_visible() and not page.locator("#npt-card").count()
    context.close()


@pytest.mark.parametrize("kind", LINKS)
def test_a_card_on_a_phone_stays_within_the_page(site, kind):
    chrome, address = site
    page = chrome.new_page(viewport={"width": 390, "height": 800}, reduced_motion="reduce")
    page.goto(address)
    page.keyboard.press("Tab")
    page.locator(LINKS[kind]).first.focus()
    page.locator("#npt-card").wait_for(timeout=5000)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
