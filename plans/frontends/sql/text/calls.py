"""What the functions of SQL are called, and which expressions they make. Part of `plans.frontends.sql`."""

from __future__ import annotations

from collections.abc import Callable

from plans.errors import PlanError
from plans.expressions.build import NULL, Expr, call, cast
from plans.expressions.functions.table import FUNCTIONS

_UNNAMED = ("plus_months", "plus_micros", "second_fraction", "tumble_start")
_NAMES = {
    **{name.upper(): name for name in FUNCTIONS if name not in _UNNAMED},
    "LCASE": "lower", "UCASE": "upper", "CHAR_LENGTH": "length", "CHARACTER_LENGTH": "length", "LEN": "length",
    "SUBSTR": "substring", "BTRIM": "trim", "POW": "power", "SIGNUM": "sign", "CEILING": "ceil",
    "DAYOFMONTH": "day", "DAYOFYEAR": "dayofyear", "DATEADD": "date_add", "DATE_DIFF": "datediff",
    "REGEXP": "regexp_like", "RLIKE": "regexp_like",
}  # fmt: skip
_REORDERED = {"INSTR": ("locate", (1, 0)), "POSITION": ("locate", (0, 1, 2)), "CHARINDEX": ("locate", (0, 1, 2))}
_CASTS = {
    "INT": "int32", "BIGINT": "int64", "DOUBLE": "float64", "STRING": "string", "BOOLEAN": "bool", "DATE": "date",
    "DECIMAL": "decimal(10,0)", "TIMESTAMP": "timestamp", "TO_DATE": "date", "TO_TIMESTAMP": "timestamp",
    "BINARY": "binary",
}  # fmt: skip


def _length(value: Expr) -> Expr:
    return call("octet_length" if value.type == "binary" else "length", value)


def _nullif(value: Expr, other: Expr) -> Expr:
    """Returns the value, unless it equals the other."""
    return call("case", call("eq", value, other), NULL, value)


def _nvl(value: Expr, other: Expr) -> Expr:
    return call("coalesce", value, other)


def _nvl2(tested: Expr, value: Expr, other: Expr) -> Expr:
    return call("case", call("isnull", tested), other, value)


_MADE: dict[str, tuple[int, Callable[..., Expr]]] = {
    "NULLIF": (2, _nullif),
    "NVL": (2, _nvl),
    "IFNULL": (2, _nvl),
    "NVL2": (3, _nvl2),
    "ABS": (1, lambda value: call("abs", value)),
    "ISNULL": (1, lambda value: call("isnull", value)),
    "ISNOTNULL": (1, lambda value: call("not", call("isnull", value))),
    **dict.fromkeys(("LENGTH", "CHAR_LENGTH", "CHARACTER_LENGTH", "LEN"), (1, _length)),
}
BY_NAME = frozenset({*_NAMES, *_REORDERED, *_CASTS, *_MADE}) - {"DATE", "BOOLEAN"}
"""The names in capitals of the functions that `named` knows."""


def named(name: str, args: list[Expr]) -> Expr | None:
    """Returns the expression of a call by its name in capitals; None if there is no such function here."""
    if name in _MADE:
        count, make = _MADE[name]
        if len(args) != count:
            raise PlanError(f"{name} takes {count} argument{'s' * (count > 1)}, not {len(args)}")
        return make(*args)
    if name in _REORDERED:
        op, order = _REORDERED[name]
        if len(args) > len(order):
            raise PlanError(f"{name} takes at most {len(order)} arguments, not {len(args)}")
        return call(op, *(args[place] for place in order if place < len(args)))
    if name in _CASTS and len(args) == 1:
        return cast(args[0], _CASTS[name])
    if name in _CASTS:
        raise PlanError(f"{name} with a format is not supported", hint="write dates as year-month-day")
    if name == "LOG" and len(args) == 1:
        return call("ln", *args)
    if name in ("LTRIM", "RTRIM", "TRIM") and len(args) == 2:  # Spark names the characters first
        return call(name.lower(), args[1], args[0])
    return call(_NAMES[name], *args) if name in _NAMES else None
