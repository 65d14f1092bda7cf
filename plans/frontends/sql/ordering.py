"""ORDER BY with LIMIT: the columns that order rows, and the rows that are kept. Part of `plans.frontends.sql`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlglot import exp

from plans.expressions.build import Expr, check_ordered
from plans.frontends.sql.refuse import NO_ORDER, Text
from plans.frontends.sql.scope import Scope, value_of
from plans.frontends.sql.shape import limited
from plans.frontends.sql.text.place import extent
from plans.frontends.sql.values import Meaning
from plans.programs.frames import Order
from plans.queries.algebra import Relation, Top, unused

_MOST = 2**31 - 1


@dataclass(frozen=True)
class Item:
    """An output column: its name, its value, and its item in the SELECT list."""

    name: str
    expr: Expr
    node: exp.Expression


@dataclass
class Columns:
    """The columns of an ordered relation: the selected columns, and hidden ones that only the order reads.

    `several`: the relation is the union of several similar ones. For all of them to have the same columns, only
    expressions that are written alike are one column, not those that happen to have the same value.
    """

    items: list[Item]
    several: bool = False
    hidden: list[Item] = field(default_factory=list)

    def find(self, node: exp.Expression, expr: Expr) -> str | None:
        """Returns the column that has a value, or None."""
        for item in (*self.items, *self.hidden):
            if value_of(item.node) == node or (not self.several and item.expr == expr):
                return item.name
        return None

    def add(self, node: exp.Expression, expr: Expr) -> str:
        """Returns the column that has a value. Adds a hidden column if there is none."""
        found = self.find(node, expr)
        if found is None:
            found = unused("o", [*(item.name for item in (*self.items, *self.hidden)), "_weight"])
            self.hidden.append(Item(found, expr, node))
        return found

    @property
    def pairs(self) -> tuple[tuple[str, Expr], ...]:
        """Returns names and values, hidden columns last."""
        return tuple((item.name, item.expr) for item in (*self.items, *self.hidden))


def order_by(
    order: exp.Order, columns: Columns, value: Callable[[exp.Expression, Meaning], Expr], distinct: bool, text: Text
) -> tuple[Order, ...]:
    """Returns the order of rows. A number is a position; a name is an output column, or else a column of a table."""
    shown: dict[str, Item] = {}
    for item in columns.items:
        shown.setdefault(item.name.lower(), item)

    def meaning(part: exp.Expression) -> Expr | None:
        named = isinstance(part, exp.Column) and not part.table and shown.get(part.name.lower())
        return named.expr if named else None

    keys: list[str] = []
    for one in order.expressions:
        node = one.this
        key = position_of(node, [item.name for item in columns.items], text) or _named(node, shown)
        if key is None:
            expr = value(node, meaning)
            key = columns.find(node, expr)
            if key is None and distinct:
                raise text.error("with DISTINCT, ORDER BY takes only selected columns", node, "add it to SELECT")
            if key is None and isinstance(node, exp.Literal):
                raise text.error(f"ORDER BY {node} has no effect", node, "leave it out")
            key = key or columns.add(node, expr)
        keys.append(key)
    types = {item.name: item.expr.type for item in (*columns.items, *columns.hidden)}
    return orders(order, keys, text, [types[key] for key in keys])


def order_by_name(order: exp.Order, names: Sequence[str], text: Text) -> tuple[Order, ...]:
    """Returns the order of the rows of a set operation."""
    shown = {name.lower(): name for name in names}
    keys = []
    for one in order.expressions:
        node = one.this
        plain = isinstance(node, exp.Column) and not node.table
        key = position_of(node, names, text) or (shown.get(node.name.lower()) if plain else None)
        if key is None:
            raise text.error("ORDER BY of a set operation takes only the names of its columns", node)
        keys.append(key)
    return orders(order, keys, text)


def orders(order: exp.Order, keys: Sequence[str], text: Text, types: Sequence[str] = ()) -> tuple[Order, ...]:
    """Returns the order of columns; the first item of a repeated column applies. Raises PlanError if one of the
    `types`, if known, has no order."""
    for one, type_ in zip(order.expressions, types, strict=False):
        text.guarded(one, partial(check_ordered, type_, "ORDER BY"))
    found: dict[str, Order] = {}
    for one, key in zip(order.expressions, keys, strict=True):
        if one.args.get("with_fill"):
            raise text.error("WITH FILL is not supported", one)
        found.setdefault(key, Order(key, bool(one.args.get("desc")), not one.args.get("nulls_first")))
    return tuple(found.values())


def _named(node: exp.Expression, shown: dict[str, Item]) -> str | None:
    """Returns the output column with a name, or None."""
    plain = isinstance(node, exp.Column) and not node.table
    return shown[node.name.lower()].name if plain and node.name.lower() in shown else None


def position_of(node: exp.Expression, names: Sequence[str], text: Text) -> str | None:
    """Returns the output column at a position, or None if the expression is not a number."""
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    position = int(node.this) if str(node.this).isdigit() else 0
    if not 1 <= position <= len(names):
        raise text.error(f"ORDER BY {node.this}: there is no such output column", node)
    return names[position - 1]


def top(relation: Relation, node: exp.Expression, order: tuple[Order, ...], hidden: int, scope: Scope) -> Relation:
    """Returns the rows of a relation that LIMIT and OFFSET of a query keep, or all rows if it has neither.

    `order` names columns of the relation, whose last `hidden` columns are not output. Without ORDER BY, rows are
    ordered by all of their columns.
    """
    text, limit, offset, by = scope.text, *(node.args.get(name) for name in ("limit", "offset", "order"))
    if not limited(node):
        if by is not None and scope.depth == 1:
            scope.note(text.phrase("ORDER BY", by), "ORDER BY without LIMIT has no effect", NO_ORDER)
        return relation
    if by is None:
        word = "OFFSET" if limit is None else _word(limit, text)
        message = f"{word} without ORDER BY keeps the first rows in the order of all columns"
        scope.note(text.phrase(word, limit or offset), message, "add an ORDER BY: ORDER BY ... LIMIT ...")
    first = 0 if offset is None else _whole(offset.expression, "OFFSET", text)
    count = _MOST if limit is None else _rows(limit, text)
    return Top(relation, (), order, count, first, hidden)


def _rows(limit: exp.Expression, text: Text) -> int:
    """Returns the number of rows of LIMIT or FETCH FIRST."""
    word = _word(limit, text)
    options = limit.args.get("limit_options")
    if options is not None and (options.args.get("with_ties") or options.args.get("percent")):
        hint = "write the number of rows" if options.args.get("percent") else "put the query into FROM"
        raise text.error(f"{word} takes only a number of rows", limit, hint, text.phrase(word, limit))
    return _whole(limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.expression, word, text)


def _word(limit: exp.Expression, text: Text) -> str:
    """Returns the keyword that the text uses for a LIMIT."""
    found = re.findall(r"\b(?:LIMIT|FETCH|TOP|ROWNUM)\b", text.text[: (extent(limit) or (0, 0))[1]].upper())
    return found[-1] if found else "LIMIT"


def _whole(node: Any, clause: str, text: Text) -> int:
    """Returns the number of LIMIT or OFFSET."""
    if isinstance(node, exp.Literal) and not node.is_string and str(node.this).isdigit():
        value = int(node.this)
        if value <= _MOST:
            return value
    raise text.error(f"{clause} takes a whole number up to {_MOST}", node)
