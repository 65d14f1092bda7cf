"""Values of every type that a column can have, in the types of each library, and what they are in a result.

A case is a declared type, and pairs of what a library holds and what the result must show.
"""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

D = Decimal
MIDDAY = dt.datetime(2024, 2, 29, 12, 30, 1, 250_000)
EARLY = dt.datetime(1900, 1, 1, 0, 0, 0, 1000)
BERLIN = dt.timezone(dt.timedelta(hours=1))
IDS = [uuid.UUID(int=n) for n in (0, 7, 2**128 - 1)]


class Case(NamedTuple):
    """``given`` values in a type of a library, in a column of a ``declared`` type, are ``shown`` in the result."""

    declared: str
    type: Any
    given: list[Any]
    shown: list[Any]
    told: bool = True
    """The type of the library tells the declared one."""


def same(declared: str, type_: Any, values: list[Any], told: bool = True) -> Case:
    return Case(declared, type_, values, values, told)


def whole(bits: int, signed: bool) -> list[int]:
    least = -(2 ** (bits - 1)) if signed else 0
    return [max(least, -(2**63) + 1), 0, 7, 2 ** (bits - signed) - 1]


TEXTS = ["", "é", "a text that is longer than twelve bytes", "a\0b"]
BYTES = [b"", b"\xff\0", b"some bytes that are more than twelve"]
DATES = [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]
INSTANTS = [dt.datetime(2024, 3, 31, 0, 59, tzinfo=dt.UTC), dt.datetime(1969, 12, 31, 23, tzinfo=dt.UTC)]
ARROW: dict[str, Case] = {
    "int8": same("int32", pa.int8(), whole(8, True)),
    "int16": same("int32", pa.int16(), whole(16, True)),
    "int32": same("int32", pa.int32(), whole(32, True)),
    "int64": same("int64", pa.int64(), whole(64, True)),
    "uint8": same("int32", pa.uint8(), whole(8, False)),
    "uint16": same("int32", pa.uint16(), whole(16, False)),
    "uint32": same("int64", pa.uint32(), whole(32, False)),
    "uint64": Case("decimal(20,0)", pa.uint64(), whole(64, False), [D(n) for n in whole(64, False)]),
    "small uint64": same("int64", pa.uint64(), [0, 7, 2**63 - 1], False),
    "int64 as decimal": Case("decimal(38,2)", pa.int64(), [-(2**63), 5], [D(-(2**63)), D(5)], False),
    "int64 as double": Case("float64", pa.int64(), [-(2**53), 5], [-float(2**53), 5.0], False),
    "float16": same("float64", pa.float16(), [0.5, -65504.0, 0.0]),
    "float32": same("float64", pa.float32(), [0.5, -(2.0**100), 2.0**-149]),
    "float64": same("float64", pa.float64(), [0.1, -1.7976931348623157e308, 5e-324]),
    "float64 as integer": Case("int64", pa.float64(), [-(2.0**53), 5.0], [-(2**53), 5], False),
    "bool": same("bool", pa.bool_(), [True, False]),
    "bool8": same("bool", pa.bool8(), [True, False]),
    "string": same("string", pa.string(), TEXTS),
    "large_string": same("string", pa.large_string(), TEXTS),
    "string_view": same("string", pa.string_view(), TEXTS),
    "json": same("string", pa.json_(), ["{}", '{"a": 1}']),
    "dictionary": same("string", pa.dictionary(pa.int8(), pa.string()), TEXTS * 3),
    "dictionary of views": same("string", pa.dictionary(pa.uint32(), pa.string_view()), TEXTS * 3),
    "dictionary of integers": same("int64", pa.dictionary(pa.int64(), pa.int64()), [5, 5, -7]),
    "dictionary of decimals": same("decimal(9,2)", pa.dictionary(pa.int8(), pa.decimal32(9, 2)), [D("1.25")] * 2),
    "runs": same("string", pa.run_end_encoded(pa.int32(), pa.string()), ["x", "x", "", "y", "y"]),
    "runs of views": same("string", pa.run_end_encoded(pa.int16(), pa.string_view()), ["x", "x", "", "y", "y"]),
    "runs of dates": same("date", pa.run_end_encoded(pa.int64(), pa.date32()), [DATES[0], *[DATES[1]] * 3]),
    "binary": same("binary", pa.binary(), BYTES),
    "large_binary": same("binary", pa.large_binary(), BYTES),
    "binary_view": same("binary", pa.binary_view(), BYTES),
    "binary(3)": same("binary", pa.binary(3), [b"abc", b"\0\0\0"]),
    "uuid": Case("binary", pa.uuid(), [one.bytes for one in IDS], [one.bytes for one in IDS]),
    "date32": same("date", pa.date32(), DATES),
    "date64": same("date", pa.date64(), DATES),
    "timestamp[s]": same("timestamp_ntz", pa.timestamp("s"), [MIDDAY.replace(microsecond=0)]),
    "timestamp[ms]": same("timestamp_ntz", pa.timestamp("ms"), [MIDDAY, EARLY]),
    "timestamp[us]": same("timestamp_ntz", pa.timestamp("us"), [MIDDAY, EARLY]),
    "timestamp[ns]": same("timestamp_ntz", pa.timestamp("ns"), [MIDDAY, EARLY]),
    "instants": same("timestamp", pa.timestamp("us", "UTC"), INSTANTS),
    "instants of a zone": same("timestamp", pa.timestamp("ns", "Europe/Berlin"), INSTANTS),
    "decimal32": same("decimal(9,2)", pa.decimal32(9, 2), [D("1.25"), D("-9999999.99")]),
    "decimal32 as integer": Case("int64", pa.decimal32(5, 2), [D("1.00"), D("-999.00")], [1, -999], False),
    "decimal64": same("decimal(18,4)", pa.decimal64(18, 4), [D("1.2500"), D("-99999999999999.9999")]),
    "decimal128": same("decimal(38,10)", pa.decimal128(38, 10), [D("1.25"), D("9" * 28 + "." + "9" * 10)]),
    "decimal256": same("decimal(38,10)", pa.decimal256(76, 10), [D("1.25"), D("-" + "9" * 28 + "." + "9" * 10)]),
    "decimal as double": Case("float64", pa.decimal64(9, 2), [D("0.25"), D("-1234567.5")], [0.25, -1234567.5], False),
    "decimal of a negative scale": same("decimal(7,0)", pa.decimal128(5, -2), [D("1200"), D("-9999900")]),
    "decimal of fewer digits": same("decimal(10,3)", pa.decimal128(10, 2), [D("1.25"), D("-1234567.89")], False),
    "texts of numbers": Case("int64", pa.string(), ["12", "-7"], [12, -7], False),
    "nothing": Case("string", pa.null(), [None, None], [None, None], False),
}  # fmt: skip
"""Arrow types with values that fit, and the types that are declared, or told by the Arrow type."""

