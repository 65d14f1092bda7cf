"""Functions of intervals: their parts, and conversions to and from integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from plans.expressions.columns import intervals
from plans.expressions.functions.function import function

_ZERO = "TIMESTAMP_MICROS(0L)"


def _same(type_: pa.DataType, value: Any) -> Any:
    """Returns the representation of an interval, which is its number of units."""
    return value


def _part(name: str) -> Callable[..., Any]:
    return lambda type_, value: intervals.part(name, type_, value)


_TYPES = {"second": "decimal(8,6)", "epoch": "float64"}
TABLE = (
    *(
        function(
            f"{name}_of_interval",
            kind,
            _TYPES.get(name, "int32"),
            _part(name),
            sql=lambda a, name=name: f"EXTRACT({name.upper()} FROM {a[0]})",
            hidden=True,
        )
        for name, (kind, _, _) in intervals.PARTS.items()
    ),
    function("micros_of", "duration", "int64", _same, sql=lambda a: f"UNIX_MICROS({_ZERO} + {a[0]})", hidden=True),
    function(
        "months_of",
        "months",
        "int32",
        _same,
        sql=lambda a: f"12 * EXTRACT(YEAR FROM {a[0]}) + EXTRACT(MONTH FROM {a[0]})",
        hidden=True,
    ),
    function("of_micros", "int64", "duration", _same, sql=lambda a: f"TIMESTAMP_MICROS({a[0]}) - {_ZERO}", hidden=True),
    function("of_months", "int32", "months", _same, sql=lambda a: f"MAKE_YM_INTERVAL(0, {a[0]})", hidden=True),
)
