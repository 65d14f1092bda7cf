"""Every kind of frame goes in, and comes out; what is no frame is one sentence. Oracle: the same rows as dicts."""

from __future__ import annotations

import dataclasses
import datetime as dt
import subprocess
import sys
from collections import namedtuple
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import crown
from crown.errors import BadRowError, ChangeError, CrownError, PlanError
from tests.oracles.expectation import rows

SCHEMA = {"r": {"a": "int64", "s": "string", "x": "float64"}}
QUERY = "SELECT a, s, x FROM r WHERE a > 1"
ROWS = [{"a": 1, "s": "one", "x": 1.0}, {"a": 2, "s": "two", "x": 2.0}, {"a": 3, "s": "é", "x": 0.5}]
TABLE = pa.Table.from_pylist(ROWS)


class Stream:
    """A frame of some library: all that is known of it is Arrow's stream interface."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class Array:
    """A record batch of some library."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return TABLE.to_batches()[0].__arrow_c_array__(requested_schema)


@dataclasses.dataclass
class Row:
    a: int
    s: str
    x: float | None


class Named(NamedTuple):
    a: int
    s: str
    x: float


VIEWED = pa.table(
    {"a": TABLE["a"], "s": pa.array(TABLE["s"].to_pylist(), pa.string_view()), "x": TABLE["x"].cast(pa.float32())}
)
CODED = pa.table({"a": TABLE["a"], "s": TABLE["s"].dictionary_encode(), "x": TABLE["x"]})
STRUCTURED = np.array([(1, "one", 1.0), (2, "two", 2.0), (3, "é", 0.5)], [("a", "i8"), ("s", "U5"), ("x", "f8")])
Loose = namedtuple("Loose", "x a s")
FRAMES: dict[str, Any] = {
    "table": TABLE,
    "record batch": TABLE.to_batches()[0],
    "list of record batches": TABLE.to_batches(max_chunksize=1),
    "reader": TABLE.to_reader(),
    "stream": Stream(TABLE),
    "stream of string views": Stream(VIEWED),
    "stream of a dictionary": Stream(CODED),
    "array": Array(),
    "pandas": TABLE.to_pandas(),
    "columns": {"a": [1, 2, 3], "s": ["one", "two", "é"], "x": np.array([1.0, 2.0, 0.5])},
    "structured": STRUCTURED,
    "records": list(STRUCTURED),
    "objects": np.array([[1, "one", 1.0], [2, "two", 2.0], [3, "é", 0.5]], object),
    "tuples": [(1, "one", 1.0), (2, "two", 2.0), (3, "é", 0.5)],
    "tuples with weights": [(1, "one", 1.0, 1), (2, "two", 2.0, 1), (3, "é", 0.5, 1)],
    "lists": [[1, "one", 1.0], [2, "two", 2.0], [3, "é", 0.5]],
    "dataclasses": [Row(1, "one", 1.0), Row(2, "two", 2.0), Row(3, "é", 0.5)],
    "named tuples": [Loose(1.0, 1, "one"), Loose(2.0, 2, "two"), Loose(0.5, 3, "é")],
    "generator": (row for row in ROWS),
    "DuckDB": duckdb.sql("FROM (VALUES (1::BIGINT, 'one', 1.0::DOUBLE), (2, 'two', 2.0), (3, 'é', 0.5)) t(a, s, x)"),
}


@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("query", [QUERY, "Q(a, s, x) :- r(a, s, x), a > 1."], ids=["bag", "set"])
def test_every_frame_says_what_its_rows_say(kind: str, query: str) -> None:
    frame = FRAMES[kind]
    if kind in ("reader", "generator"):  # they can be read once
        frame = TABLE.to_reader() if kind == "reader" else (row for row in ROWS)
    found = crown.view(query, SCHEMA).apply({"r": frame})
    expected = crown.view(query, SCHEMA).apply({"r": ROWS})
    assert rows(found) == rows(expected)
    assert found.num_rows == 2


