"""Every library's frames, against every type whose values fit: in chunks, as slices, as streams that can be read once.

Oracle: the Python values of which the frames are made.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable
from dataclasses import make_dataclass
from itertools import starmap
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import crown
from crown.errors import BadRowError, PlanError
from tests.ingest.frame_values import ARROW, DUCKDB, NUMPY, OTHERS, PANDAS, POLARS, PYTHON, Case, D
from tests.marks import by_turns
from tests.oracles import duck

TYPED = ("list", "struct", "map", "list view", "dictionary of lists", "duration", "interval")
Form = Callable[[Any], Any]


def filled(cases: dict[str, Case], nulls: bool) -> dict[str, tuple[list[Any], list[Any]]]:
    """Returns equally long columns of the cases: what is given, and what must be shown. ``nulls``: of any two values
    that follow one another one is NULL."""
    rows = 2 * max(len(case.given) for case in cases.values()) + 1
    found = {}
    for name, case in cases.items():
        places = [None if nulls and i % 2 == 0 else i // 2 % len(case.given) for i in range(rows)]
        columns = [[None if place is None else of[place] for place in places] for of in (case.given, case.shown)]
        found[name] = (columns[0], columns[1])
    return found


def check(
    cases: dict[str, Case], nulls: bool, make: Callable[[dict[str, list[Any]]], Any], as_schema: bool = True
) -> None:
    """Compares the columns of a frame, one per case, with what they must be: in a view that has a schema, in its first
    batch, and, of those whose type the frame tells, in views that take their columns from it.

    ``make`` makes the frame anew, with a column ``id`` more.
    """
    columns = filled(cases, nulls)
    given = {name: values for name, (values, _) in columns.items()}
    given["id"] = list(range(len(next(iter(given.values())))))
    expected = {name: values for name, (_, values) in columns.items()}
    told = [name for name, case in cases.items() if case.told]
    schema = {"r": {"id": "int64", **{name: case.declared for name, case in cases.items()}}}

    view = crown.view(query(cases), schema)
    view.update({"r": make(given)})
    compare(view, expected)
    kinds = {field.name: field.type for field in view.schema}
    compare(crown.view(query(cases), schema, tables={"r": make(given)}), expected)
    if not told:
        return
    view = crown.view(query(told), tables={"r": make(given)})
    compare(view, {name: expected[name] for name in told})
    assert {field.name: field.type for field in view.schema} == {name: kinds[name] for name in ("id", *told)}
    if as_schema:
        frame = make(given)
        view = crown.view(query(told), {"r": frame})
        assert view.count() == 0
        view.update({"r": frame})
        compare(view, {name: expected[name] for name in told})


def query(names: Iterable[str]) -> str:
    return f"SELECT id, {', '.join(f'`{name}`' for name in names)} FROM r"


def compare(view: crown.View, expected: dict[str, list[Any]]) -> None:
    rows = sorted(view, key=lambda row: row["id"])
    for name, values in expected.items():
        assert [row[name] for row in rows] == values, name


class Stream:
    """A stream of some library, which can be read once."""

    def __init__(self, table: pa.Table) -> None:
        self._tables = [table]
        self._schema = table.schema

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._tables.pop().__arrow_c_stream__(requested_schema)


class Array:
    """A record batch of some library."""

    def __init__(self, table: pa.Table) -> None:
        self._batch = table.to_batches()[0]

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        return self._batch.__arrow_c_array__(requested_schema)


def in_chunks(table: pa.Table) -> pa.Table:
    """Returns the table in chunks of two rows, and an empty one among them."""
    parts = [table.slice(i, 2) for i in range(0, table.num_rows, 2)]
    return pa.concat_tables([*parts[:1], table.slice(0, 0), *parts[1:]])


def as_slice(table: pa.Table) -> pa.Table:
    """Returns the table as a slice of a larger one."""
    columns = [pa.concat_arrays([c.chunk(0)] * 3) for c in table.columns]
    return pa.table(columns, names=table.column_names).slice(table.num_rows, table.num_rows)


FORMS: dict[str, Form] = {
    "table": lambda table: table,
    "chunks": in_chunks,
    "slice": as_slice,
    "batch": lambda table: table.to_batches()[0],
    "batches": lambda table: in_chunks(table).to_batches(),
    "reader": lambda table: table.to_reader(),
    "reader of chunks": lambda table: in_chunks(table).to_reader(),
    "stream": lambda table: Stream(in_chunks(table)),
    "array": Array,
    "columns": lambda table: {name: table.column(name).chunk(0) for name in table.column_names},
    "columns in chunks": lambda table: {name: in_chunks(table).column(name) for name in table.column_names},
    "generator of batches": lambda table: iter(in_chunks(table).to_batches()),
}


def arrow_column(type_: pa.DataType, values: list[Any]) -> pa.Array:
    if pa.types.is_run_end_encoded(type_):
        ends = pa.array(range(1, len(values) + 1), type_.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(ends, arrow_column(type_.value_type, values))
    if pa.types.is_dictionary(type_):
        distinct = list(dict.fromkeys(value for value in values if value is not None))
        places = [None if value is None else distinct.index(value) for value in values]
        of = arrow_column(type_.value_type, distinct)
        return pa.DictionaryArray.from_arrays(pa.array(places, type_.index_type), of)
    if isinstance(type_, pa.BaseExtensionType):
        stored = [int(value) if isinstance(value, bool) else value for value in values]
        return pa.ExtensionArray.from_storage(type_, pa.array(stored, type_.storage_type))
    return pa.array(values, type_)


@pytest.mark.parametrize(("form", "nulls"), by_turns(FORMS, (True, False)))
def test_arrow(form: str, nulls: bool) -> None:
    def make(columns: dict[str, list[Any]]) -> Any:
        rows = len(columns["id"])
        arrays = {name: arrow_column(case.type, columns[name]) for name, case in ARROW.items()}
        unread = {"z": pa.nulls(rows), "y": pa.array([[1]] * rows)}
        return FORMS[form](pa.table({**unread, **arrays, "id": columns["id"]}))

    check(ARROW, nulls, make, as_schema="generator" not in form)


@pytest.mark.parametrize(("form", "nulls"), by_turns(("frame", "slice", "columns", "backwards"), (True, False)))
def test_pandas(form: str, nulls: bool) -> None:
    forms: dict[str, Form] = {
        "frame": lambda frame: frame,
        "slice": lambda frame: pd.concat([frame, frame])[len(frame) :],
        "columns": lambda frame: {name: frame[name] for name in frame},
        "backwards": lambda frame: frame.iloc[::-1],
    }

    def make(columns: dict[str, list[Any]]) -> Any:
        series = {name: pd.Series(columns[name], dtype=case.type) for name, case in PANDAS.items()}
        return forms[form](pd.DataFrame({**series, "id": columns["id"], "z": [object()] * len(columns["id"])}))

    check(PANDAS, nulls, make, as_schema=form != "columns")


@pytest.mark.parametrize(("form", "nulls"), by_turns(("frame", "chunks", "slice", "lazy", "columns"), (True, False)))
def test_polars(form: str, nulls: bool) -> None:
    forms: dict[str, Form] = {
        "frame": lambda frame: frame,
        "chunks": lambda frame: pl.concat([frame[:1], frame[1:]], rechunk=False),
        "slice": lambda frame: pl.concat([frame, frame])[len(frame) :],
        "lazy": lambda frame: frame.lazy().filter(pl.col("id") >= 0),
        "columns": lambda frame: {name: frame[name] for name in frame.columns},
    }

    def make(columns: dict[str, list[Any]]) -> Any:
        rows = len(columns["id"])
        series = {name: pl.Series(columns[name], dtype=case.type) for name, case in POLARS.items()}
        unread = {"z": pl.Series([None] * rows), "y": pl.Series([object()] * rows, dtype=pl.Object)}
        return forms[form](pl.DataFrame({**unread, **series, "id": columns["id"]}))

    check(POLARS, nulls, make, as_schema=form != "columns")


def numpy_columns(columns: dict[str, list[Any]], swapped: bool) -> dict[str, np.ndarray]:
    found = {}
    for name, case in NUMPY.items():
        if name not in columns:
            continue
        dtype = np.dtype(case.type)
        masked = [value is None for value in columns[name]]
        values = np.array([case.given[0] if value is None else value for value in columns[name]], dtype)
        if swapped and not isinstance(dtype, np.dtypes.StringDType):
            values = values.astype(dtype.newbyteorder(">"))
        found[name] = np.ma.array(values, mask=masked) if any(masked) else values
    return {**found, "id": np.array(columns["id"])}


@pytest.mark.parametrize("form", ["structured", "records", "columns", "strided", "swapped", "masked", "masked rows"])
def test_numpy(form: str) -> None:
    def make(columns: dict[str, list[Any]]) -> Any:
        arrays = numpy_columns(columns, form == "swapped")
        if form == "strided":
            return {name: np.repeat(values, 2)[::2] for name, values in arrays.items()}
        if form in ("columns", "swapped", "masked"):
            return arrays
        arrays = {name: values.astype("U40") if name == "StringDType" else values for name, values in arrays.items()}
        fields = [(name, values.dtype) for name, values in arrays.items()]
        rows = (np.ma if form == "masked rows" else np).empty(len(arrays["id"]), fields)
        for name, values in arrays.items():
            rows[name] = values
        return list(rows) if form == "records" else rows

    # what records tell are the types of Python's values
    cases = {name: case._replace(told=case.told and form != "records") for name, case in NUMPY.items()}
    if form == "masked rows":
        del cases["f2"]  # NumPy's own fill value is none of it
    check(cases, form.startswith("masked"), make, as_schema=form not in ("masked", "strided"))


ROWS: dict[str, Form] = {
    "dicts": lambda columns: [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
    "named tuples": lambda columns: list(starmap(namedtuple("Row", columns), zip(*columns.values(), strict=True))),
    "dataclasses": lambda columns: list(starmap(make_dataclass("Row", columns), zip(*columns.values(), strict=True))),
    "generator of dicts": lambda columns: iter(ROWS["dicts"](columns)),
    "columns": lambda columns: columns,
    "columns of tuples": lambda columns: {name: tuple(values) for name, values in columns.items()},
    "columns that are generators": lambda columns: {name: iter(values) for name, values in columns.items()},
    "columns of objects": lambda columns: {
        name: np.array([*values, 0], object)[:-1] for name, values in columns.items()
    },
    "tuples": lambda columns: list(zip(*by_place(columns), strict=True)),
    "lists": lambda columns: list(map(list, zip(*by_place(columns), strict=True))),
    "generator of tuples": lambda columns: zip(*by_place(columns), strict=True),
    "matrix": lambda columns: np.array([*map(list, zip(*by_place(columns), strict=True))], object),
}
UNNAMED = {"tuples", "lists", "generator of tuples", "matrix"}


def by_place(columns: dict[str, list[Any]]) -> list[list[Any]]:
    """Returns the columns in the order of the schema."""
    return [columns["id"], *(values for name, values in columns.items() if name != "id")]


@pytest.mark.parametrize(("form", "nothing"), by_turns(ROWS, ("values", None, pd.NA, pd.NaT), share=2), ids=str)
def test_rows_of_python(form: str, nothing: Any) -> None:
    def make(columns: dict[str, list[Any]]) -> Any:
        return ROWS[form]({name: [nothing if v is None else v for v in values] for name, values in columns.items()})

    cases = {name: case._replace(told=case.told and form not in UNNAMED) for name, case in PYTHON.items()}
    check(
        cases, nothing != "values" if isinstance(nothing, str) else True, make, as_schema=form in ("dicts", "columns")
    )


@pytest.mark.parametrize(
    ("form", "nulls"), by_turns(("relation", "table", "reader", "small batches", "Polars", "pandas"), (True, False))
)
def test_duckdb(form: str, nulls: bool) -> None:
    forms: dict[str, Form] = {
        "relation": lambda relation: relation,
        "table": lambda relation: relation.to_arrow_table(),
        "reader": lambda relation: relation.to_arrow_reader(),
        "small batches": lambda relation: relation.to_arrow_reader(2),
        "Polars": lambda relation: relation.project("* EXCLUDE (z)").pl(),
        "pandas": lambda relation: relation.df(),
    }
    connection = duck.connected()

    def make(columns: dict[str, list[Any]]) -> Any:
        rows = zip(*columns.values(), strict=True)
        values = ", ".join(f"({', '.join('NULL' if v is None else str(v) for v in row)})" for row in rows)
        types = [*(DUCKDB[name].type for name in columns if name != "id"), "BIGINT"]
        outputs = [f'"{name}"::{type_} AS "{name}"' for name, type_ in zip(columns, types, strict=True)]
        names = ", ".join(f'"{name}"' for name in columns)
        unread = "INTERVAL 1 DAY AS z, [1] AS y"
        return forms[form](connection.sql(f"SELECT {', '.join(outputs)}, {unread} FROM (VALUES {values}) t({names})"))

    inexact = {"HUGEINT", "UBIGINT", "BIGINT", "DECIMAL"} if form == "pandas" else set()  # doubles in pandas
    check({name: case._replace(told=not inexact) for name, case in DUCKDB.items() if name not in inexact}, nulls, make)


@pytest.mark.parametrize("kind", OTHERS)
def test_columns_of_other_types_may_be_there_unread(kind: str) -> None:
    table = pa.table({"a": [1, 2], "x": OTHERS[kind]})
    for frame in (table, table.to_reader(), table.to_batches()[0], Stream(table), {"a": [1, 2], "x": OTHERS[kind]}):
        view = crown.view("SELECT a FROM r", tables={"r": frame})
        assert sorted(row["a"] for row in view) == [1, 2]
    view = crown.view("SELECT a FROM r", {"r": {"a": "int64"}})
    assert view.apply({"r": table}).num_rows == 2
    if kind in TYPED:
        read = crown.view("SELECT x FROM r", tables={"r": table})
        assert sorted(map(str, read)) == sorted(str({"x": value}) for value in table["x"].to_pylist())
    else:
        with pytest.raises(PlanError, match="column x has no type"):
            crown.view("SELECT x FROM r", tables={"r": table})
    if kind != "null":
        view = crown.view("SELECT x FROM r", {"r": {"a": "int64", "x": "int64"}})
        with pytest.raises(BadRowError, match=r"relation 'r', row \d: column 'x': .* does not fit int64"):
            view.apply({"r": table})


def test_values_of_wide_types_that_do_not_fit_are_bad_rows() -> None:
    for declared, array, row in (
        ("int64", pa.array([1, 2**63], pa.uint64()), 1),
        ("decimal(5,2)", pa.array([12345678, 1], pa.decimal64(18, 0)), 0),
        ("decimal(5,2)", pa.array([D("1.25"), D("1.255")], pa.decimal256(76, 3)), 1),
        ("int32", pa.array([1, 2**31]), 1),
        ("int64", pa.array(["1", "x"]).dictionary_encode(), 1),
        ("string", pa.array([b"a", b"\xff"], pa.binary_view()), 0),
    ):
        view = crown.view("SELECT v FROM r", {"r": {"v": declared}})
        with pytest.raises(BadRowError) as caught:
            view.apply({"r": pa.table({"v": array})})
        assert caught.value.row == row
