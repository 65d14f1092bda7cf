"""Converts the values of a column to its declared type, and reports values that do not fit."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crown.ingest.tables.arrays import NATURAL, REFUSED, inferred, natural, plain
from crown.ingest.tables.columns import ABSENT, item
from crown.ingest.tables.given import Given
from crown.ingest.tables.nested import of_array, of_json, of_list, structs_for_maps
from plans.expressions.casts import convert
from plans.expressions.columns.intervals import counts
from plans.files.values import parsed
from plans.nested import has_map, is_nested
from plans.types import arrow_type


def converted(
    column: Any, name: str, kind: str, target: pa.DataType, bad: dict[int, str], rounded: bool = False
) -> Given:
    """Returns the column as ``target``, the Arrow type of ``kind``. Rows that do not fit are recorded in ``bad`` and
    become NULL.

    ``rounded``: numbers are rounded to the digits of ``target``, a decimal type.
    """
    if not len(column):
        return pa.nulls(0, target)  # an empty column fits every type
    nested = is_nested(kind)
    cast = _rounded if rounded else partial(_nested, kind=kind) if nested else _cast
    try:
        if isinstance(column, pa.Array):
            return cast(column, target)
        if nested:
            return _listed(column, kind)
        if kind in INTEGERS and set(map(type, column)) == _WHOLE:
            return np.array(column, INTEGERS[kind])
        return cast(_array(column, "" if rounded else kind, target), target)
    except REFUSED:
        pass  # find the rows that do not fit
    fitting = []
    for row in range(len(column)):
        if column[row] is ABSENT:
            bad.setdefault(row, f"column {name!r} is missing")
            fitting.append(pa.nulls(1, target))
            continue
        try:
            if nested and not isinstance(column, pa.Array):
                fitting.append(_listed([column[row]], kind))
                continue
            single = column.slice(row, 1) if isinstance(column, pa.Array) else _array([column[row]])
            fitting.append(cast(single, target))
        except REFUSED:
            found = item(column, row)
            hint = _hint(kind, found, rounded, column)
            bad.setdefault(row, f"column {name!r}: {found!r} does not fit {kind}{hint}")
            fitting.append(pa.nulls(1, target))
    return pa.concat_arrays(fitting)


def _nested(array: pa.Array, target: pa.DataType, kind: str) -> pa.Array:
    """Returns an array as one of a nested type, without changing a value. Raises ``REFUSED``."""
    if array.type == target and not has_map(kind):
        return array
    if is_text(array.type):
        return _listed(of_json(array), kind)
    return of_array(array, kind, _part)


def _part(array: pa.Array, kind: str) -> pa.Array:
    array = plain(array)
    return _nested(array, arrow_type(kind), kind) if is_nested(kind) else _cast(array, arrow_type(kind))


def _listed(values: list[Any], kind: str) -> pa.Array:
    """Returns Python values as an array of a type. Raises ``REFUSED``."""
    if any(value is ABSENT for value in values):
        raise pa.ArrowInvalid("a value is missing")
    if is_nested(kind) and not (values and set(map(type, values)) <= {str, type(None)} and any(values)):
        return of_list(values, kind, _listed)
    array = _array(values, kind, arrow_type(kind))
    return _nested(array, arrow_type(kind), kind) if is_nested(kind) else _cast(array, arrow_type(kind))


def has_no_zone(column: Any) -> bool:
    """Returns True if a column, an Arrow array or a list, has times without a zone. O(n) for lists."""
    if isinstance(column, pa.Array):
        return len(column) > 0 and pa.types.is_timestamp(column.type) and column.type.tz is None
    return True in _zones(column)


def _zones(values: list[Any]) -> set[bool]:
    """Returns True for times without a zone, False for times with one. Ignores pandas' NaT, which is no time."""
    return {value.tzinfo is None for value in values if isinstance(value, dt.datetime) and value == value}


def _hint(kind: str, value: Any, rounded: bool, column: Any) -> str:
    """Returns a hint on what to do, or an empty text. There are hints for a time with a zone in a column without one,
    for a float with more digits than a decimal, and for maps that a library has converted to structs."""
    if isinstance(column, pa.Array) and structs_for_maps(column.type, kind):
        return (
            "; the batch has a struct there, with the keys of all rows: give an Arrow map, lists of (key, value) "
            "pairs, or the batch as a list of dicts"
        )
    if kind.startswith("decimal") and isinstance(value, float) and not rounded:
        return f"; declare the column '{kind} rounded' to have floats rounded, or give a Decimal or a text"
    if kind == "timestamp_ntz" and isinstance(value, dt.datetime) and value.tzinfo is not None:
        return ": it has a time zone; declare the column timestamp, or take the zone off"
    return ""


