"""What EXPLAIN says of the tables of a view is what the view does: which columns it needs, which rows it drops, what it
nets before it is read, and what it keeps although deletes are trusted."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import crown
from crown import CrownError, View
from plans.expressions.evaluate import Evaluator
from plans.expressions.expr import Expr
from tests.marks import every

TABLES = {"r": {"a": "int64", "b": "int64", "x": "int64"}, "s": {"b": "int64", "c": "int64", "y": "int64"}}
QUERIES = {
    "a group over a join": "SELECT r.a, SUM(s.c) AS t FROM r JOIN s ON r.b = s.b WHERE r.a > 1 GROUP BY r.a",
    "one join": "SELECT r.a, s.c FROM r, s WHERE r.b = s.b AND s.c < 2 AND r.a + r.x > 3",
    "occurrences": "SELECT p.a FROM r p, r q WHERE p.b = q.a AND (p.a > 2 OR p.x = 1) AND q.b = 3",
    "a sum of tables": "SELECT a FROM r WHERE b > 1 UNION ALL SELECT c AS a FROM s",
    "a set": "SELECT a FROM r WHERE b > 1 UNION SELECT c AS a FROM s",
    "groups": "SELECT a, SUM(b) AS t, MAX(x) AS m FROM r GROUP BY a",
}
OPTIONS: list[dict[str, Any]] = [{}, {"on_missing": "raise"}, {"on_missing": "trust"}]
CASES = [(query, options) for query in QUERIES for options in OPTIONS]


def shown(view: View) -> dict[str, dict[str, Any]]:
    """Returns the tables as the view's own EXPLAIN shows them."""
    tables: dict[str, dict[str, Any]] = json.loads(view.explain(format="json"))["explained"]["wires"]["tables"]
    return tables


def rows_of(name: str, seed: int, times: int = 200) -> list[dict[str, int]]:
    rng = random.Random(seed)
    return [{column: rng.randrange(5) for column in TABLES[name]} for _ in range(times)]


@every(CASES)
def test_the_columns_that_are_shown_are_those_that_a_batch_needs(query: str, options: dict[str, Any]) -> None:
    view = crown.view(QUERIES[query], TABLES, **options)
    whole = crown.view(QUERIES[query], TABLES, **options)
    for name, wire in shown(view).items():
        rows = rows_of(name, 1)
        narrow = [{column: row[column] for column in wire["columns"]} for row in rows]
        for missing in wire["columns"]:
            without = pa.Table.from_pylist(narrow).drop_columns([missing])
            with pytest.raises(CrownError, match=missing):
                view.apply({name: without})
        view.apply({name: narrow})
        whole.apply({name: rows})
        said = f"table     {name} ({', '.join(wire['columns'])})"
        assert said in view.explain()
    found, expected = (sorted(map(str, of.to_table(weighted=True).to_pylist())) for of in (view, whole))
    assert found == expected
    assert view.count()


@every(CASES)
def test_the_rows_that_are_dropped_are_those_that_meet_no_condition_shown(query: str, options: dict[str, Any]) -> None:
    view = crown.view(QUERIES[query], TABLES, **options)
    for name, wire in shown(view).items():
        table = pa.Table.from_pylist(rows_of(name, 2))
        view.apply({name: table})
        met = " OR ".join(f"({' AND '.join(f'({part})' for part in parts)})" for parts in wire["conditions"]) or "TRUE"
        left = duckdb.sql(f'SELECT COUNT(*) FROM "table" WHERE NOT ({met})').fetchall()[0][0]
        assert view.stats().get("filtered", {}).get(name, 0) == left
        assert bool(wire["conditions"]) == (left > 0)


@every(CASES)
def test_changes_are_netted_before_they_are_read_unless_it_is_shown(query: str, options: dict[str, Any]) -> None:
    view = crown.view(QUERIES[query], TABLES, **options)
    for name, wire in shown(view).items():
        row = dict.fromkeys(TABLES[name], 3) | ({"c": 1} if name == "s" else {})
        taken = view._engine.prepare({name: [{**row, "_weight": 1}, {**row, "_weight": -1}]}).nets
        assert bool(len(taken[name])) == wire["may_repeat"]
        assert ("netted where it is read" in _line(view, name)) == wire["may_repeat"]


