"""Functions of dates and moments. The date and the time of an instant are those in UTC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from plans.errors import PlanError
from plans.expressions.columns import dates, decimals
from plans.expressions.columns.arrays import array_of, null, on_arrays, words
from plans.expressions.functions.function import arrays, function, same_type

_CLOCK = {"hour": (3_600 * dates.SECOND, 24), "minute": (60 * dates.SECOND, 60), "second": (dates.SECOND, 60)}
_UNITS = {
    "year": "year", "yyyy": "year", "yy": "year", "quarter": "quarter", "month": "month", "mm": "month",
    "mon": "month", "week": "week",
}  # fmt: skip
FIXED_UNITS = {
    "day": dates.DAY, "dd": dates.DAY, "hour": 3_600 * dates.SECOND, "minute": 60 * dates.SECOND,
    "second": dates.SECOND, "millisecond": 1_000, "microsecond": 1,
}  # fmt: skip
_NAMED_PARTS: dict[str, tuple[str, ...]] = {**dict.fromkeys(dates.PART, ()), "day": ("dayofmonth",)}
_HIDDEN_PARTS = {"yearofweek": "YEAROFWEEK", "dayofweek_iso": "DOW_ISO"}
_WRAPS = "Also DATE `+` and `-` whole numbers. Days beyond the last date wrap around, as in Spark."
_SHORT_MONTH = "If the month is too short, the result is its last day."
_MONTHS = {"year": 12, "quarter": 3, "month": 1}


def _part(name: str) -> Callable[..., Any]:
    return lambda type_, value: pc.cast(dates.part(name, value), type_)


def _clock(name: str) -> Callable[..., Any]:
    size, count = _CLOCK[name]
    return arrays(lambda type_, array: array_of((dates.clock_of(array) // size % count).astype(np.int32), type_, array))


def _seconds(type_: pa.DataType, array: pa.Array) -> pa.Array:
    """Returns the seconds of the minute, including their fraction."""
    micros = array_of(dates.clock_of(array) % (60 * dates.SECOND), pa.int64(), array)
    return decimals.of_unscaled(micros, type_)


def _floor_day(days: np.ndarray, unit: str) -> np.ndarray:
    if unit == "week":
        return days - (days + 3) % 7
    size = _MONTHS[unit]
    return dates.first_day(dates.months_of(days) // size * size)


def _date_truncated(type_: pa.DataType, value: Any, unit: Any) -> Any:
    wanted = _UNITS[unit.as_py().lower()]
    return on_arrays(lambda array: dates.of_days(_floor_day(dates.days_of(array), wanted), array), value)


def _truncated(type_: pa.DataType, unit: Any, value: Any) -> Any:
    name = unit.as_py().lower()

    def truncate(array: pa.Array) -> pa.Array:
        if name in _UNITS:
            return dates.of_moments(_floor_day(dates.days_of(array), _UNITS[name]), 0, type_, array)
        clock = dates.clock_of(array)
        return dates.of_moments(dates.days_of(array), clock - clock % FIXED_UNITS[name], type_, array)

    return on_arrays(truncate, value)


def _unit_type(position: int, name: str, units: Sequence[str], type_: str) -> Callable[..., str]:
    def gives(types: Sequence[str], values: Sequence[Any]) -> str:
        unit = values[position]
        if unit is not None and unit.lower() not in units:
            raise PlanError(f"{name} does not know the unit {unit!r}", hint="use one of " + ", ".join(units))
        return type_

    return gives


def _with_count(function: Callable[[pa.Array, np.ndarray, pa.Array], pa.Array]) -> Callable[..., Any]:
    """Returns an evaluator of a date or moment and a count; NULL where the count is NULL."""

    def evaluate(type_: pa.DataType, array: pa.Array, counts: pa.Array) -> pa.Array:
        kind = np.int32 if counts.type == pa.int32() else np.int64
        valid = pc.and_(pc.is_valid(array), pc.is_valid(counts))
        like = pc.if_else(valid, True, null(pa.bool_()))
        return function(array, words(counts, kind).astype(np.int64), like)

    return arrays(evaluate)


def _wrapped(days: np.ndarray, like: pa.Array) -> pa.Array:
    """Returns 32-bit dates, which wrap around on overflow, as in Spark."""
    return array_of(days.astype(np.int32), pa.date32(), like)


def _months_later(array: pa.Array, months: np.ndarray, like: pa.Array) -> pa.Array:
    days = dates.shifted(dates.days_of(array), months)
    if pa.types.is_date(array.type):
        return dates.of_days(days, like)
    return dates.of_moments(days, dates.clock_of(array), array.type, like)


def _micros_later(array: pa.Array, micros: np.ndarray, like: pa.Array) -> pa.Array:
    given = words(array, np.int64)
    with np.errstate(over="ignore"):
        total = given + micros
    lost = ((given ^ total) & (micros ^ total)) < 0
    found = array_of(total, array.type, like)
    return pc.if_else(pa.array(lost), null(array.type), found) if lost.any() else found


def _window_start(type_: pa.DataType, value: Any, length: Any) -> Any:
    """Returns the latest multiple of a length, counted from 1970, that is not after a moment; NULL if there is none."""
    size = length.as_py() if length.is_valid else 0

    def compute(array: pa.Array) -> pa.Array:
        given = words(array, np.int64)
        with np.errstate(over="ignore"):
            start = given - given % size if size > 0 else given
        lost = start > given if size > 0 else np.ones(len(given), bool)
        found = array_of(start, type_, array)
        return pc.if_else(pa.array(lost), null(type_), found) if lost.any() else found

    return on_arrays(compute, value)


def _difference(type_: pa.DataType, later: pa.Array, earlier: pa.Array) -> pa.Array:
    days = (dates.days_of(later) - dates.days_of(earlier)).astype(np.int32)
    found = array_of(days, type_, later)
    return pc.if_else(pc.is_valid(earlier), found, null(type_)) if earlier.null_count else found


def _last_day(type_: pa.DataType, array: pa.Array) -> pa.Array:
    return _wrapped(dates.first_day(dates.months_of(dates.days_of(array)) + 1) - 1, array)


def _made(type_: pa.DataType, *parts: pa.Array) -> pa.Array:
    """Returns MAKE_DATE: NULL where the calendar has no such day."""
    year, month, day = (words(part, np.int32).astype(np.int64) for part in parts)
    months = (year - 1970) * 12 + month - 1
    first = dates.first_day(months)
    good = (month >= 1) & (month <= 12) & (day >= 1) & (day <= dates.first_day(months + 1) - first)
    for part in parts:
        good &= part.is_valid().to_numpy(zero_copy_only=False)
    found = dates.of_days(np.where(good, first + day - 1, 0), parts[0])
    return pc.if_else(pa.array(good), found, null(type_))


def _interval(unit: str) -> Callable[[Sequence[str]], str]:
    def text(a: Sequence[str]) -> str:
        if not a[1].strip("()L").lstrip("-").isdigit():
            return f"TIMESTAMPADD({'MONTH' if unit == 'MONTH' else 'MICROSECOND'}, {a[1]}, {a[0]})"
        count = int(a[1].strip("()L"))
        if unit == "MONTH":
            return f"{a[0]} + INTERVAL '{count}' MONTH"
        whole, rest = divmod(abs(count), dates.SECOND)
        return f"{a[0]} + INTERVAL '{'-' if count < 0 else ''}{whole}.{rest:06}' SECOND"

    return text


TABLE = (
    *(
        function(name, "calendar", "int32", _part(name), also=also, note="Sunday is 1." * (name == "dayofweek"))
        for name, also in _NAMED_PARTS.items()
        if name not in _HIDDEN_PARTS
    ),
    *(function(name, "moment", "int32", _clock(name)) for name in _CLOCK),
    function("second_fraction", "moment", "decimal(8,6)", arrays(_seconds),
             sql=lambda a: f"EXTRACT(SECOND FROM {a[0]})", hidden=True),
    function("date_trunc", "unit timestamp", _unit_type(0, "DATE_TRUNC", (*_UNITS, *FIXED_UNITS), "timestamp"),
             _truncated),
    function("trunc", "date unit", _unit_type(1, "TRUNC", tuple(_UNITS), "date"), _date_truncated),
    function("date_add", "date int32", "date", also=("dateadd",), note=_WRAPS,
             evaluate=_with_count(lambda array, counts, like: _wrapped(dates.days_of(array) + counts, like))),
    function("date_sub", "date int32", "date", note=_WRAPS,
             evaluate=_with_count(lambda array, counts, like: _wrapped(dates.days_of(array) - counts, like))),
    function("add_months", "date int32", "date", _with_count(_months_later), null="a date outside the calendar",
             note=_SHORT_MONTH),
    function("plus_months", "moment int32", same_type, _with_count(_months_later), sql=_interval("MONTH"), hidden=True),
    function("plus_micros", "moment int64", same_type, _with_count(_micros_later), sql=_interval("SECOND"),
             hidden=True),
    *(
        function(
            name, "calendar", "int32", _part(name), hidden=True, sql=lambda a, unit=unit: f"EXTRACT({unit} FROM {a[0]})"
        )
        for name, unit in _HIDDEN_PARTS.items()
    ),
    function("tumble_start", "moment =int64", same_type, _window_start, hidden=True,
             sql=lambda a: f"TIMESTAMP_MICROS(UNIX_MICROS({a[0]}) - PMOD(UNIX_MICROS({a[0]}), {a[1]}))"),
    function("datediff", "date date", "int32", arrays(_difference), also=("date_diff",),
             note="The number of days. The end is the first argument."),
    function("last_day", "date", "date", arrays(_last_day)),
    function("make_date", "int32 int32 int32", "date", arrays(_made), null="a date that does not exist"),
)  # fmt: skip
