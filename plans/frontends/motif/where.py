"""Conditions over the elements of a motif, in SQL: `a.id <> c.id AND e.kind = 'friend'`."""

from __future__ import annotations

from collections.abc import Mapping

from plans.errors import PlanError, Position
from plans.expressions.build import Expr
from plans.queries.algebra import Query
from plans.schema import Column, Schema, Table

_SAID = "_"
"""The table of the columns that are not structs: `_hop`, `_pattern` and `_direction`."""


def conditions(text: str, elements: Mapping[str, Mapping[str, str]], dialect: str = "spark") -> tuple[Expr, ...]:
    """Returns the conjuncts of a condition, over columns named `element.field`.

    `elements`: the types of the fields of each element. A column that is not a struct has the single field ``""``.
    Raises PlanError, with the position in `text`, for a text that is not a condition over them.
    """
    from plans.frontends.sql import query as sql

    plain = {name: fields[""] for name, fields in elements.items() if "" in fields}
    tables = [Table(name, tuple(Column(*field) for field in fields.items()))
              for name, fields in elements.items() if "" not in fields]  # fmt: skip
    if plain:
        tables.append(Table(_SAID, tuple(Column(*field) for field in plain.items())))
    head = f"SELECT 1 AS one FROM {', '.join(f'`{table.name}`' for table in tables)} WHERE\n"
    if dialect == "ansi":
        head = head.replace("`", '"')
    try:
        read = sql.parse(head + text, Schema(tuple(tables)), dialect=dialect)
    except PlanError as error:
        raise _without_head(error, text) from None
    if not isinstance(read, Query) or len(read.sources) != len(tables):
        raise PlanError("motif: where= is a condition over the elements of the motif, without subqueries",
                        hint="write a.id <> c.id; for the rest use a query over the view")  # fmt: skip
    return tuple(_local(part, plain) for part in read.conditions)


def _local(part: Expr, plain: Mapping[str, str]) -> Expr:
    """Returns a condition in which columns that are not structs are named `name.`."""
    from plans.expressions.build import col, substitute

    types = {node.value: node.type for node in part.postorder() if node.op == "col"}

    def renamed(name: str) -> Expr:
        table, _, column = name.partition(".")
        return col(f"{column}." if table == _SAID and column in plain else name, types[name])

    return substitute(part, renamed)


def _without_head(error: PlanError, text: str) -> PlanError:
    """Returns the error with its position in the condition alone."""
    place = error.position
    if place is None or place.line < 2:
        return PlanError(f"motif: where= is not a condition: {error.message}", hint=error.hint)
    place = Position(place.line - 1, place.column, place.length)
    return PlanError(error.message, hint=error.hint, witness=error.witness, position=place, text=text)
