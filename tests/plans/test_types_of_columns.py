"""Types of columns as users write them: names of SQL, and types of Python, NumPy, pandas, Polars and Arrow."""

from __future__ import annotations

import dataclasses
import datetime as dt
from decimal import Decimal
from typing import Any, Optional

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import crown
from plans.errors import PlanError
from plans.schema import Column, Schema
from tests.marks import every


def column(given: Any) -> Column:
    return Schema.of({"r": {"a": given}})["r"].columns[0]


@every([
        (int, "int64"), (str, "string"), (float, "float64"), (bool, "bool"), (bytes, "binary"), (dt.date, "date"),
        (dt.datetime, "timestamp_ntz"), (int | None, "int64"), (Optional[str], "string"),  # noqa: UP045
        (pl.Int64, "int64"), (pl.Int8, "int32"), (pl.String(), "string"), (pl.Decimal(10, 2), "decimal(10,2)"),
        (pl.Datetime("us", "UTC"), "timestamp"), (pl.Datetime, "timestamp_ntz"), (pl.Categorical, "string"),
        (pl.UInt64, "decimal(20,0)"), (np.int64, "int64"), (np.dtype("int32"), "int32"), (pd.Int64Dtype(), "int64"),
        (pa.decimal128(10, 2), "decimal(10,2)"),
        ("int", "int32"), ("varchar(10)", "string"), ("CHAR ( 3 )", "string"), ("character varying", "string"),
        ("timestamptz", "timestamp"), ("timestamp  with time zone", "timestamp"), ("datetime", "timestamp_ntz"),
        ("numeric(10,2)", "decimal(10,2)"), ("Decimal(10)", "decimal(10,0)"), ("double precision", "float64"),
        ("real", "float64"), ("bytea", "binary"), ("blob", "binary"), (pl.List(pl.Int64), "array<int64>"),
        ("ARRAY<BIGINT>", "array<int64>"), ("int[][]", "array<array<int32>>"), (list[str], "array<string>"),
        (dict[str, float], "map<string,float64>"), ("Map(varchar, decimal(4,1)[])", "map<string,array<decimal(4,1)>>"),
        ("STRUCT<A: int, `b c`: struct(x text)>", "struct<A:int32,`b c`:struct<x:string>>"),
        (pa.map_(pa.string(), pa.list_(pa.int8())), "map<string,array<int32>>"),
        (pa.struct([("a", pa.large_list(pa.date32()))]), "struct<a:array<date>>"),
    ])  # fmt: skip
def test_types_are_taken_as_users_write_them(given: Any, type_: str) -> None:
    assert column(given) == Column("a", type_)
    if isinstance(given, str):
        assert column(f"{given} NOT NULL") == Column("a", type_, True)


@every(
    [
        (Decimal, r"column r.a: the Python type Decimal does not say its digits\nhint: write 'decimal\(18,2\)'"),
        (Decimal | None, "does not say its digits"),
        (pl.Decimal, "does not say its digits"),
        ("decimal", "type 'decimal' does not say its digits"),
        ("NUMERIC", "does not say its digits"),
        (pl.Object, "is not a type of a column"),
        ("array<int", "is not supported"),
        ("map<int>", "map has two types in it"),
        ("array<>", "array has one type in it"),
        ("map<int,>", "map has two types in it"),
        ("struct<a int,>", "a field of a struct is a name and a type"),
        ("map<array<int>,int>", "a key of a map cannot be a nested value"),
        ("struct<a int, A int>", "two fields called A"),
        ("struct<int>", "a field of a struct is a name and a type"),
        (list, "the Python type list is not a type of a column"),
        (int | str, "is not a type of a column"),
        (np.dtype("M8[us]"), "type 'datetime64.us.' is not supported"),
        ([1], "a list is not a type of a column"),
        (None, "None is not a type of a column"),
        ("varchar(x)", "is not supported"),
    ]
)
def test_what_is_no_type_is_refused_with_what_to_write(given: Any, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        column(given)


def test_a_schema_of_python_types_takes_their_values() -> None:
    types = {"id": int, "name": str, "price": float, "paid": bool, "at": dt.datetime, "day": dt.date}
    row = {
        "id": 2**40,
        "name": "a",
        "price": 1.5,
        "paid": True,
        "at": dt.datetime(2024, 5, 1),
        "day": dt.date(2024, 5, 1),
    }
    view = crown.view("SELECT * FROM r", {"r": types})
    view.insert("r", [row])
    assert list(view) == [row]
    kind = dataclasses.make_dataclass("Row", list(types.items()))
    assert crown.view("SELECT * FROM r", {"r": kind}).schema == view.schema
