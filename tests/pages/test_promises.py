"""What the pages promise, each with the test that holds it: ``promises.toml``, which is compared with the pages.

A sentence of a page that says always, never, at most, refused or the like is a promise. It stands in the table with a
test, or among those that are none, with the reason.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from tests.pages.blocks import PAGES, ROOT
from tests.pages.sentences import sentences

TABLE = tomllib.loads((Path(__file__).parent / "promises.toml").read_text())
MEASURED = {"docs/benchmarks.md", "docs/performance.md"}
"""Pages of what was measured once."""
PROMISING = re.compile(
    r"\b(never|always|exactly|at most|(is|are) (refused|rejected)|refuses|rejects|linear (in|space))\b"
    r"|\b(whatever|regardless of|(does|do) not depend on)\b"
    r"|\bin O\(",
    re.IGNORECASE,
)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def listed(found: Iterable[str]) -> str:
    return "".join(f"\n  {sentence}" for sentence in sorted(found))


def of(part: str, page: str) -> dict[str, str]:
    return dict(TABLE[part].get(page, {}))


@cache
def defined(file: str) -> set[str]:
    """The tests that a file defines."""
    found = ast.walk(ast.parse((ROOT / file).read_text()))
    return {node.name for node in found if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_promise_of_a_page_is_held_by_a_test_or_is_none(page: Path) -> None:
    there = set(sentences(page.read_text()))
    promises, others = of("promises", name(page)), of("others", name(page))
    gone = (promises.keys() | others.keys()) - there
    assert not gone, f"promises.toml has what the page has not: {listed(gone)}"
    assert not promises.keys() & others.keys()
    if name(page) not in MEASURED:
        promising = {sentence for sentence in there if PROMISING.search(sentence)}
        untold = promising - promises.keys() - others.keys()
        assert not untold, f"write a test, or correct what the page says; then tell promises.toml: {listed(untold)}"


def test_the_tests_of_the_table_are_there() -> None:
    nodes = {node for promises in TABLE["promises"].values() for node in promises.values()}
    for node in nodes:
        file, _, test = node.partition("::")
        assert test in defined(file), node


def test_the_table_has_pages_that_are_there_and_reasons() -> None:
    pages = {name(page) for page in PAGES}
    assert {*TABLE["promises"], *TABLE["others"]} <= pages
    assert all(len(reason) > 10 for others in TABLE["others"].values() for reason in others.values())


def test_sentences_are_those_of_a_reader() -> None:
    page = (
        "# Never a heading\n\nOne is `a.b`. **Two** always\nruns on:\n\n- three;\n- [four](x.md) never.\n\n"
        "> **Danger.** Five\n> goes on.\n\n| six | never |\n|---|---|\n\n```python\nalways = 7\n```\n\n"
        "<!-- Sentences -->\n| never |\n<!-- end -->\n"
    )
    found = ["One is `a.b`.", "**Two** always runs on:", "three;", "[four](x.md) never.", "**Danger.** Five goes on."]
    assert list(sentences(page)) == [*found, "| six | never |", "|---|---|"]
