"""Types of columns: their names, and the Arrow types that carry their values.

A type is a string: bool, int32, int64, float64, string, binary, date, timestamp (an instant, UTC), timestamp_ntz (a
wall clock reading), duration (INTERVAL DAY TO SECOND, microseconds), months (INTERVAL YEAR TO MONTH), decimal(p,s), or
a nested type (`plans.nested`): array<T>, map<K,V>, struct<a:T,b:U>.
"""

from __future__ import annotations

import datetime as dt
import re
import sys
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any, get_args, get_origin

import numpy as np
import pyarrow as pa

from plans.errors import PlanError
from plans.nested import ARRAY, MAP, STRUCT, Parts, array_of, is_nested, map_of, parts, struct_of

_ARROW = {
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "duration": pa.duration("us"),
    "months": pa.month_day_nano_interval(),
}
_NAMES = {
    "bool": "boolean", "int32": "tinyint, smallint, short, byte, int8, int16, int, integer", "int64": "bigint, long",
    "float64": "double, float, float32, double precision, real", "binary": "bytes, blob, bytea", "date": "date32",
    "string": "str, varchar, char, character varying, text", "timestamp_ntz": "timestamp without time zone, datetime",
    "timestamp": "timestamp_ltz, timestamptz, timestamp with time zone",
}  # fmt: skip
_ALIASES = {name: type_ for type_, names in _NAMES.items() for name in names.split(", ")}
_PYTHON = {
    bool: "bool", int: "int64", float: "float64", str: "string", bytes: "binary", dt.date: "date",
    dt.datetime: "timestamp_ntz", dt.timedelta: "duration",
}  # fmt: skip
_SPAN = re.compile(r"interval (year|month|day|hour|minute|second)(?: to (?:month|hour|minute|second))?")
_LENGTH = re.compile(r"(varchar|char|character varying)\s*\(\s*\d+\s*\)")
_DIGITS = re.compile(r"(?:decimal|numeric)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")


MOMENTS = ("date", "timestamp", "timestamp_ntz")
INTERVALS = ("duration", "months")
"""Types of intervals. A code is an integer number of their unit, a microsecond or a month."""


MOST_DIGITS = 38
ONE_WORD_DIGITS = 18
"""The most digits of a decimal that fit 64 bits. A decimal with more digits has another code, and is never equal to one
with fewer."""


@cache
def decimal_parts(type_: str) -> tuple[int, int] | None:
    """Returns precision and scale of `decimal(p,s)`; None for any other type."""
    match = _DECIMAL.fullmatch(type_)
    return (int(match[1]), int(match[2])) if match else None


@cache
def in_a_word(type_: str) -> bool:
    """Returns whether the code of a value of this type is one word that is ordered as the values are."""
    digits = decimal_parts(type_)
    short = digits is None or digits[0] <= ONE_WORD_DIGITS
    return short and type_ not in ("string", "binary") and not is_nested(type_)


def exact_scale(type_: str) -> int | None:
    """Returns the number of decimal places of an exact numeric type, or None for other types."""
    if type_ in ("int32", "int64"):
        return 0
    parts = decimal_parts(type_)
    return None if parts is None else parts[1]


def normal_type(type_: str) -> str:
    """Returns the planner's name of a type given by any usual name (`bigint`, `DOUBLE`, ...)."""
    if not isinstance(type_, str):
        raise PlanError(f"{shown(type_)} is not a type", hint="write its name, like 'int64' or 'string'")
    return _normal(type_)


@lru_cache(4096)
def _normal(type_: str) -> str:
    if why_untyped(type_) is not None:
        return type_
    inside = _parts(type_)
    if inside is not None:
        return inside.with_types([_normal(part) for part in inside.types])
    name = " ".join(type_.lower().split())
    name = _LENGTH.sub(r"\1", name)  # the declared length of a text is ignored
    name = _ALIASES.get(name, name)
    if name in ("decimal", "numeric"):
        raise PlanError(f"type {type_!r} does not say its digits", hint=_SAY_DIGITS)
    span = _SPAN.fullmatch(name)
    if span is not None:
        return "months" if span[1] in ("year", "month") else "duration"
    if name == "interval":
        raise PlanError(
            "an INTERVAL has months, or a fixed length", hint="write 'months', or 'duration' (days and less)"
        )
    digits = _DIGITS.fullmatch(name)
    if digits is not None:
        parts = int(digits[1]), int(digits[2] or 0)
        if not (1 <= parts[0] <= MOST_DIGITS and 0 <= parts[1] <= parts[0]):
            raise PlanError(f"decimal({parts[0]},{parts[1]}) is out of range", hint="use 1 <= p <= 38 and 0 <= s <= p")
        return f"decimal({parts[0]},{parts[1]})"
    if name not in _ARROW:
        known = ", ".join([*_ARROW, "decimal(p,s)", "array<T>", "map<K,V>", "struct<a:T>"])
        raise PlanError(f"type {type_!r} is not supported", hint=f"use one of {known}")
    return name


