"""docs/limits.md: every refused query, followed by its exact error, which `python -m tests.plans.limits` writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from plans import PlanError, program

PAGE = Path(__file__).parents[2] / "docs" / "limits.md"
_BLOCK = re.compile(
    r"```(?P<language>sql|datalog|motif)\n(?P<query>.*?)\n```\n(?:\n```text\n(?P<error>.*?)\n```\n)?", re.DOTALL
)
_SCHEMA = re.compile(r"```json\n(.*?)\n```", re.DOTALL)


def schema(page: str) -> object:
    """The relations that the page declares."""
    found = _SCHEMA.search(page)
    assert found is not None
    return json.loads(found[1])


def error_of(query: str, tables: object) -> str:
    """What planning the query says."""
    try:
        program(query, tables)
    except PlanError as error:
        return str(error)
    raise AssertionError(f"this query is planned: {query}")


def entries(page: str) -> Iterator[tuple[str, str]]:
    """(query, error as the page gives it)."""
    for block in _BLOCK.finditer(page):
        yield block["query"], block["error"] or ""


def filled(page: str) -> str:
    """The page with the errors as they are."""
    tables = schema(page)
    return _BLOCK.sub(
        lambda b: f"```{b['language']}\n{b['query']}\n```\n\n```text\n{error_of(b['query'], tables)}\n```\n", page
    )


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
