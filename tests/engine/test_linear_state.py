"""What a view keeps while its result grows with the square of its tables: bytes per row of a table, counted."""

from __future__ import annotations

import pytest

import crown
from tests.oracles.database import Database, to_arrow

EDGES = {"e": {"a": "int64", "b": "int64"}}
PATHS = "FROM e x, e y WHERE x.b = y.a"
LINEAR = (
    f"SELECT x.a, x.b, y.b AS c {PATHS}",
    f"SELECT x.a, y.b AS c {PATHS}",
    f"SELECT DISTINCT x.a, x.b, y.b AS c {PATHS}",
    f"SELECT COUNT(*) AS n, SUM(x.a * y.b) AS s, AVG(y.b) AS m {PATHS}",
    f"SELECT x.b, COUNT(*) AS n {PATHS} GROUP BY x.b",
    f"SELECT MAX(y.b) AS m {PATHS}",
    "SELECT x.a, x.b, y.b AS c FROM e x LEFT JOIN e y ON x.b = y.a",
    "SELECT x.a, x.b FROM e x WHERE NOT EXISTS (SELECT * FROM e y WHERE x.b = y.a)",
    "SELECT COUNT(*) AS n FROM e x, e y, e z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a",
)
SQUARES = (
    "x.a, x.b, y.a AS c, z.b AS d FROM e x, e y, e z, e w WHERE x.b = y.b AND y.a = z.a AND z.b = w.b AND w.a = x.a"
)
CYCLES = (f"SELECT {SQUARES}", f"SELECT DISTINCT {SQUARES}")
MORE = (
    f"SELECT DISTINCT x.a, y.b AS c {PATHS}",
    f"SELECT x.a, x.b, y.b AS c {PATHS} UNION SELECT a, b, a FROM e",
    f"SELECT x.a, x.b, y.b AS c {PATHS} ORDER BY c, a LIMIT 2",
    f"SELECT MEDIAN(x.a * 1000000 + y.b) AS m {PATHS}",
)
"""The pages say that these keep rows or values of the join."""


def bytes_per_edge(query: str, n: int) -> float:
    """Through the vertex 0 go n * n paths, and as many squares."""
    view = crown.view(query, EDGES)
    view.update({"e": {"a": [*range(1, n + 1), *[0] * n], "b": [*[0] * n, *range(n + 1, 2 * n + 1)]}})
    if query not in CYCLES:  # the definition of a bag is a join by nested loops
        view.check_invariants()
    return float(view.stats()["live_bytes"]) / (2 * n)


@pytest.mark.parametrize("query", LINEAR + CYCLES)
def test_the_state_of_a_join_and_of_what_is_counted_over_it_is_linear_in_the_tables(query: str) -> None:
    few, many = (bytes_per_edge(query, n) for n in (100, 800))
    assert many <= 1.25 * few, "tables have room to grow, so a row's share varies"


@pytest.mark.parametrize("query", MORE)
def test_queries_that_keep_joined_rows_keep_one_each(query: str) -> None:
    few, many = (bytes_per_edge(query, n) for n in (100, 400))
    assert many >= 3 * few


def test_an_inner_join_of_rows_that_only_come_takes_nothing_back() -> None:
    view, database = crown.view(f"SELECT x.a, x.b, y.b AS c {PATHS} AND x.a <> y.b", EDGES), Database(EDGES)
    found = 0
    for turn in range(20):
        rows = [((turn * i % 7, (turn + i) % 5), 1 + i % 2) for i in range(9)]
        weights = view.apply({"e": to_arrow(database.schema, "e", rows)})["_weight"].to_pylist()
        assert all(weight > 0 for weight in weights)
        found += len(weights)
    assert found > 100
