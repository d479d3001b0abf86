"""Every built page in Chromium, light and dark, on a desk and on a phone, with no network.

`make test-pages` builds the pages if there are none and runs this. One page object per setting is
kept and sent from page to page; a request to any other origin is refused and reported.
"""

import re
import zipfile
from pathlib import Path

import pytest

from tools.browser import SITE, chapter_pages, chromium, settle

pytestmark = pytest.mark.pages
if chromium() is None:
    pytest.skip("no Chromium on this machine", allow_module_level=True)
pytest.importorskip("playwright")

AXE = Path(__file__).resolve().parents[2] / "node_modules" / "axe-core" / "axe.min.js"
COLOURS = ["color-contrast", "link-in-text-block"]
SETTINGS = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]
RULES = {  # what axe asks in each setting: all, then only what can differ there
    SETTINGS[0]: {"colours": True, "others": True},
    SETTINGS[1]: {"colours": True, "others": False},
    SETTINGS[2]: {"colours": False, "others": True},
}
NOT_PAGES = {"search.html", "genindex.html", "py-modindex.html", "index.html"}


def pages() -> list[str]:
    """Every page that a reader can reach, below the site's root."""
    found = sorted(p.relative_to(SITE).as_posix() for p in SITE.rglob("*.html"))
    return [p for p in found if p not in NOT_PAGES and not p.startswith("_static")]


class Watched:
    """A page that notes what goes wrong on it."""

    def __init__(self, chrome, root: str, width: int, scheme: str):
        self.root, self.faults = root, []
        context = chrome.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
        )
        context.route(lambda url: not url.startswith(root), self.refuse)
        self.page = context.new_page()
        self.page.on("console", self.hear)
        self.page.on("pageerror", lambda error: self.faults.append(f"script error: {error}"))
        self.page.on("response", self.answer)

    def refuse(self, route):
        if not route.request.url.startswith(("data:", "blob:")):
            self.faults.append(f"request to another origin: {route.request.url}")
        route.abort()

    def hear(self, message):
        if message.type == "error":
            self.faults.append(f"console: {message.text}")

    def answer(self, response):
        if response.status >= 400:
            self.faults.append(f"{response.status} for {response.url.removeprefix(self.root)}")

    def open(self, name: str) -> None:
        self.faults.clear()
        self.page.goto(f"{self.root}/{name}")
        self.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        settle(self.page)


@pytest.fixture(scope="session")
def site(chrome, root):
    return {s: Watched(chrome, root, *s) for s in SETTINGS}


def test_there_are_pages_to_test():
    names = pages()
    assert "book/index.html" in names and "book/api.html" in names, "run: make book"
    for notebook in sorted((SITE.parents[1] / "book").rglob("[01][0-9]_*.ipynb")):
        page = notebook.relative_to(SITE.parents[1]).with_suffix(".html").as_posix()
        assert page in names, f"{notebook.name} has no page"


MATHS = r"""() => {
    const faults = [], start = e => e.textContent.trim().slice(0, 80);
    document.querySelectorAll('.math').forEach(e => {
        const drawn = e.querySelector('svg')?.getBoundingClientRect();
        if (!drawn?.width) faults.push('formula not drawn: ' + start(e));
        if (!e.querySelector('math')?.textContent) faults.push('formula not said: ' + start(e));
        if (e.querySelector('a, [tabindex]')) faults.push('formula is a tab stop: ' + start(e));
    });
    const apart = 'pre, code, script, style, svg, mjx-container';
    const texts = document.createTreeWalker(
        document.querySelector('article'), NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const text = texts.currentNode;
        if (/\$|\\\(|\\\[/.test(text.data) && !text.parentElement.closest(apart))
            faults.push('raw formula: ' + start(text));
    }
    return faults;
}"""