def whole_span(name: str) -> str:
    """Returns the interval type with a name in SQL. Raises PlanError for an interval that keeps only part of its
    fields."""
    if name.lower() not in ("interval day to second", "interval year to month"):
        hint = "use INTERVAL DAY TO SECOND or INTERVAL YEAR TO MONTH, which can be cast further"
        raise PlanError(f"a cast of another type to {name.upper()} is not supported", hint=hint)
    return normal_type(name)


def _parts(type_: str) -> Parts | None:
    """Returns the parts of a nested type, or None for other types. Raises PlanError if it is misspelled, or a key is
    nested."""
    try:
        found = parts(type_)
    except ValueError as error:
        raise PlanError(f"type {type_!r}: {error}", hint="write array<T>, map<K,V> or struct<a:T,b:U>") from None
    if found is not None and found.kind == MAP and parts(found.types[0]) is not None:
        raise PlanError(
            f"type {type_!r}: a key of a map cannot be a nested value", hint="make the key a text or a number"
        )
    if found is not None and "null" in found.types:
        raise PlanError(f"type {type_!r} has a part without a type", hint="write CAST(ARRAY() AS ARRAY<INT>)")
    if found is not None:
        without_lengths(found.with_types([normal_type(part) for part in found.types]))
    return found


_AS_NUMBER = "write EXTRACT(EPOCH FROM d), its seconds, or 12 * EXTRACT(YEAR FROM m) + EXTRACT(MONTH FROM m)"


def without_lengths(type_: str) -> str:
    """Returns a type unchanged, given by its normal name. Raises PlanError if one of its parts is an interval."""
    found = parts(type_) if is_nested(type_) else None
    for part in found.types if found is not None else ():
        if without_lengths(part) in INTERVALS:
            raise PlanError(f"type {type_!r}: a part of another type cannot be an INTERVAL", hint=_AS_NUMBER)
    return type_


_SAY_DIGITS = "write 'decimal(18,2)': 18 digits, 2 of them after the point"


def type_of_python(given: Any) -> str:
    """Returns the planner type for a Python, NumPy or Polars type, perhaps with `| None`. Raises PlanError for others.

    `int` is int64. A `datetime` has no time zone: the type is timestamp_ntz.
    """
    if get_origin(given) is list:
        return array_of(type_of_python(get_args(given)[0]))
    if get_origin(given) is dict:
        return map_of(*map(type_of_python, get_args(given)))
    options = [part for part in get_args(given) if part is not type(None)]
    if len(options) == 1 and len(get_args(given)) == 2:
        return type_of_python(options[0])
    kind = given if isinstance(given, type) else type(given)
    if given is Decimal or (kind.__module__.startswith("polars") and given is kind and kind.__name__ == "Decimal"):
        raise PlanError(f"{shown(given)} does not say its digits", hint=_SAY_DIGITS)
    if kind.__module__.startswith("polars.datatypes") and kind.__name__ != "Object":
        return type_of_arrow(sys.modules["polars"].Series("", [], dtype=given).to_arrow().type)
    if isinstance(given, np.dtype) and given.kind == "m":
        return "duration"
    if isinstance(given, type) and issubclass(given, np.generic):
        return normal_type(np.dtype(given).name)
    if isinstance(given, np.dtype) or hasattr(given, "na_value"):  # of pandas
        return normal_type(str(given))
    if isinstance(given, type) and given in _PYTHON:
        return _PYTHON[given]
    raise PlanError(f"{shown(given)} is not a type of a column", hint="write its name, like 'int64' or 'string'")


_UNTYPED = "no type: "


def untyped(why: str) -> str:
    """Returns the type of a column without a type, for the given reason. A query that reads the column is rejected."""
    return _UNTYPED + why


