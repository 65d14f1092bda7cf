"""A delete of an absent row removes nothing, in every query: all columns that are read decide whether a row is there.

Each stored projection of a relation that decided alone took present rows for the absent one.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

import crown
from tests.engine.made import join_of
from tests.oracles import duck
from tests.oracles.database import Database, Row, to_dicts
from tests.oracles.expectation import net

R = {"r": {"a": "int64", "b": "int64"}}
QUERIES = {
    "a projection of each side": "SELECT DISTINCT x.a FROM r x, r y WHERE x.a = y.b",
    "a filter that one side has": "SELECT DISTINCT x.a FROM r x, r y WHERE x.b = y.b AND y.a > 1",
    "rows that the join stores whole": "SELECT DISTINCT x.a, x.b, y.b AS c FROM r x, r y WHERE x.b = y.a",
    "a cycle": "SELECT DISTINCT x.a FROM r x, r y, r z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a",
    "counts": "SELECT x.a, COUNT(*) AS n FROM r x, r y WHERE x.a = y.a AND x.b < y.b GROUP BY x.a",
    "rows with copies": "SELECT x.a FROM r x, r y WHERE x.a = y.b",
}


def test_a_delete_of_an_absent_row_leaves_the_rows_that_are_there() -> None:
    query = QUERIES["a projection of each side"]
    view, many = crown.view(query, R), crown.view(query, R, threads=2)
    for one in (view, many):
        one.update({"r": [(1, 3), (2, 1)]})
        assert not one.apply({"r": [{"a": 1, "b": 9, "_weight": -1}]}).num_rows
        assert one.to_table().to_pylist() == [{"a": 1}]
        assert one.stats()["missing_deletes"] == {"r": 1}
        assert one.apply({"r": [{"a": 1, "b": 3, "_weight": -1}]}).to_pylist() == [{"a": 1, "_weight": -1}]
        one.check_invariants()


@pytest.mark.parametrize("options", [{}, {"threads": 3}, {"path": "state"}], ids=str)
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_every_query_means_the_same_by_a_delete_as_duckdb(query: str, options: dict[str, Any], tmp_path: Path) -> None:
    random, database = Random(query), Database(R)
    given = {name: tmp_path / value if name == "path" else value for name, value in options.items()}
    view, result = crown.view(query, R, **given), Counter[Row]()
    for _ in range(30):
        rows = [((random.randrange(4), random.randrange(4)), random.choice((1, 1, -1, -2))) for _ in range(5)]
        database.apply({"r": rows})
        after = duck.results(query, database)
        changed = Counter(after)
        changed.subtract(result)
        found = net([view.apply({"r": to_dicts(database.schema, "r", rows)})])
        assert found == Counter({row: n for row, n in changed.items() if n})
        result = after
    view.check_invariants()


def test_what_a_join_stores_whole_is_stored_once() -> None:
    """Also where a filter that all rows meet, because others are left out, is part of what the join stores."""
    for query in (
        QUERIES["rows that the join stores whole"],
        "SELECT DISTINCT a, b FROM r WHERE b > 2",
    ):
        view = crown.view(query, R)
        view.update({"r": [(a, a + 1) for a in range(100)]})
        assert set(view._engine.base_tables._stored) == {"r"}
        assert not sum(len(net) for net, _ in view._engine.base_tables._tables["r"].scan())
        assert join_of(view).count() == view.count()


def test_a_stream_that_is_trusted_has_no_rows_to_look_at() -> None:
    trusted = crown.view(QUERIES["a projection of each side"], R, on_missing="trust")
    trusted.update({"r": [(1, 3), (2, 1)]})
    assert trusted.stats()["rows"] == {}
    assert trusted.to_table().to_pylist() == [{"a": 1}]