LAYOUT = """() => {
    const faults = [], wide = document.documentElement.clientWidth;
    const needed = document.documentElement.scrollWidth;
    if (needed > wide) {
        faults.push(`the page is ${needed} wide, the window ${wide}`);
        document.querySelectorAll('article *').forEach(e => {
            const box = e.getBoundingClientRect();
            if (box.right > wide && box.width && !e.closest('pre, .math, table, mjx-container'))
                faults.push(`  reaches ${Math.round(box.right)}: ${e.tagName}.${e.className}`);
        });
    }
    document.querySelectorAll('article img').forEach(e => {
        if (!e.alt) faults.push('image without alt: ' + e.src);
        if (!e.complete || !e.naturalWidth) faults.push('image not shown: ' + e.src);
    });
    document.querySelectorAll('article svg.npt-fig').forEach(e => {
        if (!e.getAttribute('aria-label')) faults.push('drawing without a description');
    });
    return faults;
}"""


def visits() -> list[tuple[str, tuple[int, str]]]:
    """Every page in each width and each scheme: dark on a phone is both at once, so the listings
    of source, all of one kind, are visited there, and all other pages in the three settings before.
    """
    return [
        (name, setting)
        for setting in SETTINGS
        for name in pages()
        if setting in ((SETTINGS[0], SETTINGS[3]) if name.startswith("_modules/") else SETTINGS[:3])
    ]


@pytest.mark.parametrize(
    ("name", "setting"), visits(), ids=lambda x: x if isinstance(x, str) else f"{x[1]}-{x[0]}"
)
def test_page(site, name, setting):
    """No foreign request, 404 or console error; maths drawn; nothing wider than the page."""
    watched = site[setting]
    watched.open(name)
    faults = watched.faults + watched.page.evaluate(MATHS) + watched.page.evaluate(LAYOUT)
    assert not faults, "\n" + "\n".join(dict.fromkeys(faults))
    if AXE.exists() and setting in RULES:
        assert not accessibility(watched.page, RULES[setting])


# One text of each kind: of the same colour, size and weight, on the same ground. A page has
# thousands of texts and a hundred kinds, and the contrast is the same for all of a kind.
KINDS = r"""() => {
    const kinds = new Map();
    const ground = e => {               // all that shines through, down to an opaque colour
        let seen = '', opacity = 1, opaque = false;
        for (; e; e = e.parentElement) {
            const s = getComputedStyle(e);
            opacity *= s.opacity;
            if (!opaque && s.backgroundColor != 'rgba(0, 0, 0, 0)') seen += s.backgroundColor;
            if (!opaque && s.backgroundImage != 'none') seen += s.backgroundImage;
            opaque ||= s.backgroundColor.startsWith('rgb(');
        }
        return seen + opacity;
    };
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const text = texts.currentNode, e = text.parentElement;
        if (!text.data.trim() || e.closest('script, style, mjx-container') || !e.checkVisibility())
            continue;
        const s = getComputedStyle(e);
        const beside = e.tagName == 'A' ? getComputedStyle(e.parentElement).color : '';
        const kind = [e.tagName, s.color, s.fill, s.fontSize, s.fontWeight,
                      s.textDecorationLine, ground(e), beside].join();
        if (!kinds.has(kind)) kinds.set(kind, e);
    }
    return [...kinds.values()];
}"""


def accessibility(page, rules=None) -> list[str]:
    """What axe-core finds, a line for each rule with its first places; strokes need no look.

    Colours are asked of one text of each kind, all else of the whole page.
    """
    page.add_script_tag(path=AXE)
    rules = RULES[SETTINGS[0]] if rules is None else rules
    found = []
    if rules["colours"]:
        found += page.evaluate(
            f"async colours => (await axe.run({{include: ({KINDS})()}}, {{"
            "runOnly: {type: 'rule', values: colours}, resultTypes: ['violations']})).violations",
            COLOURS)
    if rules["others"]:
        found += page.evaluate(
            """async rules => (await axe.run({exclude: ['mjx-container svg']},
                                            {rules, resultTypes: ['violations']})).violations""",
            {rule: {"enabled": False} for rule in COLOURS})
    return [
        f"{v['id']} ({len(v['nodes'])}): {v['help']}; "
        + "; ".join(node["html"][:120] for node in v["nodes"][:3])
        for v in found
    ]