@pytest.mark.parametrize(
    "kind", sorted({*FRAMES} - {"reader", "generator", "tuples", "tuples with weights", "lists", "objects"})
)
def test_a_frame_stands_for_its_columns(kind: str) -> None:
    view = crown.view(QUERY, tables={"r": FRAMES[kind]})
    assert [row["a"] for row in view] == [2, 3]
    empty = crown.view(QUERY, schema={"r": FRAMES[kind]})
    assert empty.count() == 0
    assert empty.schema.names == view.schema.names


def test_classes_of_rows_are_schemas() -> None:
    for kind in (Row, Named):
        view = crown.view(QUERY, {"r": kind})
        view.update({"r": [kind(5, "five", 5.0)]})
        assert list(view) == [{"a": 5, "s": "five", "x": 5.0}]


def test_polars_goes_in_and_out() -> None:
    polars = pytest.importorskip("polars")
    view = crown.view("Q(a, s, x) :- r(a, s, x), a > 1.", tables={"r": polars.DataFrame(ROWS)})
    assert sorted(view.to_polars().rows()) == [(2, "two", 2.0), (3, "é", 0.5)]
    assert polars.DataFrame(view).height == 2


def test_the_result_is_a_table_to_other_libraries() -> None:
    view = crown.view("Q(a, s, x) :- r(a, s, x), a > 1.", tables={"r": TABLE})
    expected = sorted(map(str, view.to_table().to_pylist()))
    assert sorted(map(str, pa.table(view).to_pylist())) == expected
    assert sorted(map(str, view.to_pandas().to_dict("records"))) == expected
    assert sorted(map(str, view)) == expected
    connection = duckdb.connect()
    connection.register("result", pa.RecordBatchReader.from_stream(view))
    assert connection.sql("SELECT SUM(a) FROM result").fetchall() == [(5,)]
    assert len(view.to_pandas(limit=1)) == 1
    second = crown.view("Q(s) :- r(a, s, x).", tables={"r": view})
    assert sorted(row["s"] for row in second) == ["two", "é"]


def test_a_view_is_there_also_while_its_result_is_empty() -> None:
    view = crown.view(QUERY, SCHEMA)
    assert view
    assert len(view) == 0
    assert list(view) == []
    assert pa.table(view).num_rows == 0


