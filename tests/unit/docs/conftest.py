"""The pages, once for all tests about them. A test that asks for `page` runs once a page."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("bench/*.md")])


def pytest_generate_tests(metafunc):
    if "page" in metafunc.fixturenames:
        metafunc.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])


@pytest.fixture
def text(page):
    return page.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def pages():
    return PAGES