PALE = """<p>A text</p><p id=x style="color: #ccc">Another, pale</p><p>More <a href="#x" style=
"color: #111; text-decoration: none">linked</a> text</p><div style="opacity: .3"><p>Faded</p></div>
"""


def test_a_pale_text_and_a_link_that_cannot_be_told_are_found(chrome):
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm ci")
    page = chrome.new_page()
    page.set_content(f"<!doctype html><html lang=en><title>t</title><main>{PALE}</main>")
    found = accessibility(page, {"colours": True, "others": False})
    assert [line.split(":")[0] for line in found] == [
        "color-contrast (2)", "link-in-text-block (1)"]


def test_accessibility_is_really_checked():
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm ci")
    assert "axe" in AXE.read_text("utf8")[:200]


FRAME = """e => e.querySelector('.npt-frame').innerHTML"""
STORED = """e => e.querySelectorAll('.npt-stored').length"""


def explorers(page):
    """The explorers on a page that have more than one frame."""
    found = page.query_selector_all(".npt-explorer")
    return [e for e in found if e.evaluate(STORED) > 1]


def having_explorers() -> list[str]:
    return [p for p in pages() if 'class="npt-explorer"' in (SITE / p).read_text("utf8")]


@pytest.mark.parametrize("setting", [SETTINGS[0], SETTINGS[3]], ids=lambda s: f"{s[1]}-{s[0]}")
@pytest.mark.parametrize("name", having_explorers())
def test_explorers_move(site, name, setting):
    """Every control of every explorer, by keyboard and by pointer, shows another frame."""
    watched = site[setting]
    watched.open(name)
    for explorer in explorers(watched.page):
        shown = explorer.evaluate(FRAME)
        assert shown.strip() and "npt-first" not in shown, "the first frame is part of the page"
        for control in explorer.query_selector_all("input, select"):
            for act in (by_keyboard, by_pointer):
                before = explorer.evaluate(FRAME)
                act(watched.page, control)
                after = explorer.evaluate(FRAME)
                what = control.evaluate("e => e.outerHTML.slice(0, 120)")
                assert after != before, f"{act.__name__} moved nothing: {what}"
    assert not watched.faults


def by_keyboard(page, control) -> None:
    control.focus()
    kind = control.evaluate("e => e.type")
    if kind == "checkbox":
        page.keyboard.press("Space")
        return
    before = control.evaluate("e => e.value")
    page.keyboard.press("ArrowRight" if kind == "range" else "ArrowDown")
    if control.evaluate("e => e.value") == before:  # it stood at its end
        page.keyboard.press("ArrowLeft" if kind == "range" else "ArrowUp")


def by_pointer(page, control) -> None:
    control.scroll_into_view_if_needed()
    kind = control.evaluate("e => e.type")
    if kind == "checkbox":
        control.click()
    elif kind == "range":
        box = control.bounding_box()
        low = control.evaluate("e => e.valueAsNumber > (+e.min + +e.max) / 2")
        end, y = (0.05 if low else 0.95), box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + box["width"] * (1 - end), y)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * end, y, steps=4)
        page.mouse.up()
    else:  # a menu opens outside the page: choose as a click on an entry does
        other = control.evaluate("e => (e.selectedIndex + 1) % e.options.length")
        control.select_option(index=other)


SUBJECTS = {
    "softmax": "01", "attention": "02", "causal mask": "02", "multi-head attention": "03",
    "feed-forward": "04", "GELU": "04", "positional encoding": "05", "embeddings": "05",
    "layer norm": "06", "residual connections": "06", "encoder": "07", "decoder": "08",
    "KV cache": "09", "cross-entropy": "10", "beam search": "10",
}  # fmt: skip


@pytest.mark.parametrize("subject", SUBJECTS)
def test_search_finds_a_chapter_by_its_subject_first(site, subject):
    """Without a server; and what it shows of the chapter is prose."""
    watched = site[SETTINGS[0]]
    watched.faults.clear()
    watched.page.goto(f"{watched.root}/search.html?q={subject.replace(' ', '+')}")
    first = watched.page.locator("#search-results li").first
    first.locator("p.context").wait_for(timeout=10_000)
    assert f"/book/{SUBJECTS[subject]}_" in first.locator("a").first.evaluate("a => a.href")
    excerpt = first.locator("p.context").inner_text()
    assert len(excerpt.split()) >= 5 and not re.search(r"[<>{}]|[a-z]\d[A-Z]", excerpt), excerpt
    assert not watched.faults


