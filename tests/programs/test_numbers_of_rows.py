"""Aggregates over the row numbers of partitions: no row is numbered where a count tells, and DuckDB agrees."""

from __future__ import annotations

import pytest

from plans.programs.stages import OverStage
from tests.programs.rewritten import has_stage

EVERY = (
    "MAX(n) AS most, MIN(n) AS least, SUM(n) AS s, COUNT(n) AS k, COUNT(*) AS r, COUNT(DISTINCT n) AS d, AVG(n) AS m"
)
BY_B = "ROW_NUMBER() OVER (PARTITION BY b ORDER BY a)"
BY_BOTH = "ROW_NUMBER() OVER (PARTITION BY b, c ORDER BY a)"
COUNTED = [
    f"SELECT b, {EVERY} FROM (SELECT b, {BY_B} AS n FROM r) GROUP BY b",
    f"SELECT {EVERY} FROM (SELECT {BY_B} AS n FROM r)",
    f"SELECT {EVERY} FROM (SELECT ROW_NUMBER() OVER (ORDER BY a) AS n FROM r)",
    f"SELECT b, {EVERY} FROM (SELECT b, c, {BY_BOTH} AS n FROM r) GROUP BY b",
    f"SELECT b, {EVERY} FROM (SELECT b, c, {BY_BOTH} AS n FROM r) WHERE c <> 'p' GROUP BY b HAVING MAX(n) > 1",
    f"SELECT b + 1 AS b, SUM(n) * 2 AS s FROM (SELECT b, {BY_B} AS n FROM r) GROUP BY b + 1",
    f"SELECT b, SUM(n) AS s, MAX(m) AS t FROM (SELECT b, {BY_B} AS n, {BY_B} AS m FROM r) GROUP BY b",
]
NUMBERED = [
    f"SELECT b, MAX(n) AS m, SUM(a) AS s FROM (SELECT a, b, {BY_B} AS n FROM r) GROUP BY b",
    f"SELECT n, COUNT(*) AS k FROM (SELECT {BY_B} AS n FROM r) GROUP BY n",
    f"SELECT b, SUM(n) AS s FROM (SELECT b, {BY_B} AS n FROM r) WHERE n < 3 GROUP BY b",
    f"SELECT b, SUM(n) FILTER (WHERE b > 1) AS s FROM (SELECT b, {BY_B} AS n FROM r) GROUP BY b",
    f"SELECT c, SUM(n) AS s FROM (SELECT c, {BY_B} AS n FROM r) GROUP BY c",
    f"SELECT b, SUM(DISTINCT n) AS s FROM (SELECT b, {BY_BOTH} AS n FROM r) GROUP BY b",
    f"SELECT COUNT(*) AS k, MAX(n) AS m FROM (SELECT DISTINCT n FROM (SELECT {BY_B} AS n FROM r))",
    f"SELECT b, SUM(n) AS s FROM (SELECT DISTINCT b, {BY_BOTH} AS n FROM r) GROUP BY b",
]


def numbers_rows(query: str) -> bool:
    """Returns whether the program of a query has row numbers."""
    return has_stage(query, OverStage)


@pytest.mark.parametrize("query", COUNTED)
def test_no_row_is_numbered_where_the_number_of_rows_tells(query: str) -> None:
    assert not numbers_rows(query)


@pytest.mark.parametrize("query", NUMBERED)
def test_rows_are_numbered_where_more_is_asked_of_their_numbers(query: str) -> None:
    assert numbers_rows(query)
