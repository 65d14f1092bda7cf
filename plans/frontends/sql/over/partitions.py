"""Aggregates as window functions, with the same functions as GROUP BY. Part of `plans.frontends.sql`.

Over a whole partition, `MODE(b) OVER (PARTITION BY a)` is MODE(b) of the rows grouped by `a`, joined with the rows.
Over a frame, an aggregate is computed from window functions that are aggregates of the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from plans.expressions.build import Expr, col
from plans.frontends.rewrites import AggregateCall
from plans.frontends.sql.groups.aggregates import WRAPPERS
from plans.frontends.sql.groups.grouping import Groups
from plans.frontends.sql.groups.groupings import Grouping
from plans.frontends.sql.scope import Frame, Names, Relation, Scope
from plans.frontends.sql.text.place import extent, placed
from plans.programs.stages import Aggregate
from plans.queries.algebra import Group, Query, Source, replaced, split
from plans.queries.algebra import Relation as Algebra
from plans.schema import Column, Table

Read = Callable[[exp.Expression], Expr]
ROWS = "rows"
"""The name of the input rows of window functions."""
_LISTS = (exp.ArrayAgg, exp.GroupConcat)
_AROUND = (*WRAPPERS, exp.Distinct, exp.Limit, exp.Order, exp.Ordered, exp.Where)
"""The nodes that can wrap the values that an aggregate reads."""


def of_all(order: exp.Order | None, spec: exp.WindowSpec | None) -> bool:
    """Returns whether a frame is the whole partition."""
    if spec is None:
        return order is None
    unbounded = all(spec.text(side) == "UNBOUNDED" for side in ("start", "end"))
    ends = spec.text("start_side"), spec.text("end_side")
    return unbounded and ends == ("PRECEDING", "FOLLOWING") and not spec.args.get("exclude")


class _Rows:
    """Aggregates of columns of the input rows of window functions, which `groups` translates."""

    def __init__(self, keys: Sequence[Expr], scope: Scope, groups: type[Groups]) -> None:
        frame = Frame(Names({ROWS}))
        self._read = Relation(ROWS, {})
        inside = Scope(scope.reading, {}, frame, None, scope.depth + 1, [self._read])
        items = tuple(self._column(key) for key in keys)
        self.groups = groups(exp.Select(), inside, Grouping(items, whole=not keys))

    def _called(self, node: exp.Window, order: exp.Order | None, read: Read) -> Expr:
        """Returns an aggregate as an expression over the aggregates of `groups`. `read` returns the column of the rows
        with a value. Lists without an order of their own use `order`."""
        made = node.this.copy()
        lists = made.find(*_LISTS)
        if order is not None and lists is not None and made.find(exp.Order, exp.Distinct) is None:
            listed = lists.this if isinstance(lists.this, exp.Limit) else lists
            listed.set("this", exp.Order(this=listed.this.copy(), expressions=[o.copy() for o in order.expressions]))
        for part in list(_values(made)):
            part.replace(placed(self._column(read(part)), extent(part)))
        return self.groups.value(made)

    def _column(self, column: Expr) -> exp.Column:
        """Returns a column of the rows as a node of SQL."""
        name = column.value.removeprefix("@")
        known = {own.value: key for key, (_, own) in self._read.columns.items()}
        key = known.get(f"{ROWS}.{name}") or f"c{len(known)}"
        self._read.columns[key] = (name, col(f"{ROWS}.{name}", column.type))
        return exp.column(key, table=ROWS)


class Partitions(_Rows):
    """The aggregates over partitions by the same `keys`. The keys and the `names` of aggregates are columns of the rows
    and of the groups that are added later: their names begin with @."""

    def __init__(self, keys: Sequence[Expr], scope: Scope) -> None:
        super().__init__(keys, scope, Groups)
        self.keys = keys
        self.values: dict[Expr, Expr] = {}
        self._known: dict[exp.Expression, Expr] = {}

    def aggregate(self, node: exp.Window, order: exp.Order | None, name: str, read: Read) -> Expr:
        """Returns an aggregate as a column of that name. `read` returns the column of the rows with a value."""
        if node not in self._known:
            value = self._called(node, order, read)
            self._known[node] = col(f"@{name}", value.type)
            self.values[self._known[node]] = value
        return self._known[node]

    def relation(self, rows: Algebra) -> Group | Query:
        """Returns the partitions of rows, with their keys and aggregates."""
        table = Table(ROWS, tuple(Column(one.name, one.type) for one in rows.columns))
        self.groups.scope.frame.sources.append(Source(ROWS, table, input=rows))
        keys = [(key.value[1:], self.groups.value(self._column(key))) for key in self.keys]
        return self.groups.relation((*keys, *((name.value[1:], value) for name, value in self.values.items())), None)


class _Chosen(Groups):
    """Groups in which MAX_BY, MIN_BY and MODE are ordinary aggregates, as over frames."""

    def _picked(self, aggregate: AggregateCall) -> Expr:
        return self.added(aggregate)


class Framed(_Rows):
    """The aggregates over a frame of the rows."""

    def __init__(self, scope: Scope) -> None:
        super().__init__((), scope, _Chosen)

    def aggregate(
        self,
        node: exp.Window,
        order: exp.Order | None,
        read: Read,
        add: Callable[[Aggregate], Expr],
        computed: Callable[[str, Expr], str],
    ) -> Expr:
        """Returns an aggregate as an expression of the results of `add`, which receives aggregates of the engine over
        columns of the rows. `computed` returns the name of the column of the rows with a value over them."""
        value, columns = self._called(node, order, read), self.groups.columns

        def name(column: str) -> str:
            expr = columns[column]
            return split(expr.value)[1] if expr.op == "col" else computed(column, expr)

        replacements = {}
        for one in self.groups.calls.values():
            if one.name in value.columns:
                arguments, where = tuple(map(name, one.arguments)), None if one.where is None else name(one.where)
                order_ = tuple(replace(by, column=name(by.column)) for by in one.order)
                replacements[col(one.name, one.type)] = add(
                    replace(one, arguments=arguments, where=where, order=order_)
                )
        return replaced(value, replacements)


def _values(node: exp.Expression, called: bool = False) -> Iterator[exp.Expression]:
    """Yields the values of rows that an aggregate reads, without constants. `called`: the node is inside of the
    aggregate; otherwise it may wrap the aggregate."""
    called = called or not isinstance(node, WRAPPERS)
    for part in node.iter_expressions():
        if isinstance(part, _AROUND) or (not called and part is node.this):
            yield from _values(part, called)
        elif any(isinstance(one, (exp.Column, exp.Query, exp.AggFunc)) for one in part.walk()):
            yield part
