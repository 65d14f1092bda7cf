"""Window functions: `ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...)`. Part of `plans.frontends.sql`.

The rows that a window function sees are a relation of their own, with a column for all that the function reads. What it
returns is one more column of that, which the SELECT list, QUALIFY and ORDER BY read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from plans.expressions.build import Expr, col
from plans.frontends.sql.ordering import Columns, Item, orders
from plans.frontends.sql.refuse import Text
from plans.frontends.sql.scope import Scope
from plans.frontends.sql.shape import limited
from plans.frontends.sql.text.place import place_of, spelling
from plans.frontends.sql.values import Meaning, scalar
from plans.program import Order
from plans.queries.algebra import Ranked, Relation

_RANKS = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist, exp.Ntile)


@dataclass(frozen=True)
class Call:
    """A window function over columns of the rows."""

    node: exp.Window
    keys: tuple[str, ...]
    order: tuple[Order, ...]


class Windows:
    """The window functions of a SELECT: `below` are the columns of the rows that they see.

    A value over window functions reads these columns, and those of the functions, as columns whose names begin with @.
    """

    def __init__(self, below: Columns, plain: Callable[[exp.Expression, Meaning], Expr], scope: Scope) -> None:
        self.below, self.plain, self.scope = below, plain, scope
        self.calls: list[Call] = []
        self.named: dict[str, Expr] = {}  # what the aliases of the SELECT list stand for
        self.selected: dict[str, Expr] = {}  # the same, of the rows: of what is no window function

    def add(self, item: Item) -> None:
        """Adds a column of the rows that is selected."""
        self.below.items.append(item)
        if item.node.alias:
            self.selected.setdefault(item.node.alias.lower(), item.expr)

    def column(self, name: str) -> Expr:
        """Returns a column of the rows."""
        found = next(item for item in (*self.below.items, *self.below.hidden) if item.name == name)
        return col(f"@{name}", found.expr.type)

    def value(self, node: exp.Expression, meaning: Meaning | None = None) -> Expr:
        """Returns a value over columns of the rows and window functions; names of columns come before aliases."""

        def of(part: exp.Expression) -> Expr | None:
            found = meaning(part) if meaning is not None else None
            if found is not None:
                return found
            if isinstance(part, exp.Window):
                return self.call(part)
            columns = list(part.find_all(exp.Column))
            if isinstance(part, exp.Column) and self._unlike(part) in self.named:
                return self.named[self._unlike(part)]
            outside = any(self._unlike(column) in self.named for column in columns)
            outside = outside or (meaning is not None and any(meaning(column) is not None for column in columns))
            if not columns or outside or contains_window(part):
                return None
            return self.column(self._read(part))

        return scalar(node, self.scope, of)

    def _unlike(self, node: exp.Column) -> str:
        """Returns the name that is no column of the tables, in lower case; nothing if it is one."""
        return "" if node.table or self.scope.lookup(node.name) else node.name.lower()

    def call(self, node: exp.Window) -> Expr:
        """Returns the value of a window function, as a column that is not there yet."""
        _check(node, self.scope.text)
        keys = [self._read(one) for one in node.args.get("partition_by") or ()]
        by = [self._read(one.this) for one in node.args["order"].expressions]
        made = Call(node, tuple(dict.fromkeys(keys)), orders(node.args["order"], by, self.scope.text))
        if all(made.node != one.node for one in self.calls):
            self.calls.append(made)
        number = next(i for i, one in enumerate(self.calls) if one.node == node)
        return col(f"@#{number}", "int32")

    def _read(self, node: exp.Expression) -> str:
        """Returns the column of the rows that has a value; names of columns come before aliases."""

        def meaning(part: exp.Expression) -> Expr | None:
            return self.selected.get(self._unlike(part)) if isinstance(part, exp.Column) else None

        return self.below.add(node, self.plain(node, meaning))

    def over(self, rows: Relation) -> Relation:
        """Returns the rows with the value of the window function as last column."""
        text = self.scope.text
        if len(self.calls) > 1:
            raise text.error(
                "several window functions in one SELECT are not supported", self.calls[1].node, "nest them"
            )
        (call,) = self.calls
        return Ranked(rows, call.keys, call.order, "#0", len(self.below.hidden), place_of(text.text, call.node))


def contains_window(node: exp.Expression) -> bool:
    """Returns whether an expression has a window function of its own SELECT."""
    todo = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, exp.Window):
            return True
        if not isinstance(part, exp.Query):
            todo += part.iter_expressions()
    return False


def has_windows(node: exp.Select) -> bool:
    """Returns whether a SELECT has window functions of its own."""
    clauses = [node.args.get(name) for name in (("qualify", "order") if limited(node) else ("qualify",))]
    return any(contains_window(part) for part in (*node.expressions, *clauses) if part is not None)


def _check(node: exp.Window, text: Text) -> None:
    """Refuses window functions that are not maintained."""
    if not isinstance(node.this, (exp.RowNumber, *_RANKS)):
        raise text.error("a window function (OVER) is not supported", node, "compute it where the result is read")
    if not isinstance(node.this, exp.RowNumber):
        word = spelling(text.text, node.this)
        raise text.error(
            f"{word} is not supported", node, "ROW_NUMBER() OVER (... ORDER BY ...) <= k keeps k rows of each group"
        )
    if node.this.this is not None:
        raise text.error("ROW_NUMBER() takes no argument", node)
    if node.args.get("spec") is not None or node.args.get("alias") is not None:
        raise text.error("ROW_NUMBER() takes PARTITION BY and ORDER BY only", node)
    if node.args.get("order") is None:
        raise text.error("ROW_NUMBER() without ORDER BY is not supported", node, "say which rows come first")
