"""Explorers in a real browser: played on a page of their own, and live in a real JupyterLab."""

import nbformat
import pytest

from npt_lib.book.figures.svg import Picture, rect
from npt_lib.book.widgets import between, explore
from tools.browser import chromium
from tools.lab_server import lab

pytestmark = pytest.mark.pages
if chromium() is None:
    pytest.skip("no Chromium on this machine", allow_module_level=True)
TimeoutError = pytest.importorskip("playwright.sync_api").TimeoutError


def square(size, kind="a"):
    return Picture(rect(0, 0, size, size), 80, 80, f"size {size:g} {kind}")


SIZES = [1, 2, 4, 8, 16, 32, 64]
FINE = between(SIZES)
STATE = """() => {
    const e = document.querySelector('.npt-explorer'), f = e.querySelector('.npt-frame');
    const picture = f.querySelector('svg, img');
    return {picture: picture.getAttribute('aria-label') || picture.alt,
            label: e.querySelector('output').value, live: f.getAttribute('aria-live'),
            button: e.querySelector('.npt-play').innerText,
            note: e.querySelector('.npt-note')?.textContent ?? ''};
}"""


def shown(chrome, motion="no-preference", scripts=True, **options):
    """A page with one explorer, tall enough to scroll it out of sight."""
    options = {"size": SIZES, "kind": ["a", "b"], "play": "size", "interval": 150} | options
    html = explore(square, None, **options)._repr_mimebundle_()["text/html"]
    page = chrome.new_page(reduced_motion=motion, java_script_enabled=scripts)
    page.set_content(f"<!doctype html>{html}<div style='height: 3000px'></div>")
    return page


def until(page, **wanted):
    """Wait until the explorer shows this, three seconds at most: the page looks, each frame."""
    shows = f"wanted => {{ const s = ({STATE})(); return Object.keys(wanted).every(" \
            "k => s[k] === wanted[k]) }"
    try:
        page.wait_for_function(shows, arg=wanted, polling="raf", timeout=3_000)
    except TimeoutError:
        raise AssertionError(f"{wanted} did not come, but {page.evaluate(STATE)}") from None


def test_it_stands_still_until_it_is_played(chrome):
    page = shown(chrome)
    page.wait_for_timeout(400)
    assert page.evaluate(STATE)["picture"] == "size 1 a"


def test_playing_goes_through_the_stored_values_and_stops_at_the_last(chrome):
    page = shown(chrome)
    page.evaluate("""() => {
        const e = document.querySelector('.npt-explorer'), label = e.querySelector('output');
        window.seen = [];
        e.addEventListener('input', () => window.seen.push(label.value));
    }""")
    page.focus(".npt-play")
    page.keyboard.press("Enter")
    until(page, button="Pause", live="off")
    until(page, picture="size 64 a", label="64", button="Play again", live="polite")
    assert page.evaluate("window.seen") == ["2", "4", "8", "16", "32", "64"]
    page.keyboard.press("Space")
    until(page, picture="size 1 a", button="Pause")


def test_a_touch_pauses_and_so_does_the_button(chrome):
    page = shown(chrome, interval=600)            # slow enough for a busy machine
    page.click(".npt-play")
    until(page, label="2")
    page.focus("input[type=range]")
    page.keyboard.press("End")
    until(page, picture="size 64 a", button="Play again")
    page.click(".npt-play")
    until(page, label="4")
    page.click(".npt-play")
    until(page, button="Play")
    before = page.evaluate(STATE)
    page.wait_for_timeout(1000)
    assert page.evaluate(STATE) == before


def test_it_pauses_out_of_sight(chrome):
    page = shown(chrome)
    page.click(".npt-play")
    until(page, label="2")
    page.evaluate("scrollTo(0, 2000)")
    until(page, button="Play")
    assert page.evaluate(STATE)["label"] != "64"


def test_it_pauses_in_a_hidden_tab(chrome):
    page = shown(chrome)
    page.click(".npt-play")
    page.evaluate("Object.defineProperty(document, 'hidden', {value: true})")
    until(page, button="Play")
    assert page.evaluate(STATE)["label"] != "64"


def test_who_wants_no_motion_goes_step_by_step(chrome):
    page = shown(chrome, motion="reduce", size=[1, 2, 4])
    assert page.evaluate(STATE)["button"] == "Next step"
    page.click(".npt-play")
    page.wait_for_timeout(400)
    assert page.evaluate(STATE)["label"] == "2"
    page.click(".npt-play")
    until(page, label="4", button="From the start")
    page.click(".npt-play")
    until(page, label="1", button="Next step")


def test_menus_play_too(chrome):
    page = shown(chrome, play="kind")
    page.click(".npt-play")
    until(page, picture="size 1 b", button="Play again")


def test_without_scripts_it_says_so(chrome):
    page = shown(chrome, scripts=False)
    assert page.locator(".npt-dead").is_visible()
    assert not shown(chrome).locator(".npt-dead").is_visible()


