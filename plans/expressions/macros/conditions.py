"""Names for choices and tests of NULL, and for casts."""

from __future__ import annotations

from plans.expressions.build import NULL, Expr, call, cast
from plans.expressions.functions.function import Macro, macro

_CASTS = {
    "int": "int32", "bigint": "int64", "double": "float64", "string": "string", "boolean": "bool", "date": "date",
    "decimal": "decimal(10,0)", "timestamp": "timestamp", "binary": "binary", "to_date": "date",
    "to_timestamp": "timestamp",
}  # fmt: skip


def _nullif(value: Expr, other: Expr) -> Expr:
    return call("case", call("eq", value, other), NULL, value)


def _nvl2(tested: Expr, value: Expr, other: Expr) -> Expr:
    return call("case", call("isnull", tested), other, value)


def _cast(name: str, type_: str) -> Macro:
    return macro(name, "any", lambda value: cast(value, type_), note="As CAST.")


TABLE = (
    macro("nullif", "any any", _nullif, note="The first value, NULL where it equals the second."),
    macro("nvl", "any any", lambda value, other: call("coalesce", value, other), also=("ifnull",)),
    macro("nvl2", "any any any", _nvl2, note="The second value where the first is not NULL, else the third."),
    macro("isnull", "any", lambda value: call("isnull", value)),
    macro("isnotnull", "any", lambda value: call("not", call("isnull", value))),
    *(_cast(name, type_) for name, type_ in _CASTS.items()),
)
