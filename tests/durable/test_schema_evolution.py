"""A table gets a column: views that do not read it go on, those that would read it are told to begin anew."""

from __future__ import annotations

from pathlib import Path

import pytest

import crown
from crown.errors import QueryChangedError
from tests.durable.streams import contents

BEFORE = {"r": {"a": "int64", "s": "string"}}
AFTER = {"r": {"a": "int64", "new": "date", "s": "string"}}


@pytest.mark.parametrize("on_missing", ["ignore", "raise"])
@pytest.mark.parametrize(
    "query", ["SELECT DISTINCT a, s FROM r WHERE a > 1", "SELECT s, SUM(a) AS n FROM r GROUP BY s"]
)
def test_a_column_that_the_query_does_not_read_changes_nothing(tmp_path: Path, query: str, on_missing: str) -> None:
    """Also where deletes of absent rows are refused: what the folder was made with decides what a row is."""
    fresh = crown.view(query, BEFORE)
    rows = [{"a": a, "s": f"s{a % 3}"} for a in range(6)]
    for number in range(4):
        with crown.open(query, tmp_path / "view", BEFORE if number < 2 else AFTER, on_missing=on_missing) as view:
            given = rows[number : number + 3]
            view.apply({"r": given if number < 2 else [{**row, "new": "2024-01-01"} for row in given]})
            fresh.update({"r": given})
            assert contents(view) == contents(fresh)
    with crown.open(query, tmp_path / "view", AFTER) as view:
        assert contents(view) == contents(fresh)


@pytest.mark.parametrize("query", ["SELECT a, new FROM r", "SELECT * FROM r"])
def test_a_query_that_reads_it_is_another_one_and_begins_with_the_table_as_it_is(tmp_path: Path, query: str) -> None:
    with crown.open("SELECT * FROM r", tmp_path / "view", BEFORE) as view:
        view.update({"r": [{"a": 1, "s": "x"}]})
    with pytest.raises(QueryChangedError, match="give the changed query a folder of its own"):
        crown.open(query, tmp_path / "view", AFTER)
    with crown.open(query, tmp_path / "new", AFTER) as view:
        view.update({"r": [{"a": 1, "s": "x", "new": None}]})
        assert view.count() == 1