def why_untyped(type_: str) -> str | None:
    """Returns the reason why a column has no type, or None if it has one."""
    return type_.removeprefix(_UNTYPED) if type_.startswith(_UNTYPED) else None


@cache
def arrow_type(type_: str) -> pa.DataType:
    """Returns the Arrow type that carries values of a planner type. Raises PlanError for a column without a type."""
    why = why_untyped(type_)
    if why is not None:
        raise PlanError(f"a column is read that has no type: {why}")
    if is_nested(type_):
        return _arrow_nested(normal_type(type_))
    digits = decimal_parts(type_)
    return pa.decimal128(*digits) if digits is not None else _ARROW[normal_type(type_)]


def _arrow_nested(type_: str) -> pa.DataType:
    found = parts(type_)
    assert found is not None, "a nested type has parts"
    types = [arrow_type(part) for part in found.types]
    if found.kind == STRUCT:
        return pa.struct(list(zip(found.names, types, strict=True)))
    return pa.list_(types[0]) if found.kind == ARRAY else pa.map_(*types)


STORED = frozenset({"arrow.json", "arrow.uuid", "arrow.bool8"})
"""Extension types of Arrow whose stored values are used directly."""


def plain_type(type_: pa.DataType) -> pa.DataType:
    """Returns the type of the values of an Arrow type: those of a dictionary or of runs, or those that an extension
    type stores."""
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return plain_type(type_.value_type)
    if isinstance(type_, pa.BaseExtensionType) and type_.extension_name in STORED:
        return pa.bool_() if type_.extension_name == "arrow.bool8" else plain_type(type_.storage_type)
    return type_


_LISTS = (
    pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view,
    pa.types.is_large_list_view,
)  # fmt: skip


_OF_ARROW = {
    "bool": (pa.types.is_boolean,),
    "int32": (pa.types.is_int8, pa.types.is_int16, pa.types.is_int32, pa.types.is_uint8, pa.types.is_uint16),
    "int64": (pa.types.is_int64, pa.types.is_uint32),
    "float64": (pa.types.is_floating,),
    "string": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    "decimal(20,0)": (pa.types.is_uint64,),
    "binary": (
        pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view,
    ),
    "date": (pa.types.is_date,),
    "duration": (pa.types.is_duration,),
    "months": (pa.types.is_interval,),
}  # fmt: skip


def type_of_arrow(type_: pa.DataType) -> str:
    """Returns the planner type for an Arrow type. Narrow integers and floats widen. Raises PlanError if there is none.

    Unsigned integers of 64 bits are decimals, which contain all their values.
    """
    kinds, type_ = pa.types, plain_type(type_)
    for name, tests in _OF_ARROW.items():
        if any(test(type_) for test in tests):
            return name
    if kinds.is_timestamp(type_):
        return "timestamp" if type_.tz else "timestamp_ntz"
    if kinds.is_decimal(type_):
        scale = min(max(type_.scale, 0), MOST_DIGITS)
        digits = max(type_.precision - min(type_.scale, 0), scale)  # before and after the decimal point
        return f"decimal({min(digits, MOST_DIGITS)},{scale})"
    if kinds.is_struct(type_) and type_.num_fields:
        fields = [type_.field(i) for i in range(type_.num_fields)]
        return normal_type(struct_of([field.name for field in fields], [type_of_arrow(field.type) for field in fields]))
    if kinds.is_map(type_):
        return normal_type(map_of(type_of_arrow(type_.key_type), type_of_arrow(type_.item_type)))
    if any(is_list(type_) for is_list in _LISTS):
        return array_of(type_of_arrow(type_.value_type))
    if kinds.is_null(type_):
        raise PlanError(
            "the column has no value from which to infer its type",
            hint="declare the columns of its table in the schema",
        )
    raise PlanError(f"Arrow type {type_} is not supported", hint="cast the column, or leave it out of the query")


def shown(given: Any) -> str:
    """Returns a user's argument in words: short values themselves, others by their type."""
    if given is None or isinstance(given, (str, int, float, bool, bytes)):
        return repr(given)
    name = given.__name__ if isinstance(given, type) else type(given).__name__
    what = "type" if isinstance(given, type) else "an" if name[0].lower() in "aeiou" else "a"
    return f"the Python {what} {name}" if isinstance(given, type) else f"{what} {name}"
