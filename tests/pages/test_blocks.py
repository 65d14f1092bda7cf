"""The code of every page runs, and prints what stands behind it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pages import blocks

FENCE = re.compile(r"^( *)(`{3,}|~{3,})(\w*)", re.MULTILINE)
CODE = re.compile(r"^( *)(`{3,}).*?^\1\2`*$", re.MULTILINE | re.DOTALL)
BOX = re.compile(r"(?:^ *>.*\n?)+", re.MULTILINE)


def name(page: Path) -> str:
    return str(page.relative_to(blocks.ROOT))


def has_code(page: Path) -> bool:
    return any(blocks.runs(part) and not part["hidden"] for part in blocks.parts(page.read_text()))


@pytest.mark.parametrize("page", [page for page in blocks.PAGES if has_code(page)], ids=name)
def test_the_blocks_of_a_page_print_what_it_shows(page: Path) -> None:
    text = page.read_text()
    assert blocks.refreshed(text, page.name) == text, "python -m tests.pages.blocks writes it; read the diff"


@pytest.mark.parametrize("page", blocks.PAGES, ids=name)
def test_no_block_of_code_is_overlooked(page: Path) -> None:
    text = page.read_text()
    opened = [fence for fence in FENCE.findall(text) if fence[2] in ("python", "sh")]
    assert len(opened) == sum(not part["hidden"] for part in blocks.parts(text))
    kinds = {"", "python", "sh", "text", "sql", "json", "datalog", "motif"}
    others = {fence[2] for fence in FENCE.findall(text)} - kinds
    assert not others, "python and sh are run; other code is sql, json or text"


@pytest.mark.parametrize("page", blocks.PAGES, ids=name)
def test_a_box_is_one_paragraph_that_begins_with_its_kind(page: Path) -> None:
    """Two boxes that lose the empty line between them become one, and so does a paragraph after a box."""
    for box in BOX.findall(CODE.sub("", page.read_text())):
        assert box.startswith("> **"), box
        assert not re.search(r"^ *> *(>|$)", box, re.MULTILINE), box


def test_a_wrong_answer_is_found() -> None:
    page = '```python\nprint("one")\n```\n\n```text\ntwo\n```\n'
    assert blocks.refreshed(page) == page.replace("two", "one")
    with pytest.raises(AssertionError, match="does not show"):
        blocks.refreshed('```python\nprint("one")\n```\n')
    with pytest.raises(AssertionError, match="Expected"):
        blocks.refreshed("```python\n>>> 1 + 1\n3\n```\n")


def test_the_readme_says_what_the_name_stands_for() -> None:
    assert "**C**hange p**RO**pagation **W**ithout joi**N**s" in (blocks.ROOT / "README.md").read_text()
