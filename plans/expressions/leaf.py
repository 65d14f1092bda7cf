"""Columns, literals and casts: the leaves of expressions. Part of `plans.expressions.build`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from plans.errors import PlanError
from plans.expressions import literals
from plans.expressions.casts.convert import castable
from plans.expressions.casts.reading import read
from plans.expressions.coercion import common
from plans.expressions.expr import Expr
from plans.nested import ARRAY, is_nested
from plans.types import MOMENTS, arrow_type

_CAST_HINTS = {
    "date": "cast text or timestamps to dates",
    "timestamp": "cast text or dates to timestamps",
    "timestamp_ntz": "cast text or dates to timestamps",
    "binary": "cast text to bytes",
}


def col(name: str, type_: str) -> Expr:
    """Returns a column."""
    return Expr("col", type_, (), name)


def lit(value: Any, type_: str | None = None) -> Expr:
    """Returns a literal. Its type follows from the Python value unless given. Raises PlanError if no column can hold
    it."""
    value, type_ = literals.checked(value, type_)
    return Expr("literal", type_, (), value)


NULL = Expr("literal", "null")
TRUE = Expr("literal", "bool", (), True)
FALSE = Expr("literal", "bool", (), False)


def agreed(values: Sequence[Expr], what: str) -> str:
    """Returns the common type of values. A date or a moment that is written as a text takes the type of the others.

    Raises PlanError, which says `what` has the values, if there is no such type.
    """
    texts = [value for value in values if value.op == "literal" and value.type == "string" and value.value is not None]
    type_ = "null"
    for value in [*(value for value in values if value not in texts), *texts]:
        both_ways = common(type_, value.type)
        if both_ways is None and value in texts and type_ in MOMENTS and folded(value, type_) is not None:
            both_ways = type_
        if both_ways is None:
            raise PlanError(f"{what} of type {type_} and {value.type}", hint="cast them to one type")
        type_ = both_ways
    return type_


def cast(arg: Expr, type_: str) -> Expr:
    """Casts to another type. A value that does not fit is NULL. Raises PlanError if there is no such conversion, and
    for a string literal that is not a value of the type."""
    if arg.type == type_:
        return arg
    if arg.type == "null" or (arg.op == "literal" and arg.value is None):
        return Expr("literal", type_)
    if arg.op == "array" and not arg.args and type_.startswith(ARRAY):  # ARRAY(), whose elements have any type
        return Expr("array", type_)
    if arg.op == "literal":
        value = folded(arg, type_)
        if value is not None:
            return value
        if never(arg, type_):
            raise PlanError(f"{arg.value!r} is not a value of type {type_}, or not in a supported form")
    if castable(arg.type, type_):
        return Expr("cast", type_, (arg,))
    hint = _CAST_HINTS.get(type_, "")
    if arg.type == "string" and is_nested(type_):
        hint = "if the text is JSON, write FROM_JSON with the type: FROM_JSON(text, 'ARRAY<INT>')"
    if is_nested(arg.type) and is_nested(type_):
        hint = "make the value of its parts, such as NAMED_STRUCT('k', x.a)"
    raise PlanError(f"a cast from {arg.type} to {type_} is not supported", hint=hint)


def never(literal: Expr, type_: str) -> bool:
    """Returns whether a literal is a text that is not a value of a type."""
    return literal.type == "string" and type_ not in ("string", "binary") and folded(literal, type_) is None


def folded(arg: Expr, type_: str) -> Expr | None:
    """Returns the literal in another type if it is exactly a value of that type (or the nearest double); else None."""
    if arg.value is None:
        return Expr("literal", type_)
    try:
        return lit(literals.converted(arg.value, arg.type, type_), type_)
    except ValueError:
        pass
    if arg.type != "string" or type_ == "binary" or is_nested(type_):
        return None
    try:
        found = read(pa.scalar(arg.value), arrow_type(type_)).as_py()
    except (ValueError, OverflowError):  # a date that Python does not support
        return None
    return None if found is None else lit(found, type_)
