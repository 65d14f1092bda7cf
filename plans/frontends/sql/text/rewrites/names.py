"""The names that PostgreSQL and its relatives give to columns without an alias: `count`, `max`, or `x` for `x::text`;
and the types that dialects give to columns of the result that are NULL.

Part of `plans.frontends.sql`; nodes are sqlglot's.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from sqlglot import exp

from plans.frontends.sql.text.meanings.moments import POSTGRES
from plans.frontends.sql.text.nodes import nodes
from plans.frontends.sql.text.place import extent, placed

_CALL = re.compile(r"(\w+)\s*\(")


def with_names(tree: Any, dialect: str, text: str) -> Any:
    """Returns a statement in which each column without an alias has the name that the dialect gives it. A column whose
    name would occur twice keeps none. `y = (SELECT ...)` of SQL Server names a subquery."""
    for item in [one for select in nodes(tree, exp.Select) for one in select.expressions]:
        if isinstance(item, exp.Subquery) and item.args.get("alias") is not None:
            value = item.copy()
            name = value.args["alias"].pop()
            item.replace(placed(exp.Alias(this=value, alias=name), extent(item)))
    for select in nodes(tree, exp.Select) if dialect in POSTGRES else ():
        names = [item.alias or _name(item, text) for item in select.expressions]
        uses = Counter(names)
        for item, name in zip(select.expressions, names, strict=True):
            if name and uses[name] == 1 and not isinstance(item, (exp.Alias, exp.Aliases, exp.Column)):
                made = exp.alias_(item.copy(), name, quoted=True)
                placed(made, extent(item))
                item.replace(made)
    return tree


_NULLS = {
    **dict.fromkeys((*POSTGRES, "snowflake", "oracle"), "text"),
    **dict.fromkeys(("duckdb", "tsql"), "int"),
    "bigquery": "bigint",
}
"""The type of a column of the result that is NULL."""


def with_nulls(tree: Any, dialect: str) -> Any:
    """Returns a statement in which NULL as a column of the result has the type of the dialect. In a set operation,
    other branches decide."""
    for item in tree.expressions if isinstance(tree, exp.Select) and dialect in _NULLS else ():
        value = item.this if isinstance(item, exp.Alias) else item
        if isinstance(value, exp.Null):
            value.replace(placed(exp.cast(value.copy(), _NULLS[dialect]), extent(item)))
    return tree


def _name(item: Any, text: str) -> str:
    """Returns the name of a value: the function that is called, or the column that is cast; else an empty text."""
    place = extent(item)
    while isinstance(item, (exp.Cast, exp.Paren, exp.Window, exp.Filter, exp.WithinGroup)):
        item = item.this
        place = extent(item) or place
    if isinstance(item, exp.Column):
        return str(item.name)
    if isinstance(item, exp.Case):
        return "case"
    if not isinstance(item, exp.Func):
        return ""
    called = _CALL.match(text, *place) if place is not None else None
    return (called[1] if called is not None else item.sql_name()).lower()