@pytest.mark.parametrize("name", ["book/02_attention.html", "search.html"])
def test_the_magnifier_stands_beside_the_text(site, name):
    watched = site[SETTINGS[0]]
    watched.page.goto(f"{watched.root}/{name}")
    if name != "search.html":
        watched.page.keyboard.press("Control+k")
    form = watched.page.locator("form.bd-search:visible").first
    glass = form.locator(".fa-magnifying-glass").bounding_box()
    field = form.locator("input").first
    inset = field.evaluate("e => parseFloat(getComputedStyle(e).paddingLeft)")
    assert glass["x"] + glass["width"] <= field.bounding_box()["x"] + inset


def test_every_place_that_names_a_chapter_says_the_same_subject(site):
    """The tab has the whole title; the sidebar and `next` have it up to its colon."""
    for page in chapter_pages():
        html = page.read_text("utf8")
        whole = re.search(r"<title>(\d+ · .*?) &#8212;", html)[1]
        short = whole.split(": ")[0]
        beside = re.search(r'<a class="current reference internal" href="#">\s*(.*?)\s*</a>', html)
        assert beside[1] == short
        nexts = re.search(r'class="right-next"\s+href="([\w/.]+)\.html".*?prev-next-title">(.*?)<',
                          html, re.S)  # fmt: skip
        if Path(nexts[1]).name[:2].isdigit():
            following = (page.parent / f"{nexts[1]}.html").read_text("utf8")
            assert re.search(rf"<title>{re.escape(nexts[2])}(: | &#8212;)", following)


def test_notebooks_can_be_downloaded():
    for page in (SITE / "book").rglob("[01][0-9]_*.html"):
        name = page.relative_to(SITE).with_suffix(".ipynb")
        assert (SITE / "_sources" / name).is_file(), f"{page.name} offers no notebook"
        assert f"_sources/{name.as_posix()}" in page.read_text("utf8")


def test_all_notebooks_can_be_downloaded_as_one_archive(site):
    """By the landing page's own link."""
    watched = site[SETTINGS[0]]
    watched.open("book/index.html")
    href = watched.page.get_attribute("a[href$='notebooks.zip']", "href")
    packed = zipfile.ZipFile((SITE / "book" / href).resolve())
    assert packed.testzip() is None
    shown = {p.stem for p in (SITE / "book").glob("[01][0-9]_*.html")}
    assert shown <= {Path(name).stem for name in packed.namelist()}


def test_the_landing_page_has_its_drawings_in_its_colours(site):
    """The map, and a picture for each chapter, inline; the way into chapter 1."""
    watched = site[SETTINGS[1]]
    watched.open("book/index.html")
    rows = watched.page.query_selector_all("table svg.npt-fig")
    chapters = [link.get_attribute("href").removeprefix("beyond/")[:2]
                for link in watched.page.query_selector_all("table td strong a")]
    assert chapters == [f"{n:02}" for n in range(1, 17)] and len(rows) == 16
    assert watched.page.query_selector("svg.npt-fig a[href='02_attention.html']")
    watched.page.click("text=Start with chapter 1")
    assert watched.page.url.endswith("/book/01_introduction.html")


def test_previous_and_next_lead_through_the_book(site):
    """From the landing page, `next` reaches every page of the book."""
    page, seen = "book/index.html", []
    while page:
        seen.append(page)
        text = (SITE / page).read_text("utf8")
        following = re.search(r'class="right-next"\s+href="([^"#]+)"', text)
        page = following and (Path(page).parent / following[1]).as_posix()
        page = page and (SITE / page).resolve().relative_to(SITE).as_posix()
    own = [p for p in pages() if not p.startswith("_modules") and p != "404.html"]
    assert sorted(seen) == sorted(own)
