"""Queries that are read as others: VALUES, DISTINCT ON, PIVOT, UNPIVOT. Results are compared by the program tests."""

from __future__ import annotations

import pytest

import crown
from plans import PlanError, plan, program
from tests.marks import every

TABLES = {"t": {"a": "int64", "b": "int64", "s": "string"}}


@every(
    [
        ("SELECT * FROM (VALUES (1)) AS v(a)", "VALUES without a table never changes, so there is nothing to maintain"),
        ("SELECT 1 AS one", "a SELECT without FROM never changes, so there is nothing to maintain"),
        ("SELECT t.a FROM t JOIN (VALUES (1, 2), (3)) AS v(a, c) USING (a)", "this row of VALUES has 1 columns"),
        ("SELECT t.a FROM t JOIN (VALUES (b)) AS v(a) USING (a)", "VALUES takes constants, not the column b"),
        ("SELECT DISTINCT ON (3) a, b FROM t", "SELECT has no column 3"),
        ("SELECT DISTINCT ON (a) a FROM t QUALIFY RANK() OVER (ORDER BY b) < 2", "DISTINCT ON together with QUALIFY"),
        ("SELECT * FROM t PIVOT (SUM(zz) FOR s IN ('x'))", "unknown column zz"),
        ("SELECT * FROM t PIVOT (SUM(b) FOR (s, a) IN ('x'))", "PIVOT compares 2 columns with 1 values"),
        ("SELECT * FROM t UNPIVOT ((v, w) FOR n IN (a, b))", "UNPIVOT needs as many columns"),
        ("SELECT * FROM t UNPIVOT (v FOR n IN (a, s))", "column 3 has the type string here and int64 before"),
    ]
)
def test_what_does_not_fit_is_refused(query: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        plan(query, TABLES)


def test_columns_of_pivot_are_named_as_spark_names_them() -> None:
    one = "SELECT * FROM t PIVOT (SUM(b) AS total FOR s IN ('x', 'y' AS why))"
    assert [out.name for out in program(one, TABLES).output] == ["a", "x", "why"]
    two = "SELECT * FROM t PIVOT (SUM(b) AS total, COUNT(*) AS n FOR s IN ('x', 'y' AS why))"
    assert [out.name for out in program(two, TABLES).output] == ["a", "x_total", "x_n", "why_total", "why_n"]


def test_a_count_of_no_rows_is_null_in_a_pivot() -> None:
    view = crown.view("SELECT * FROM t PIVOT (COUNT(b) FOR s IN ('x', 'y'))", TABLES)
    view.apply({"t": [{"a": 1, "b": None, "s": "x"}]})
    assert list(view) == [{"a": 1, "x": 0, "y": None}]


def test_rows_of_the_text_are_there_from_the_first_batch_on() -> None:
    view = crown.view("SELECT a FROM t UNION ALL SELECT 7", TABLES)
    assert list(view) == []
    assert view.apply({}).to_pylist() == [{"a": 7, "_weight": 1}]
    assert view.apply({"t": [{"a": 7, "b": 0, "s": ""}]}).to_pylist() == [{"a": 7, "_weight": 1}]


def test_distinct_on_without_an_order_has_the_least_row() -> None:
    view = crown.view("SELECT DISTINCT ON (a) a, s FROM t", TABLES)
    view.apply({"t": [{"a": 1, "b": 0, "s": "q"}, {"a": 1, "b": 0, "s": "p"}]})
    assert list(view) == [{"a": 1, "s": "p"}]