# ---- JupyterLab

CELLS = ["""import time
from npt_lib.book.figures.svg import Picture, rect
from npt_lib.book.widgets import explore


def square(size, kind):
    if size == 3:
        raise ValueError("no 3")
    return Picture(rect(0, 0, size, size), 80, 80, f"size {size:g} {kind}")
""", """explore(square, None, size=[1, 2, 4, 8, 16, 32, 64], kind=["a", "b"],
        play="size", interval=100)""", 'square(40, "alone")']
STATUS = "document.querySelector('.jp-Notebook-ExecutionIndicator').dataset.status"


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    """A notebook with an explorer whose outputs are stored, as in the book."""
    from tools import bitmaps
    from tools.nb import dump, execute, normalise
    folder = tmp_path_factory.mktemp("lab")
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])
    execute(made, folder)
    assert len(made.cells[1].outputs) == 2, "the page's half and the kernel's"
    bitmaps.add(made.cells)
    (folder / "explorer.ipynb").write_text(dump(normalise(made)), "utf8")
    return folder


@pytest.fixture(scope="module")
def in_lab(chrome, notebook):
    with lab(notebook) as root:
        page = chrome.new_page(viewport={"width": 1280, "height": 1000})
        page.faults = []
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.goto(f"{root}/lab/tree/explorer.ipynb")
        page.wait_for_selector(".npt-explorer", timeout=60_000)
        page.evaluate("""async () => {
            const { sessionContext } = jupyterapp.shell.currentWidget;
            await sessionContext.ready;
            await sessionContext.session.kernel.info;
        }""")
        yield page
        assert not page.faults


def run(page, command):
    page.evaluate(f"void jupyterapp.commands.execute('{command}')")


def moved(page, *keys):
    page.focus(".npt-explorer input")
    for key in keys:
        page.keyboard.press(key)


def test_untrusted_it_says_how_to_wake_it_and_shows_its_picture(in_lab):
    assert in_lab.locator(".npt-dead").is_visible()
    assert "choose Trust Notebook" in in_lab.locator(".npt-dead").text_content()
    assert in_lab.evaluate("document.querySelector('.npt-first').naturalWidth") > 0


def test_untrusted_a_figure_is_a_picture(in_lab):
    figure = in_lab.locator("img[src^='data:image/png']")
    assert figure.evaluate("e => e.naturalWidth") > 80


def test_trusted_it_moves_and_plays_before_anything_is_run(in_lab):
    run(in_lab, "notebook:trust")
    in_lab.click("button.jp-mod-accept")
    in_lab.wait_for_selector(".npt-explorer[oninput]")
    assert not in_lab.locator(".npt-dead").is_visible()
    moved(in_lab, "ArrowRight", "ArrowRight")
    until(in_lab, picture="size 4 a", label="4")
    in_lab.click(".npt-play")
    until(in_lab, picture="size 64 a", button="Play again")


def test_with_a_kernel_it_reaches_the_values_between(in_lab):
    run(in_lab, "notebook:run-all-cells")
    in_lab.wait_for_selector(".npt-explorer input[data-at]", timeout=60_000)
    in_lab.wait_for_function(f"{STATUS} == 'idle'", timeout=60_000)
    until(in_lab, picture="size 1 a")
    moved(in_lab, "End", "ArrowLeft", "ArrowLeft")
    assert FINE[-3] not in SIZES
    until(in_lab, picture=f"size {FINE[-3]} a", label=f"{FINE[-3]}", note="")
    in_lab.click(".npt-play")
    until(in_lab, picture="size 64 a", label="64")


def test_where_draw_has_no_picture_the_nearest_stands_and_words_say_so(in_lab):
    moved(in_lab, "Home", "ArrowRight", "ArrowRight")
    until(in_lab, label="2", note="There is no picture at 3. Shown: 2.")


def test_while_the_kernel_is_busy_the_stored_frames_answer(in_lab):
    moved(in_lab, "Home")
    until(in_lab, picture="size 1 a")
    in_lab.evaluate("""void jupyterapp.shell.currentWidget.sessionContext.session.kernel
        .requestExecute({code: 'time.sleep(8)'})""")
    in_lab.wait_for_function(f"{STATUS} == 'busy'")
    moved(in_lab, *["ArrowRight"] * FINE.index(5))
    in_lab.wait_for_timeout(700)
    state = in_lab.evaluate(STATE)
    assert in_lab.evaluate(STATUS) == "busy"
    assert (state["picture"], state["label"]) == ("size 4 a", "4")
    assert state["note"] == "Busy: 5 follows when the kernel is free. Shown: 4."
    in_lab.wait_for_function(f"{STATUS} == 'idle'", timeout=20_000)
    until(in_lab, picture="size 5 a", label="5", note="")
