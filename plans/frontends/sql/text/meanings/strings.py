"""The meaning of FORMAT, STRTOK, CONVERT to a text, COLLATE, LIST_SORT, and positions in arrays in other dialects.

Part of `plans.frontends.sql.text.meanings.calls`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from typing import Any

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.text.meanings.moments import POSTGRES
from plans.frontends.sql.text.nodes import call, literal


def as_text(value: Any) -> Any:
    """Returns a value as a text, with doubles in the notation of DuckDB."""
    return value if isinstance(value, exp.Literal) else call("AS_TEXT", value)


def _formatted(node: Any, dialect: str) -> Any:
    """Returns FORMAT as a concatenation of values and literal text. Raises PlanError for placeholders with a width or a
    type."""
    if dialect == "bigquery":
        return call("LONG_PRINTF", node.this, *node.expressions)
    if dialect not in _MARKS:
        return None
    mark, signs, lone = _MARKS[dialect]
    pattern, given = node.this, list(node.expressions)
    parts = [part[0] for part in signs.finditer(pattern.name)] if isinstance(pattern, exp.Literal) else []
    marks = parts.count(mark)
    if not parts or marks != len(given) or any(part in lone for part in parts):
        hint = f"write a pattern with {mark} for each value, or join texts with ||"
        raise PlanError("FORMAT of this form is not supported", hint=hint)
    made: list[Any] = []
    for part in parts:
        if part != mark:
            made.append(literal(part[0] if part in _DOUBLED else part))
        elif dialect == "duckdb":
            made.append(as_text(given.pop(0)))
        else:
            made.append(exp.Coalesce(this=exp.cast(given.pop(0).copy(), "string"), expressions=[literal("")]))
    return exp.paren(reduce(lambda left, right: exp.DPipe(this=left, expression=right), made, literal("")), copy=False)


_MARKS = {
    "duckdb": ("{}", re.compile(r"\{\}|\{\{|\}\}|[{}]|[^{}]+"), ("{", "}")),
    **dict.fromkeys(POSTGRES, ("%s", re.compile(r"%s|%%|%|[^%]+"), ("%",))),
}
"""For each dialect, the placeholder of a value in FORMAT, the parts of its patterns, and the beginnings of other
placeholders."""


_DOUBLED = ("%%", "{{", "}}")


def _token(node: Any, dialect: str) -> Any:
    """Returns STRTOK: a part of a text separated by any of some characters, without empty parts."""
    signs, place = node.args.get("delimiter"), node.args.get("part_index")
    if not isinstance(signs, exp.Literal) or not signs.name:
        raise PlanError("STRTOK takes constant separators", hint="write them: STRTOK(name, ' ,', 1)")
    part = exp.to_identifier("part")
    some = exp.Lambda(this=exp.NEQ(this=part, expression=literal("")), expressions=[part.copy()])
    pattern = literal("[" + re.sub(r"([\\\]\[^&-])", r"\\\1", signs.name) + "]")
    parts = call("FILTER", call("SPLIT", node.this, pattern), some)
    return call("GET", parts, exp.paren(exp.Sub(this=place.copy(), expression=exp.Literal.number(1))))


def _converted(node: Any, dialect: str) -> Any:
    """Returns CONVERT to a text type, which keeps the first characters: 30 if the type has no length."""
    type_ = node.this
    if type_.this not in exp.DataType.TEXT_TYPES or type_.this == exp.DataType.Type.TEXT:
        return None
    length = type_.expressions[0].name if type_.expressions else "30"
    whole = node.copy()
    whole.set("this", exp.DataType.build("TEXT"))
    return call("LEFT", whole, exp.Literal.number(length)) if length.isdigit() else whole


def _element_position(node: Any, dialect: str) -> Any:
    """Returns ARRAY_POSITION: in PostgreSQL and Snowflake it is NULL for a missing element; Snowflake counts from 0."""
    if dialect not in (*POSTGRES, "snowflake"):
        return None
    if isinstance(node.args.get("zero_based"), exp.Expression):
        raise PlanError("ARRAY_POSITION with a start position is not supported", hint="search in a slice of the array")
    zero = exp.Literal.number(0)
    found = call("NULLIF", call("ARRAY_POSITION", node.this, node.expression), zero)
    return found if dialect != "snowflake" else exp.paren(exp.Sub(this=found, expression=exp.Literal.number(1)))


def _sliced(node: Any, dialect: str) -> Any:
    """Returns ARRAY_SLICE, whose positions count from 0. Snowflake excludes the last position, BigQuery includes it."""
    if dialect not in ("snowflake", "bigquery"):
        return None
    ends = [node.args.get(name) for name in ("start", "end")]
    try:
        first, last = (int(one.sql()) for one in ends)
    except (AttributeError, ValueError):
        raise PlanError("ARRAY_SLICE takes constant positions", hint="write them: ARRAY_SLICE(tags, 0, 2)") from None
    first, last = first + (first >= 0), last + (last >= 0) if dialect == "bigquery" else last - (last < 0)
    return call("LIST_SLICE", node.this, *(exp.Literal.number(one) for one in (first, last)))


def _list_sort(node: Any, dialect: str) -> Any:
    """Returns LIST_SORT of DuckDB, where NULL is the greatest value of a field."""
    up, first = node.args.get("asc") or exp.true(), node.args.get("nulls_first") or exp.false()
    return call("LIST_IN_ORDER", node.this, up, first) if dialect == "duckdb" and node.expression is None else None


def _compared_by_bytes(node: Any, dialect: str) -> Any:
    """Returns the text of a COLLATE if the collation compares bytes, or is that of the columns."""
    return exp.paren(node.this.copy()) if _BYTEWISE.fullmatch(node.expression.name.upper()) else None


_BYTEWISE = re.compile(r"C|POSIX|UCS_BASIC|BINARY|DATABASE_DEFAULT|\w+_BIN2?")
"""Collations in the order of bytes, and the one that columns have."""


def _joined(node: Any, dialect: str) -> Any:
    """Returns ARRAY_TO_STRING of DuckDB, which is NULL if all elements are NULL, and takes elements of any type."""
    if dialect != "duckdb" or node.args.get("null") is not None:
        return None
    empty = exp.EQ(this=call("SIZE", node.this), expression=exp.Literal.number(0))
    found = call("LIST_AGGREGATE", node.this, literal("string_agg"), node.expression)
    return exp.If(this=empty, true=literal(""), false=found)


BUILDERS: dict[type, Callable[[Any, str], Any]] = {
    exp.ArrayToString: _joined,
    exp.ArraySort: _list_sort,
    exp.Collate: _compared_by_bytes,
    exp.Format: _formatted,
    exp.Strtok: _token,
    exp.Convert: _converted,
    exp.ArrayPosition: _element_position,
    exp.ArraySlice: _sliced,
}
"""The replacements of nodes by type. A function returns None if the node means the same as in Spark."""
