"""Macros for choices and tests of NULL, and for casts."""

from __future__ import annotations

from functools import partial

from plans.expressions.build import NULL, Expr, call, cast, lit
from plans.expressions.coercion import INTEGERS, numeric
from plans.expressions.functions.function import macro
from plans.nested import is_nested, parts

_CASTS = {
    "int": "int32", "bigint": "int64", "double": "float64", "string": "string", "boolean": "bool", "date": "date",
    "decimal": "decimal(10,0)", "timestamp": "timestamp", "binary": "binary", "to_date": "date",
    "to_timestamp": "timestamp",
}  # fmt: skip


def _nullif(value: Expr, other: Expr) -> Expr:
    return call("case", call("eq", value, other), NULL, value)


def _nvl2(tested: Expr, value: Expr, other: Expr) -> Expr:
    return call("case", call("isnull", tested), other, value)


def _decoded(value: Expr, *pairs: Expr) -> Expr:
    """Returns DECODE: the result of the first search value that equals the value, where NULLs are equal; else the
    default."""
    branches = [call("nseq", value, one) if i % 2 == 0 else one for i, one in enumerate(pairs[: len(pairs) // 2 * 2])]
    found = call("case", *branches, pairs[-1] if len(pairs) % 2 else NULL)
    if len(pairs) % 2 or not numeric(found.type):
        return found
    return cast(found, "int64" if found.type in INTEGERS else "float64")  # Spark's missing default is a text


_TYPES = {"null": "void", "bool": "boolean", "int32": "int", "int64": "bigint", "float64": "double"} | {
    "duration": "interval day to second", "months": "interval year to month",
}  # fmt: skip


def _named(type_: str) -> str:
    """Returns the name of a type in Spark."""
    inside = parts(type_) if is_nested(type_) else None
    return _TYPES.get(type_, type_) if inside is None else inside.with_types([_named(part) for part in inside.types])


TABLE = (
    macro("typeof", "any", lambda value: lit(_named(value.type)), note="The types have Spark's names."),
    macro("nullif", "any any", _nullif, note="The first value, or NULL if it equals the second."),
    macro("nvl", "any any", lambda value, other: call("coalesce", value, other), also=("ifnull",)),
    macro("nvl2", "any any any", _nvl2, note="The second value if the first is not NULL, otherwise the third."),
    macro("decode", "any any any ...", _decoded, note="Values to search for, each with its result, and a default."),
    macro("equal_null", "any any", lambda left, right: call("nseq", left, right), note="Like `<=>`."),
    macro("isnull", "any", lambda value: call("isnull", value)),
    macro("isnotnull", "any", lambda value: call("not", call("isnull", value))),
    *(macro(name, "any", partial(cast, type_=type_), note="Like CAST.") for name, type_ in _CASTS.items()),
)  # fmt: skip