PANDAS: dict[str, Case] = {
    "Int8": same("int32", "Int8", whole(8, True)),
    "Int64": same("int64", "Int64", whole(64, True)),
    "UInt64": Case("decimal(20,0)", "UInt64", whole(64, False), [D(n) for n in whole(64, False)]),
    "Float64": same("float64", "Float64", [0.5, -1e300]),
    "doubles of NumPy": same("float64", "float64", [0.5, -1e300]),
    "float32": same("float64", "float32", [0.5, -(2.0**100)]),
    "boolean": same("bool", "boolean", [True, False]),
    "object of booleans": same("bool", object, [True, False]),
    "str": same("string", "str", TEXTS),
    "string[pyarrow]": same("string", "string[pyarrow]", TEXTS),
    "object of texts": same("string", object, TEXTS),
    "category": same("string", "category", TEXTS * 2),
    "category of integers": same("int64", pd.CategoricalDtype([5, -7, 2**40]), [5, 5, -7]),
    "datetime64[ns]": same("timestamp_ntz", "datetime64[ns]", [MIDDAY, EARLY]),
    "datetime64[s]": same("timestamp_ntz", "datetime64[s]", [MIDDAY.replace(microsecond=0)]),
    "datetime64[us, Europe/Berlin]": same("timestamp", "datetime64[us, Europe/Berlin]", INSTANTS),
    "object of dates": same("date", object, DATES),
    "object of decimals": same("decimal(9,2)", object, [D("1.25"), D("-1234567.00")]),
    "object of bytes": same("binary", object, BYTES),
    "ArrowDtype of decimals": same("decimal(9,2)", pd.ArrowDtype(pa.decimal128(9, 2)), [D("1.25"), D("-0.50")]),
    "ArrowDtype of dates": same("date", pd.ArrowDtype(pa.date32()), DATES),
    "ArrowDtype of a dictionary": same("string", pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string())), TEXTS),
}
POLARS: dict[str, Case] = {
    "Int8": same("int32", pl.Int8, whole(8, True)),
    "Int64": same("int64", pl.Int64, whole(64, True)),
    "Int128": Case("decimal(38,0)", pl.Int128, [5, -(10**37)], [D(5), D(-(10**37))], False),
    "UInt8": same("int32", pl.UInt8, whole(8, False)),
    "UInt32": same("int64", pl.UInt32, whole(32, False)),
    "UInt64": Case("decimal(20,0)", pl.UInt64, whole(64, False), [D(n) for n in whole(64, False)]),
    "Float32": same("float64", pl.Float32, [0.5, -(2.0**100)]),
    "Float64": same("float64", pl.Float64, [0.1, -1e300]),
    "Boolean": same("bool", pl.Boolean, [True, False]),
    "String": same("string", pl.String, TEXTS),
    "Categorical": same("string", pl.Categorical, TEXTS * 2),
    "Enum": same("string", pl.Enum(TEXTS), TEXTS[::-1] * 2),
    "Binary": same("binary", pl.Binary, BYTES),
    "Date": same("date", pl.Date, DATES),
    "Datetime(us)": same("timestamp_ntz", pl.Datetime("us"), [MIDDAY, EARLY]),
    "Datetime(ns)": same("timestamp_ntz", pl.Datetime("ns"), [MIDDAY, EARLY]),
    "Datetime(ms, zone)": same("timestamp", pl.Datetime("ms", "Europe/Berlin"), INSTANTS),
    "Decimal": same("decimal(20,2)", pl.Decimal(20, 2), [D("1.25"), D("-123456789012345678.00")]),
    "Null": Case("int64", pl.Null, [None], [None], False),
}
NUMPY: dict[str, Case] = {
    **{f"i{n}": same("int64" if n == 8 else "int32", f"i{n}", whole(8 * n, True)) for n in (1, 2, 4, 8)},
    "u2": same("int32", "u2", whole(16, False)),
    "u4": same("int64", "u4", whole(32, False)),
    "u8": Case("decimal(20,0)", "u8", whole(64, False), [D(n) for n in whole(64, False)]),
    "f2": same("float64", "f2", [0.5, -2.0]),
    "f4": same("float64", "f4", [0.5, -(2.0**100)]),
    "f8": same("float64", "f8", [0.1, -1e300]),
    "?": same("bool", "?", [True, False]),
    "U9": same("string", "U9", ["", "é", "abcdefghi"]),
    "S3": same("binary", "S3", [b"", b"a", b"abc"]),
    "StringDType": same("string", np.dtypes.StringDType(), TEXTS[:3]),
    "M8[D]": same("date", "M8[D]", DATES),
    "M8[s]": same("timestamp_ntz", "M8[s]", [MIDDAY.replace(microsecond=0)]),
    "M8[us]": same("timestamp_ntz", "M8[us]", [MIDDAY, EARLY]),
    "M8[ns]": same("timestamp_ntz", "M8[ns]", [MIDDAY, EARLY]),
}
PYTHON: dict[str, Case] = {
    "whole": same("int64", int, whole(64, True)),
    "whole_of_65_bits": Case("decimal(38,0)", int, [2**64, -1], [D(2**64), D(-1)]),
    "double": same("float64", float, [0.1, -1e300]),
    "boolean": same("bool", bool, [True, False]),
    "str": same("string", str, TEXTS),
    "bytes": same("binary", bytes, BYTES),
    "date": same("date", dt.date, DATES),
    "datetime": same("timestamp_ntz", dt.datetime, [MIDDAY, EARLY]),
    "datetime_with_a_zone": same("timestamp", dt.datetime, [one.astimezone(BERLIN) for one in INSTANTS], False),
    "Decimal": same("decimal(7,2)", D, [D("1.25"), D("-12345.00")]),
    "Decimal_and_whole": Case("decimal(9,2)", D, [D("1.25"), 7], [D("1.25"), D(7)], False),
    "NumPy_s_whole64": same("int64", np.int64, [np.int64(5), np.int64(-7)]),
    "NumPy_s_double32": same("float64", np.float32, [np.float32(0.5)], False),
    "datetime64": Case("date", np.datetime64, [np.datetime64(one) for one in DATES], DATES),
    "Timestamp": same("timestamp_ntz", pd.Timestamp, [pd.Timestamp(MIDDAY)]),
}
DUCKDB: dict[str, Case] = {
    "INTEGER": same("int32", "INTEGER", whole(32, True)),
    "BIGINT": same("int64", "BIGINT", whole(64, True)),
    "HUGEINT": Case("decimal(38,0)", "HUGEINT", [5, -(10**37)], [D(5), D(-(10**37))]),
    "UBIGINT": Case("decimal(20,0)", "UBIGINT", whole(64, False), [D(n) for n in whole(64, False)]),
    "DOUBLE": same("float64", "DOUBLE", [0.5, -1e300]),
    "BOOLEAN": Case("bool", "BOOLEAN", ["TRUE", "FALSE"], [True, False]),
    "VARCHAR": Case(
        "string", "VARCHAR", ["''", "'é'", "'a longer text than that'"], ["", "é", "a longer text than that"]
    ),
    "ENUM": Case("string", "ENUM('x', 'y')", ["'y'", "'x'"] * 2, ["y", "x"] * 2),
    "DATE": Case("date", "DATE", ["'0001-01-01'", "'2024-02-29'"], [dt.date(1, 1, 1), dt.date(2024, 2, 29)]),
    "TIMESTAMP": Case("timestamp_ntz", "TIMESTAMP", [f"'{MIDDAY}'"], [MIDDAY]),
    "TIMESTAMP_NS": Case("timestamp_ntz", "TIMESTAMP_NS", [f"'{MIDDAY}'"], [MIDDAY]),
    "TIMESTAMPTZ": Case("timestamp", "TIMESTAMPTZ", [f"'{one}'" for one in INSTANTS], INSTANTS),
    "DECIMAL": same("decimal(20,2)", "DECIMAL(20,2)", [D("1.25"), D("-123456789012345678.00")]),
    "BLOB": Case("binary", "BLOB", ["'a\\xFF'", "''"], [b"a\xff", b""]),
}

OTHERS: dict[str, pa.Array] = {
    "list": pa.array([[1], [2]]),
    "struct": pa.array([{"a": 1}, {"a": 2}]),
    "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
    "time": pa.array([1, 2], pa.time64("us")),
    "duration": pa.array([1, 2], pa.duration("s")),
    "null": pa.nulls(2),
    "union": pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]),
    "list view": pa.array([[1], [2]], pa.list_view(pa.int64())),
    "interval": pa.array([(1, 0, 0), (4, 0, 0)], pa.month_day_nano_interval()),
    "dictionary of lists": pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array([[1]])),
}
"""Columns of types that no case above has."""
