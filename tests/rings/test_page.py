"""docs/rings.md: what its examples print is what comes out."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "rings.md"


def test_the_examples_of_the_page_are_true() -> None:
    results = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert results.attempted > 20
    assert not results.failed
