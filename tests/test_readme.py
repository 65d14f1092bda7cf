"""The snippets of the README and of the pages on durable views and graphs run, and print what stands behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import readme


@pytest.mark.parametrize("page", readme.PAGES, ids=lambda page: page.name)
def test_snippets_print_what_the_page_shows(page: Path) -> None:
    text = page.read_text()
    assert readme.ran(text) >= 1
    assert readme.refreshed(text) == text, "python -m tests.readme writes it; read the diff"


def test_the_readme_says_what_the_name_stands_for() -> None:
    assert "**C**hange p**RO**pagation **W**ithout joi**N**s" in readme.PAGES[0].read_text()