def test_without_pandas_that_is_said() -> None:
    code = """
import sys; sys.modules["pandas"] = None; sys.modules["polars"] = None
import crown
view = crown.view("Q(a) :- r(a).", {"r": {"a": "int64"}})
for name in ("to_pandas", "to_polars"):
    try:
        getattr(view, name)()
    except crown.MissingPackageError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "to_pandas() needs pandas: pip install pandas",
        "to_polars() needs polars: pip install polars",
    ]


def test_what_is_no_frame_is_told_what_is_wanted() -> None:
    view = crown.view(QUERY, SCHEMA)
    wrong: list[tuple[Any, str]] = [
        (
            [(1, "one")],
            r"a row is a dict, a dataclass, or a tuple of \(a, s, x\) or \(a, s, x, _weight\), not 2 values",
        ),
        ([1, 2], r"a row is .*, not 1$"),
        (["abc"], r"a row is .*, not 'abc'$"),
        ([{"a": 1, "s": "x", "x": 1.0}, 5], "must hold dicts"),
        (np.zeros(4), r"of shape \(4,\) is not a table; give a structured array, or one of shape \(n, 3\)"),
        (np.zeros((4, 9)), r"of shape \(4, 9\) is not a table"),
        (pa.array([1, 2]), "cannot be read as columns"),
        (5, "changes must be a table .* not int"),
        ("a", "changes must be a table .* not str"),
        (Row(1, "a", 1.0), "changes must be a table .* not Row"),
    ]
    for data, said in wrong:
        with pytest.raises(ChangeError, match=said):
            view.apply({"r": data})
        assert view.stats()["batches"] == 0
    for data in (TABLE, ROWS, 5):
        with pytest.raises(ChangeError, match="changes must be a dict from the name of a relation"):
            view.apply(data)  # type: ignore[arg-type]


def test_a_schema_that_cannot_be_told_is_asked_for() -> None:
    for data, said in (
        (
            [{"a": None}],
            "column a has no type(.|\n)*the column has no value from which to infer its type; declare the columns",
        ),
        ([{"a": 1}, {"a": "x"}], "column a has no type(.|\n)*its values have several types"),
        ([], "no rows from which to read its columns"),
        (pa.table({"a": pa.array([1], pa.time64("us"))}), "time64"),
    ):
        with pytest.raises((ChangeError, PlanError), match=said):
            crown.view("SELECT a FROM r", tables={"r": data})


def test_times_without_a_zone_are_wall_clock_readings() -> None:
    naive, aware = dt.datetime(2024, 5, 1, 12, 30), dt.datetime(2024, 5, 1, 12, 30, tzinfo=dt.UTC)
    query = "SELECT at, COUNT(*) AS n FROM r WHERE at >= TIMESTAMP_NTZ '2024-01-01 00:00:00' GROUP BY at"
    view = crown.view(query, tables={"r": [{"at": naive}, {"at": naive}, {"at": dt.datetime(2020, 1, 1)}]})
    assert view.schema.field("at").type == pa.timestamp("us")
    assert list(view) == [{"at": naive, "n": 2}]
    with pytest.raises(BadRowError, match="it has a time zone; declare the column timestamp, or take the zone off"):
        view.apply({"r": [{"at": aware}]})
    with pytest.raises(BadRowError, match=r"row 1: .* it has a time zone; declare the column timestamp"):
        view.apply({"r": [{"at": naive}, {"at": aware}]})
    frame = pd.DataFrame({"at": pd.to_datetime(["2024-05-01 12:30"])})
    assert crown.view("SELECT at FROM r", tables={"r": frame}).schema.field("at").type == pa.timestamp("us")


def test_subscribers_are_told_of_every_batch_that_changes_something() -> None:
    view, told = crown.view(QUERY, SCHEMA), []
    end = view.subscribe(lambda deltas: told.append(deltas.num_rows))
    also = crown.view("SELECT COUNT(*) AS n FROM r", {"r": {"a": "int64", "s": "string", "x": "float64"}})
    view.subscribe(lambda deltas: also.update({"r": deltas}))
    view.apply({"r": ROWS})
    view.update({"r": [{"a": 9, "s": "nine", "x": 9.0}]})
    view.apply({"r": [{"a": 0, "s": "no", "x": 0.0}]})
    assert told == [2, 1]
    assert list(also) == [{"n": 3}]
    end()
    view.apply({"r": [{"a": 8, "s": "eight", "x": 8.0}]})
    assert told == [2, 1]
    assert list(also) == [{"n": 4}]
    with pytest.raises(CrownError, match="with subscribers use apply or update"):
        view.apply_batches({"r": ROWS})
    with pytest.raises(CrownError, match="subscribe takes a function"):
        view.subscribe(5)  # type: ignore[arg-type]


def test_one_function_may_subscribe_twice_and_each_subscription_ends_alone() -> None:
    view, told = crown.view(QUERY, SCHEMA), []
    first, _ = view.subscribe(told.append), view.subscribe(told.append)
    view.apply({"r": ROWS})
    first()
    first()
    view.apply({"r": [{"a": 8, "s": "eight", "x": 8.0}]})
    assert [deltas.num_rows for deltas in told] == [2, 2, 1]


def test_a_subscriber_that_fails_does_not_undo_the_batch_nor_keep_it_from_others() -> None:
    view, told = crown.view(QUERY, SCHEMA), []

    def fails(deltas: pa.Table) -> None:
        raise ZeroDivisionError("mine")

    view.subscribe(fails)
    view.subscribe(told.append)
    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        view.apply({"r": ROWS})
    assert caught.value.__notes__ == ["a subscriber of the view raised this; the batch was applied"]
    assert len(told) == 1
    assert view.count() == 2
