"""A batch without rows changes nothing, whatever the types of its columns are: a library that has seen no value makes
up one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import crown

TYPES = (
    "bool", "int32", "int64", "float64", "string", "binary", "date", "timestamp", "timestamp_ntz", "decimal(10,2)",
    "decimal(10,2) rounded", "string not null", "array<string>", "map<string,int64>", "struct<a:int64,b:array<date>>",
)  # fmt: skip
ARROW = (
    pa.null(), pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.string(), pa.string_view(),
    pa.large_binary(), pa.date64(), pa.time32("s"), pa.timestamp("ns"), pa.timestamp("s", "Asia/Tokyo"),
    pa.duration("s"), pa.decimal256(70, -3), pa.list_(pa.int8()), pa.map_(pa.bool_(), pa.bool_()), pa.struct([]),
    pa.dictionary(pa.int8(), pa.string()), pa.list_view(pa.string()),
)  # fmt: skip
EMPTY: dict[str, Callable[[], Any]] = {
    "dicts": list,
    "lists": lambda: {"x": []},
    "lists with weights": lambda: {"x": [], "_weight": []},
    "pandas": lambda: pd.DataFrame({"x": []}),
    "pandas with weights": lambda: pd.DataFrame({"x": [], "_weight": []}, dtype=object),
    "pandas floats": lambda: pd.DataFrame({"x": [1.5]})[:0],
    "pandas times": lambda: pd.DataFrame({"x": [pd.Timestamp(0)]})[:0],
    "Polars": lambda: pl.DataFrame({"x": []}),
    "Polars booleans": lambda: pl.DataFrame({"x": [True]}).clear(),
    "NumPy": lambda: {"x": np.array([], bool)},
    **{f"Arrow {type_}": lambda type_=type_: pa.table({"x": pa.array([], type_)}) for type_ in ARROW},  # type: ignore
    "Arrow without chunks": lambda: pa.table({"x": pa.chunked_array([], pa.bool_())}),
    "Arrow weights": lambda: pa.record_batch({"x": pa.array([], pa.null()), "_weight": pa.array([], pa.bool_())}),
}


@pytest.mark.parametrize("make", EMPTY.values(), ids=EMPTY)
def test_nothing_happens(make: Callable[[], Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a batch without times has no times without a zone
        for type_ in TYPES:
            view = crown.view("SELECT x FROM q", schema={"q": {"x": type_}})
            for _ in range(2):
                assert view.apply({"q": make()}).num_rows == 0, type_
            assert view.count() == 0


@pytest.mark.parametrize("make", EMPTY.values(), ids=EMPTY)
def test_nothing_happens_between_other_batches(make: Callable[[], Any]) -> None:
    view = crown.view("SELECT x, COUNT(*) AS n FROM q GROUP BY x", schema={"q": {"x": "string"}})
    view.apply({"q": [{"x": "a"}]})
    assert view.apply({"q": make()}).num_rows == 0
    view.apply({"q": pa.table({"x": ["a"]})})
    assert view.apply({"q": make()}).num_rows == 0
    assert list(view) == [{"x": "a", "n": 2}]
    view.check_invariants()
