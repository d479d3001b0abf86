"""The notebooks as a reader meets them: in JupyterLab, in Chromium, opened by tools/lab.py.

One server for all, over a copy of the book; nothing but this machine is reached. In each notebook
one link of each kind is clicked, and its target has to come into sight.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from urllib.parse import unquote, urlparse

import pytest

from tools import links, style
from tools.browser import browser, chromium

pytestmark = pytest.mark.lab
if chromium() is None:
    pytest.skip("no Chromium on this machine", allow_module_level=True)
TimeoutError = pytest.importorskip("playwright.sync_api").TimeoutError
pytest.importorskip("jupyterlab")

SECONDS = 30                               # at most, for what takes a moment on a quiet machine
SETTINGS = {"notebook-extension/tracker": '{"autoStartDefaultKernel": false}'}
NOTEBOOKS = [p.relative_to(style.ROOT).as_posix()
             for p in (*style.chapters(), style.solutions()[1], style.ROOT / "book/index.ipynb")]

# The file in front, and whether an anchor is within the window.
FRONT = "path => jupyterapp.shell.currentWidget?.context?.path === path"
IN_SIGHT = """name => [...document.querySelectorAll('[data-jupyter-id]')].some(e => {
    const box = e.getBoundingClientRect();
    return e.dataset.jupyterId === name && e.offsetParent && box.top >= 0 && box.top < innerHeight;
})"""
RENDERED = """n => {
    const front = document.querySelector('.jp-NotebookPanel:not(.lm-mod-hidden)');
    return front.querySelectorAll('.jp-RenderedMarkdown > :first-child').length >= n
        && !front.querySelector('a[href]:not([href^="http"]):not([href^="#"])');
}"""
LINKS = """() => [...document.querySelectorAll('.jp-Notebook .jp-RenderedMarkdown a[href]')]
    .filter(e => e.offsetParent && !e.closest('details') && !e.matches('.jp-InternalAnchorLink'))
    .map(e => e.getAttribute('href'))"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """JupyterLab as `make lab` starts it, over a copy, with settings of its own."""
    here = tmp_path_factory.mktemp("lab")
    for folder in ("book", "npt_lib", "tools"):
        shutil.copytree(style.ROOT / folder, here / folder)
    for name, text in SETTINGS.items():
        file = here / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {f"JUPYTER_{n}_DIR": str(here / n) for n in ("CONFIG", "DATA", "RUNTIME")}
    own |= {"JUPYTERLAB_SETTINGS_DIR": str(here / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(here / "workspaces")}
    options = [f"--ServerApp.port={port}", "--no-browser", "--allow-root",
               "--IdentityProvider.token=", "--LabApp.expose_app_in_browser=True"]
    with open(here / "log", "w") as log, subprocess.Popen(
        [sys.executable, here / "tools" / "lab.py", *options], stdout=log, stderr=log,
        env=os.environ | own, start_new_session=True,
    ) as process:
        try:
            yield wait_for(f"http://127.0.0.1:{port}", here / "log")
        finally:
            os.killpg(process.pid, 15)


def wait_for(address: str, log) -> str:
    for _ in range(300):
        try:
            urllib.request.urlopen(f"{address}/api").close()
            return address
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(log.read_text())


class Lab:
    """A JupyterLab in the browser."""

    def __init__(self, chrome, address: str):
        self.asked = []
        context = chrome.new_context(viewport={"width": 1280, "height": 900})
        context.route(lambda url: not url.startswith(address), self.refuse)
        self.page = context.new_page()
        self.page.set_default_timeout(SECONDS * 1000)
        self.page.goto(address)
        self.page.wait_for_selector(".jp-MarkdownViewer h1", timeout=60_000)

    def refuse(self, route):
        self.asked.append(route.request.url)
        route.abort()

    def close_all(self) -> None:
        self.page.evaluate("() => [...jupyterapp.shell.widgets('main')].forEach(w => w.dispose())")

    def open(self, path: str) -> None:
        self.page.evaluate(
            "path => { jupyterapp.commands.execute('docmanager:open', {path}) }", path)
        self.until(path)

    def until(self, path: str, anchor: str = "") -> None:
        """Wait until this file is in front, and the anchor in sight."""
        self.page.wait_for_function(FRONT, arg=path)
        if anchor:
            self.page.wait_for_function(IN_SIGHT, arg=anchor)

    def until_rendered(self, path: str) -> None:
        """Wait until all Markdown of the notebook in front is drawn, and its links are ready."""
        cells = sum(c["cell_type"] == "markdown" for c in style.load(style.ROOT / path))
        self.page.wait_for_function(RENDERED, arg=cells)

    def click(self, href: str) -> None:
        same = self.page.locator(f'.jp-Notebook a[href="{href}"]').locator("visible=true")
        same.first.evaluate("e => { e.scrollIntoView(); e.click() }")


@pytest.fixture(scope="module")
def lab(server):
    with browser() as chrome:
        yield Lab(chrome, server)


def kind(href: str) -> str:
    """What a link of a notebook leads to."""
    if not href.startswith(("#", "http://127.0.0.1")):
        return "paper" if href in links.papers().values() else "elsewhere"
    if href.startswith("#"):
        return {"eq": "equation", "fig": "figure"}.get(href[1:].split("-")[0], "section")
    file = "solution" if "/solutions/" in href else "chapter" if ".ipynb" in href else "page"
    return {"glossary.md": "term", "api.md": "name"}.get(
        urlparse(href).path.rsplit("/")[-1], file) + (" at" if "#" in href else "")


def follow(lab: Lab, path: str, href: str) -> None:
    """Click a link, and wait for what it promises."""
    where = urlparse(href)
    file, anchor = unquote(where.path).removeprefix("/files/"), unquote(where.fragment)
    if kind(href) in ("paper", "elsewhere"):    # opens beside JupyterLab
        with lab.page.context.expect_page() as opened:
            lab.click(href)
        while href not in lab.asked:
            opened.value.wait_for_timeout(50)
        opened.value.close()               # else the first page is in the background, and waits
        return
    lab.click(href)
    if href.startswith("#"):
        lab.until(path, anchor)
    elif file.endswith(".ipynb") and anchor:
        lab.until(file)                    # the first time the notebook opens at its top
        lab.until_rendered(file)
        lab.open(path)
        lab.click(href)
        lab.until(file, anchor)
    else:
        lab.until(file, anchor)


def test_it_opens_with_the_contents(lab):
    lab.until("book/contents.md")
    chapters = lab.page.locator(".jp-MarkdownViewer td:first-child a")
    assert chapters.count() == len(style.chapters())
    chapters.first.click()
    lab.until("book/01_introduction.ipynb")
    assert not lab.asked


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_one_link_of_each_kind(lab, path):
    lab.close_all()
    lab.open(path)
    lab.until_rendered(path)
    first: dict[str, str] = {}
    for href in lab.page.evaluate(LINKS):
        first.setdefault(kind(href), href)
    if re.search(r"book/\d\d", path):
        assert {"term at", "paper", "chapter", "solution at"} <= set(first), first
    for href in first.values():
        try:
            follow(lab, path, href)
        except TimeoutError as late:
            raise AssertionError(f"not in sight after a click: {href}") from late
        lab.open(path)


def test_what_the_site_hides_is_folded(lab):
    lab.close_all()
    lab.open(NOTEBOOKS[0])
    lab.page.wait_for_selector(".jp-CodeCell .jp-InputPlaceholder")
    guard = lab.page.locator(".jp-CodeCell").first
    assert "find_spec" not in guard.inner_text()
    assert guard.locator(".jp-InputPlaceholder").is_visible()
