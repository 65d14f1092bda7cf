"""Aliases of the SELECT list that other items use: `SELECT a + 1 AS b, b * 2 AS c`. Part of `plans.frontends.sql`.

A name that is not a column of FROM is replaced by the expression of the alias. An alias may be used after its
definition in the SELECT list, and in WHERE if the dialect allows it.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from plans.frontends.sql.scope import Scope
from plans.frontends.sql.text.place import extent, placed


def with_meanings(node: exp.Select, scope: Scope) -> None:
    """Replaces aliases in a SELECT by their expressions. The scope has the relations of its FROM."""
    named: dict[str, list[exp.Expression]] = {}
    for item in list(node.expressions):
        _put(item, named, scope)
        if isinstance(item, exp.Alias):
            named.setdefault(item.alias.lower(), []).append(item)
    where = node.args.get("where")
    if where is not None and where.args.get("aliases"):
        _put(where, named, scope)


def _put(node: exp.Expression, named: dict[str, list[exp.Expression]], scope: Scope) -> None:
    """Replaces the names below a node that are aliases and not columns."""
    for column in list(_columns(node)):
        first, *fields = column.parts
        found = named.get(first.name.lower(), [])
        if not found or scope.columns_named(first.name) or (fields and scope.relation(first.name) is not None):
            continue
        if len(found) > 1:
            message = f"{first.name} is the name of {len(found)} selected columns"
            raise scope.text.error(message, column, "give them different names")
        made: exp.Expression = exp.Paren(this=found[0].this.copy())
        for name in fields:
            made = exp.Dot(this=made, expression=name.copy())
        if column is node:
            made = exp.Alias(this=made, alias=exp.to_identifier(column.name, quoted=True))
        column.replace(placed(made, extent(column)))


def _columns(node: exp.Expression) -> Iterator[exp.Column]:
    """Yields the columns of an expression, without those of its subqueries. Iterative, because chains may be deep."""
    todo = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, exp.Column) and not isinstance(part.this, exp.Star):
            yield part
        elif not isinstance(part, exp.Query):
            todo += part.iter_expressions()