_WHOLE = {int}
INTEGERS: dict[str, type] = {"int32": np.int32, "int64": np.int64}
_BOOLS = {bool, np.bool_}
_EXACTLY = {int, Decimal, type(None)}
"""Python types whose values are converted without checking their kinds first: Arrow accepts or rejects each value."""


def _array(values: list[Any], kind: str = "", target: pa.DataType | None = None) -> pa.Array:
    """Returns Python values as an array, of type ``target``, the Arrow type of ``kind``, if that is their natural type.

    Arrow alone would silently drop the nanoseconds of a pandas Timestamp.
    """
    types = set(map(type, values))
    if types <= NATURAL.get(kind, set()):
        return natural(values, target)
    if kind.startswith("decimal") and types <= _EXACTLY:
        return pa.array(values, target)
    if types & _BOOLS and not types <= {*_BOOLS, type(None)}:
        raise pa.ArrowInvalid("True among numbers, which Arrow would take for 1")
    if len(_zones(values)) > 1:
        raise pa.ArrowInvalid("times with and without a zone, which Arrow would take together")
    array = inferred(values)
    if pa.types.is_timestamp(array.type) and any(getattr(value, "nanosecond", 0) for value in values):
        raise pa.ArrowInvalid("nanoseconds")
    return array


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Returns the array cast to ``target``, without changing a value.

    Rejects casts between kinds (text is parsed, but nothing becomes text), and casts that do not convert back to the
    same values.
    """
    source = array.type
    if pa.types.is_interval(source):
        counts(array)  # rejects intervals that have more than months
    if source == target:
        return array
    if pa.types.is_null(source):
        return array.cast(target)
    if is_text(source):
        return parsed(array, target)
    if source in _EXACT:
        return _cast(array.cast(_EXACT[source]), target)
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target) and target.tz and not source.tz:
        return _cast(array.cast(pa.timestamp(source.unit, "UTC")), target)
    if _family(source) != _family(target):
        raise pa.ArrowInvalid(f"{source} is not {target}")
    if pa.types.is_decimal(source) or (pa.types.is_integer(source) and pa.types.is_decimal(target)):
        # Arrow requires the digits of any such integer, has no functions for short decimals, and few for negative
        # scales.
        scale = max(source.scale, 0) if pa.types.is_decimal(source) else target.scale
        array = array.cast(pa.decimal256(_MOST_DIGITS, scale))
        source = array.type
    out = array.cast(target, safe=True)
    if pa.types.is_decimal(source) and not pa.types.is_floating(target):
        return out  # exact, or rejected
    back = out.cast(source, safe=False)
    same = pc.equal(array, back)
    if pa.types.is_floating(source):
        same = pc.or_(same, pc.and_(pc.is_nan(array), pc.is_nan(back)))
    if not pc.all(same, min_count=0).as_py():
        raise pa.ArrowInvalid(f"a value of {source} does not fit {target}")
    return out


def _rounded(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Returns numbers, or texts of numbers, as decimals of ``target``, rounded half up. Rejects numbers that are too
    large. A float is read as the shortest decimal that converts to it, as in CAST."""
    source = array.type
    if pa.types.is_floating(source):
        array = array.cast(pa.float64())
    elif is_text(source) or pa.types.is_decimal256(source) or (pa.types.is_decimal(source) and source.scale < 0):
        array = array.cast(pa.string())
    elif pa.types.is_decimal(source):
        array = array.cast(pa.decimal128(source.precision, source.scale))
    else:
        return _cast(array, target)
    out = convert.cast(array, target)
    if out.null_count > array.null_count:
        raise pa.ArrowInvalid(f"a value of {source} does not fit {target}")
    return out


_EXACT = {pa.float16(): pa.float32(), pa.binary_view(): pa.binary()}
"""Types that Arrow cannot compare, and types that have all their values."""
_MOST_DIGITS = 76
_TEXT = frozenset({pa.string().id, pa.large_string().id, pa.string_view().id})


def is_text(type_: pa.DataType) -> bool:
    """Returns True for the Arrow text types."""
    return type_.id in _TEXT


def _family(type_: pa.DataType) -> str:
    """Returns the family of a type. Conversions are allowed within a family."""
    kinds = pa.types
    if kinds.is_boolean(type_):
        return "bool"
    if kinds.is_integer(type_) or kinds.is_floating(type_) or kinds.is_decimal(type_):
        return "number"
    if kinds.is_timestamp(type_):
        return "instant" if type_.tz else "wall clock"
    if kinds.is_date(type_):
        return "wall clock"
    if kinds.is_duration(type_):
        return "duration"
    if kinds.is_binary(type_) or kinds.is_large_binary(type_) or kinds.is_fixed_size_binary(type_):
        return "binary"
    return str(type_)
