"""One browser and one server for all tests of a worker: they may run in any order."""

import pytest

from tools.browser import browser, chromium, serve


@pytest.fixture(scope="session")
def chrome():
    if chromium() is None:
        pytest.skip("no Chromium on this machine")
    pytest.importorskip("playwright")
    with browser() as found:
        yield found


@pytest.fixture(scope="session")
def root():
    """The address of the built site."""
    with serve() as address:
        yield address
