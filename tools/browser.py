"""Debian's Chromium, driven by Playwright, over the built pages and nothing else."""

import functools
import http.server
import shutil
import threading
from contextlib import contextmanager
from pathlib import Path

SITE = Path(__file__).resolve().parent.parent / "_build" / "html"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


def chromium() -> str | None:
    """Where this machine has a Chromium, if it has one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def chapter_pages() -> list[Path]:
    """The built page of every chapter, those beyond the ten last."""
    return [page for folder in ("book", "book/beyond")
            for page in sorted((SITE / folder).glob("[01][0-9]_*.html"))]


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, *args):
        pass


@contextmanager
def serve(folder: Path = SITE):
    """The folder at an address of this machine, as long as the context lasts."""
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@contextmanager
def browser():
    """A headless Chromium with an empty profile."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield chrome
        chrome.close()


def settle(page) -> None:
    """Wait until fonts are there."""
    page.evaluate("document.fonts.ready")
