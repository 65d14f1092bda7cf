"""Window functions: ranks, and aggregates over whole partitions. Part of `plans.frontends.sql`.

The rows that a window function sees are a relation of their own, with a column for all that the function reads. What it
returns is one more column of that, which the SELECT list, QUALIFY and ORDER BY read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from plans.expressions.build import TRUE, Expr, call, col
from plans.frontends.aggregates import NAMES, result_type
from plans.frontends.sql.aggregates import function_of
from plans.frontends.sql.ordering import Columns, Item, orders
from plans.frontends.sql.scope import Frame, Names, Scope
from plans.frontends.sql.shape import limited
from plans.frontends.sql.text.place import place_of, spelling
from plans.frontends.sql.values import Meaning, scalar
from plans.program import Aggregate, Order
from plans.queries.algebra import Group, Query, Ranked, Relation

_RANKS = {exp.RowNumber: "row_number", exp.Rank: "rank", exp.DenseRank: "dense_rank"}


@dataclass(frozen=True)
class Call:
    """A window function over columns of the rows: a rank in an order, or an aggregate over whole partitions."""

    node: exp.Window
    function: str
    keys: tuple[str, ...]
    order: tuple[Order, ...] = ()
    type: str = "int32"
    arguments: tuple[str, ...] = ()
    where: str | None = None


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
        known = next((i for i, one in enumerate(self.calls) if one.node == node), None)
        if known is None:
            known = len(self.calls)
            keys = tuple(dict.fromkeys(self._read(one) for one in node.args.get("partition_by") or ()))
            self.calls.append(self._rank(node, keys) if type(node.this) in _RANKS else self._aggregate(node, keys))
        return col(f"@#{known}", self.calls[known].type)

    def _rank(self, node: exp.Window, keys: tuple[str, ...]) -> Call:
        word, text = spelling(self.scope.text.text, node.this), self.scope.text
        if node.this.this is not None or node.this.expressions:
            raise text.error(f"{word}() takes no argument", node)
        if node.args.get("spec") is not None or node.args.get("alias") is not None:
            raise text.error(f"{word}() takes PARTITION BY and ORDER BY only", node)
        order = node.args.get("order")
        if order is None:
            raise text.error(f"{word}() without ORDER BY is not supported", node, "say which rows come first")
        by = [self._read(one.this) for one in order.expressions]
        return Call(node, _RANKS[type(node.this)], keys, orders(order, by, text))

    def _aggregate(self, node: exp.Window, keys: tuple[str, ...]) -> Call:
        text, where, inner = self.scope.text, None, node.this
        if isinstance(inner, exp.Filter):
            where, inner = inner.expression.this, inner.this
        function, given = function_of(inner), list(inner.iter_expressions())
        word = spelling(text.text, inner)
        if function is None:
            raise text.error(f"the window function {word} is not supported", node, _HINT)
        if node.args.get("alias") is not None or not _whole(node):
            message = f"{word} over a part of its partition is not supported"
            raise text.error(message, node, f"leave ORDER BY out of OVER: {_HINT}")
        plain = function in NAMES and not isinstance(inner, (exp.CountIf, exp.WithinGroup))
        if any(isinstance(part, exp.Distinct) for part in given) or not plain:
            raise text.error(f"{word} of this form is not supported as a window function", node, _HINT)
        given = [part for part in given if not isinstance(part, exp.Star)]
        if len(given) > 2 or (len(given) > 1 and function in ("count", "sum", "avg", "min", "max")):
            raise text.error(f"{word} of {len(given)} columns is not supported", node)
        arguments = tuple(self._read(part) for part in given)
        types = [self.column(name).type for name in arguments] or ["int64"]
        type_ = text.guarded(node, partial(result_type, function, types[0]))
        return Call(node, function, keys, (), type_, arguments, None if where is None else self._read(where))

    def _read(self, node: exp.Expression) -> str:
        """Returns the column of the rows that has a value; names of columns come before aliases."""

        def meaning(part: exp.Expression) -> Expr | None:
            return self.selected.get(self._unlike(part)) if isinstance(part, exp.Column) else None

        return self.below.add(node, self.plain(node, meaning))

    def joined(self, rows: Relation, frame: Frame, wish: str) -> dict[Expr, Expr]:
        """Adds the rows to a frame, with the values of the window functions; what columns with @ stand for there."""
        text = self.scope.text
        ranks = [one for one in self.calls if one.order]
        groups: dict[tuple[str, ...], list[int]] = {}
        for number, one in enumerate(self.calls):
            if not one.order:
                groups.setdefault(one.keys, []).append(number)
        base, alone = rows, len(ranks) == 1 and not groups
        for rank in ranks:
            if base is not rows:  # ranks of ranks
                inner = Frame(Names()).derived(base, "rows")
                shown = tuple((column.name, inner.qualified(column.name)) for column in base.columns)
                base = Query(text.text, (inner,), (), shown, False)
            hidden = len(self.below.hidden) if alone else 0
            place = place_of(text.text, rank.node)
            base = Ranked(base, rank.keys, rank.order, f"#{self.calls.index(rank)}", rank.function, hidden, place)
        source = frame.derived(base, wish)
        frame.sources.append(source)
        names = {col(f"@{c.name}", c.type): source.qualified(c.name) for c in source.table.columns}
        for keys, numbers in groups.items():
            beside = frame.derived(self._group(rows, keys, numbers), f"{wish}_groups")
            frame.sources.append(beside)
            frame.conditions += [call("nseq", source.qualified(key), beside.qualified(key)) for key in keys]
            names |= {col(f"@#{i}", self.calls[i].type): beside.qualified(f"#{i}") for i in numbers}
        return names

    def _group(self, rows: Relation, keys: tuple[str, ...], numbers: list[int]) -> Group:
        """Returns the partitions of the rows with their aggregates."""
        source = Frame(Names()).derived(rows, "rows")
        calls = [self.calls[i] for i in numbers]
        read = dict.fromkeys((*keys, *(name for one in calls for name in (*one.arguments, one.where) if name)))
        columns = tuple((name, source.qualified(name)) for name in read) or (("one", TRUE),)
        inner = Query(self.scope.text.text, (source,), (), columns, False)
        aggregates = tuple(
            Aggregate(f"#{i}", one.type, one.function, one.arguments, False, one.where)
            for i, one in zip(numbers, calls, strict=True)
        )
        outputs = (*((key, source.qualified(key).type) for key in keys), *((a.name, a.type) for a in aggregates))
        shown = tuple((name, col(name, type_)) for name, type_ in outputs)
        return Group(inner, keys, aggregates, shown, None, not keys)


_HINT = "ranks, and aggregates over whole partitions, are maintained"


def _whole(node: exp.Window) -> bool:
    """Returns whether a window function sees all rows of its partition."""
    spec = node.args.get("spec")
    if spec is None:
        return node.args.get("order") is None
    bounds = [(str(spec.args.get(side)).upper(), spec.args.get(f"{side}_side")) for side in ("start", "end")]
    return bounds == [("UNBOUNDED", "PRECEDING"), ("UNBOUNDED", "FOLLOWING")]


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
