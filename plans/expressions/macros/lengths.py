"""Macros for intervals made of numbers."""

from __future__ import annotations

from functools import reduce

from plans.expressions.build import Expr, call, cast, lit
from plans.expressions.functions.clock.spans import MICROS
from plans.expressions.functions.function import macro

_UNITS = ("day", "hour", "minute")


def _duration(*parts: Expr) -> Expr:
    sizes = [
        call("mul", cast(part, "int64"), lit(MICROS[unit], "int64")) for part, unit in zip(parts, _UNITS, strict=False)
    ]
    if len(parts) > len(_UNITS):
        micros = call("mul", cast(parts[-1], "decimal(18,6)"), lit(MICROS["second"]))
        sizes.append(cast(micros, "int64"))
    return call("of_micros", reduce(lambda one, two: call("add", one, two), sizes))


def _months(years: Expr, months: Expr | None = None) -> Expr:
    whole = call("mul", cast(years, "int32"), lit(12))
    return call("of_months", whole if months is None else call("add", whole, cast(months, "int32")))


_LARGE = "a length that does not fit"
TABLE = (
    macro(
        "make_dt_interval",
        "int32 [int32] [int32] [decimal(18,6)]",
        _duration,
        null=_LARGE,
        note="Days, hours, minutes, seconds.",
    ),
    macro("make_ym_interval", "int32 [int32]", _months, null=_LARGE, note="Years and months."),
)
