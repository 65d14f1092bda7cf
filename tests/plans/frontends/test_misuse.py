"""Wrong things passed from Python: one sentence each, never Python's own error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from plans import Column, Plan, PlanError, Schema, Table, parse, plan
from tests.marks import every

SCHEMA = {"g": {"a": "int64", "b": "int64"}}
RULE = "Q(a) :- g(a, b)."
FRAME = pd.DataFrame({"a": [1]})


@every(
    [
        (None, "not None"),
        (5, "not an int"),
        ([], "not a list"),
        (FRAME, "not a DataFrame"),
        (pa.table({"a": [1]}), "not a Table"),
        (b"Q(a) :- g(a, b).", "not bytes"),
        (Path("query.sql"), "not a "),
        ("", "the query is empty"),
        (" \n", "the query is empty"),
        ("--", "one SELECT is expected"),
        ({}, "is not a plan"),
        ("{", "the plan is not JSON"),
        ('{"a":' * 100_000, "nested too deeply"),
    ]
)
def test_what_is_no_query_is_refused(query: Any, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        plan(query, SCHEMA)
    assert message in str(caught.value)
    assert caught.value.__cause__ is None


def test_bytes_and_paths_come_with_advice() -> None:
    for query, hint in ((b"SELECT", "query.decode()"), (Path("q"), "path.read_text()")):
        with pytest.raises(PlanError) as caught:
            plan(query, SCHEMA)  # type: ignore[arg-type]
        assert hint in caught.value.hint
    with pytest.raises(PlanError, match="a query is text, not None"):
        parse(None, SCHEMA)  # type: ignore[arg-type]


@every(
    [
        (5, "a schema is a mapping of table names to columns, not 5"),
        ([], "not a list"),
        ("g", "not 'g'"),
        (FRAME, "not a DataFrame"),
        (pa.schema([("a", pa.int64())]), "not a Schema"),
        ({"g": None}, "table g: give a mapping of columns to types"),
        ({"g": ["a", "b"]}, "not a list"),
        ({"g": FRAME}, "not a DataFrame"),
        ({"g": pa.table({"a": [1]})}, "pass its .schema"),
        ({"g": {"a": None}}, "column g.a: None is not a type"),
        ({"g": {"a": list}}, "column g.a: the Python type list is not a type"),
        ({"g": {"a": "foo"}}, "column g.a: type 'foo' is not supported"),
        ({"g": {1: "int64"}}, "1 is not the name of a column"),
        ({1: {"a": "int64"}}, "1 is not the name of a table"),
        ({"": {"a": "int64"}}, "'' is not the name of a table"),
        ({"g": {"columns": {"a": "int64"}, "key": "a"}}, "the key of table g"),
        ({"g": {"columns": {"a": "int64"}, "key": 5}}, "the key of table g"),
        ({"g": {"columns": {"a": "int64"}, "key": [5]}}, "the key of table g"),
        ({"g": {"columns": ["a"]}}, "columns has no types"),
        ({"g": {"a": "int64", "_Weight": "int64"}}, "must not have a column called _Weight"),
        ({"g": pa.schema([("_weight", pa.int64())])}, "must not have a column called _weight"),
    ]
)
def test_what_is_no_schema_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        Schema.of(schema)
    assert message in str(caught.value)
    with pytest.raises(PlanError):
        plan(RULE, schema)


@every(
    [
        lambda: Table("g", {"a": "int64"}),  # type: ignore[arg-type]
        lambda: Table("g", ("a", "b")),  # type: ignore[arg-type]
        lambda: Table("g", None),  # type: ignore[arg-type]
        lambda: Table("g", (Column("a", "int64"),), key="a"),  # type: ignore[arg-type]
        lambda: Table("g", (Column("a", "int64"),), key=5),  # type: ignore[arg-type]
        lambda: Column("a", None),  # type: ignore[arg-type]
        lambda: Column(5, "int64"),  # type: ignore[arg-type]
        lambda: Column("a", "intt"),
    ]
)
def test_wrong_declarations_are_refused(build: Any) -> None:
    with pytest.raises(PlanError):
        build()


def test_lists_of_columns_and_keys_do_as_well() -> None:
    table = Table("g", [Column("a", "int64"), Column("b", "int64")], key=["a"])  # type: ignore[arg-type]
    assert plan("SELECT a, b FROM g", {"g": table}).tables[0].key == ("a",)


@every(
    [
        {"rates": 5},
        {"rates": [("g", 1)]},
        {"rates": {"g": "x"}},
        {"rates": {"g": None}},
        {"rates": {5: 1}},
        {"dialect": 5},
        {"dialect": None},
        {"tree": 5},
        {"tree": "x"},
    ]
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        plan("SELECT DISTINCT a FROM g", SCHEMA, **options)


def test_a_damaged_plan_is_called_so() -> None:
    data = plan(RULE, SCHEMA).to_json()
    for name in data:
        with pytest.raises(PlanError):
            Plan.from_json({key: value for key, value in data.items() if key != name})
        for wrong in (None, 5, "x", [5]):
            try:
                Plan.from_json(json.dumps({**data, name: wrong}))
            except PlanError as error:
                assert "Error" not in str(error)  # noqa: PT017
