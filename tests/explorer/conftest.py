"""A browser for the tests of a file: while it runs, the thread has an event loop that runs."""

import pytest

from bahdanau_jax.explorer import write_page
from tests.explorer import pages


@pytest.fixture(scope="module")
def browser():
    with pages.chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def tiny():
    return pages.run()


@pytest.fixture(scope="session")
def tiny_page(tiny, tmp_path_factory):
    path = tmp_path_factory.mktemp("explorer") / "page.html"
    write_page(tiny, path)
    return path


@pytest.fixture
def tab(browser):
    tab = pages.Tab(browser)
    yield tab
    tab.close()