@every(QUERIES)
def test_a_table_is_kept_against_trust_where_it_is_shown(query: str) -> None:
    view = crown.view(QUERIES[query], TABLES, on_missing="trust")
    for name, wire in shown(view).items():
        view.apply({name: rows_of(name, 3)})
        assert (view.stats()["rows"].get(name, 0) > 0) == wire["read_again"]
        assert ("the result is read from it" in _line(view, name)) == wire["read_again"]


def test_each_of_these_is_shown_of_some_table() -> None:
    found = [
        wire
        for options in OPTIONS
        for query in QUERIES.values()
        for wire in shown(crown.view(query, TABLES, **options)).values()
    ]
    for field in ("conditions", "known", "may_repeat", "read_again"):
        assert len({bool(wire[field]) for wire in found}) == 2, field
    assert {len(wire["columns"]) for wire in found} >= {1, 2, 3}


def test_a_page_and_a_database_show_what_they_take() -> None:
    view = crown.view(QUERIES["a sum of tables"], TABLES, on_missing="trust")
    assert "r (a, b) of 3 columns, where b &gt; 1" in view.explain(format="html")
    assert "kept: the result is read from it" in view.explain(format="html")
    db = crown.database(TABLES)
    db.view("sums", QUERIES["groups"])
    assert "table     r (a, b, x)\n" in db.explain(), "a database takes all columns, for views to come"


def _line(view: View, name: str) -> str:
    """Returns what the text says of a table."""
    text = " ".join(view.explain().split())
    return text.partition(f"table {name} ")[2].partition(" table ")[0].partition(" cells ")[0]


TEXTS = {"r": {"a": "int64", "b": "string", "x": "decimal(10,2)"}, "s": {"b": "string", "c": "int64"}}
EVALUATED = {
    "SELECT a, SUM(x * 2) AS t FROM r WHERE a > 1 GROUP BY a": 0,
    "SELECT UPPER(b) AS u, SUM(x * 2) AS t FROM r GROUP BY UPPER(b) HAVING SUM(x) > 0": 1,
    "SELECT r.a + 1 AS n, CONCAT(r.b, s.b) AS t FROM r, s WHERE r.a = s.c AND r.b < s.b": 2,
    "SELECT a, MAX(b) AS m FROM r GROUP BY a HAVING MAX(b) LIKE '%x%'": 1,
    "SELECT LOWER(b) AS l FROM r UNION ALL SELECT b AS l FROM s WHERE c > 1": 1,
}
"""Queries, and how many of their expressions have no native form."""


@every(EVALUATED)
def test_what_arrow_evaluates_is_shown(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[int, list[str]] = {}
    seen: set[str] = set()
    new, evaluate = Evaluator.__init__, Evaluator.evaluate

    def noted(self: Evaluator, expressions: Sequence[Expr]) -> None:
        made[id(self)] = [str(expr) for expr in expressions if expr.columns]
        new(self, expressions)

    def evaluated(self: Evaluator, columns: Mapping[str, Any], length: int) -> list[pa.Array]:
        seen.update(made[id(self)])
        return evaluate(self, columns, length)

    monkeypatch.setattr(Evaluator, "__init__", noted)
    monkeypatch.setattr(Evaluator, "evaluate", evaluated)
    view = crown.view(query, TEXTS)
    seen.clear()
    view.apply(
        {"r": [{"a": 2, "b": "x", "x": 1}, {"a": 3, "b": "yx", "x": 2}], "s": [{"b": "z", "c": 2}, {"b": "w", "c": 3}]}
    )
    explained = json.loads(view.explain(format="json"))["explained"]
    shown = {expr for stage in explained["by_arrow"] for expr in stage}
    assert len(shown) == EVALUATED[query]
    assert shown == seen
    assert all(expr in " ".join(view.explain().split()) for expr in shown)
