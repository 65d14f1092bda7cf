"""Aggregates over joins of copies of one relation: it is grouped once where its groups tell, and DuckDB agrees."""

from __future__ import annotations

import pytest

import crown
from plans import program
from plans.programs.stages import JoinStage
from plans.theory.isomorphism import isomorphic
from tests.programs.rewritten import TABLES, has_stage

TWO = "FROM r g1 JOIN r g2 ON g1.b = g2.b"
THREE = "FROM r g1, r g2, r g3 WHERE g1.b = g2.b AND g3.b = g1.b"
GROUPED_ONCE = [
    f"SELECT g1.b, COUNT(*) AS n {TWO} GROUP BY g1.b",
    f"SELECT g2.b, COUNT(*) AS n, COUNT(g1.b) AS k, MIN(g2.a) AS l, MAX(g1.c) AS m {THREE} GROUP BY g2.b",
    f"SELECT g1.b, AVG(g2.a) AS m, COUNT(DISTINCT g3.a) AS d, SUM(DISTINCT g1.a + 1) AS s {THREE} GROUP BY g1.b",
    f"SELECT g1.b, COUNT(*) + 1 AS n, AVG(g1.a) FILTER (WHERE g1.a > 500) AS m {TWO} GROUP BY g1.b",
    f"SELECT COUNT(*) AS n {THREE}",
    f"SELECT COUNT(*) AS n, MAX(g1.a + g1.b) AS m {TWO}",
    f"SELECT g1.b % 2 AS p, COUNT(*) AS n, MIN(g2.a) AS l {TWO} GROUP BY g1.b % 2",
    f"SELECT g1.b, COUNT(*) AS n {TWO} WHERE g1.c = 'p' AND g2.c = 'p' GROUP BY g1.b HAVING COUNT(*) > 1",
    f"SELECT g1.b, COUNT(*) AS n {TWO} AND g1.b > 1 GROUP BY g1.b",
    "SELECT g1.b, g2.c, COUNT(*) AS n FROM r g1 JOIN r g2 ON g1.b = g2.b AND g1.c = g2.c GROUP BY g1.b, g2.c",
    "SELECT g1.b, COUNT(*) AS n FROM r g1 JOIN r g2 ON g1.b = g2.b AND g1.c = g2.c GROUP BY g1.b",
    "WITH v AS (SELECT b, MAX(a) AS m FROM r GROUP BY b, c) "
    "SELECT x.b, COUNT(*) AS n, MIN(y.m) AS l FROM v x JOIN v y ON x.b = y.b GROUP BY x.b",
    f"SELECT n, COUNT(*) AS k FROM (SELECT g1.b, COUNT(*) AS n {TWO} GROUP BY g1.b) GROUP BY n",
]
JOINED = [
    f"SELECT g1.b, SUM(g2.a) AS s {TWO} GROUP BY g1.b",
    f"SELECT g1.b, COUNT(g2.a) AS n {TWO} GROUP BY g1.b",
    f"SELECT g1.b, COUNT(*) FILTER (WHERE g2.a > 500) AS n {TWO} GROUP BY g1.b",
    f"SELECT g1.b, MAX(g1.a - g2.a) AS m {TWO} GROUP BY g1.b",
    f"SELECT g1.b, COUNT(*) AS n {TWO} WHERE g1.c = 'p' GROUP BY g1.b",
    f"SELECT g1.c, COUNT(*) AS n {TWO} GROUP BY g1.c",
    f"SELECT AVG(g1.a) AS m {TWO}",
    "SELECT g1.b, COUNT(*) AS n FROM r g1 JOIN r g2 ON g1.b = g2.a GROUP BY g1.b",
    "SELECT g1.b, COUNT(*) AS n FROM r g1, r g2, r g3 WHERE g1.b = g2.b AND g1.c = g3.c GROUP BY g1.b",
    "SELECT g1.b, COUNT(*) AS n FROM r g1 LEFT JOIN r g2 ON g1.b = g2.b GROUP BY g1.b",
]


def joins(query: str) -> bool:
    """Returns whether the program of a query has a join. Some rows have two copies."""
    return has_stage(query, JoinStage, lambda a: 1 + (a % 3 == 0))


@pytest.mark.parametrize("query", GROUPED_ONCE)
def test_a_relation_is_grouped_once_where_its_groups_tell(query: str) -> None:
    assert not joins(query)


@pytest.mark.parametrize("query", JOINED)
def test_copies_are_joined_where_more_is_asked_of_them(query: str) -> None:
    assert joins(query)


@pytest.mark.parametrize("having", ["", "HAVING COUNT(*) > 0"])
def test_a_count_that_is_no_bigint_rejects_the_batch(having: str) -> None:
    view = crown.view(
        "SELECT g1.a, COUNT(*) AS n FROM r g1, r g2, r g3, r g4 WHERE g1.a = g2.a AND g1.a = g3.a AND g1.a = g4.a "
        f"GROUP BY g1.a {having}",
        schema={"r": {"a": "int64"}},
    )
    largest = 55_108  # its fourth power is the last below 2^63
    assert view.apply({"r": [{"a": 7, "_weight": largest}]}).to_pylist() == [{"a": 7, "n": largest**4, "_weight": 1}]
    with pytest.raises(crown.ChangeError, match="does not fit a BIGINT"):
        view.apply({"r": [{"a": 7, "_weight": 1}]})
    assert view.to_table().to_pylist() == [{"a": 7, "n": largest**4}]
    assert view.apply({"r": [{"a": 7, "_weight": -largest}]}).to_pylist() == [{"a": 7, "n": largest**4, "_weight": -1}]


def test_equal_queries_differ_if_they_join_another_number_of_copies() -> None:
    two, three = (program(f"SELECT g1.b, COUNT(*) AS n {text} GROUP BY g1.b", TABLES) for text in (TWO, THREE))
    assert not isomorphic(two, three)
    assert isomorphic(three, program(f"SELECT g2.b, COUNT(*) AS n {THREE} GROUP BY g2.b", TABLES))
