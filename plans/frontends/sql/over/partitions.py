"""Aggregates over whole partitions: those of GROUP BY, joined with the rows. Part of `plans.frontends.sql`.

`MODE(b) OVER (PARTITION BY a)` is MODE(b) of the rows grouped by `a`. The aggregate reads columns of the rows, so that
whatever GROUP BY has works here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from plans.expressions.build import Expr, col
from plans.frontends.sql.groups.aggregates import WRAPPERS
from plans.frontends.sql.groups.grouping import Groups
from plans.frontends.sql.groups.groupings import Grouping
from plans.frontends.sql.scope import Frame, Names, Relation, Scope
from plans.frontends.sql.text.place import extent, placed
from plans.queries.algebra import Group, Query, Source
from plans.queries.algebra import Relation as Algebra
from plans.schema import Column, Table

_ROWS = "rows"
_LISTS = (exp.ArrayAgg, exp.GroupConcat)
_AROUND = (*WRAPPERS, exp.Distinct, exp.Limit, exp.Order, exp.Ordered, exp.Where)
"""What stands around the values that an aggregate reads."""


def of_all(order: exp.Order | None, spec: exp.WindowSpec | None) -> bool:
    """Returns whether a frame is all of its partition."""
    if spec is None:
        return order is None
    unbounded = all(spec.text(side) == "UNBOUNDED" for side in ("start", "end"))
    ends = spec.text("start_side"), spec.text("end_side")
    return unbounded and ends == ("PRECEDING", "FOLLOWING") and not spec.args.get("exclude")


class Partitions:
    """The aggregates over partitions by the same `keys`. They and the `names` of aggregates are columns of the rows,
    and of the groups, that are not there yet: their names begin with @."""

    def __init__(self, keys: Sequence[Expr], scope: Scope) -> None:
        frame = Frame(Names({_ROWS}))
        self.read = Relation(_ROWS, {})
        inside = Scope(scope.reading, {}, frame, None, scope.depth + 1, [self.read])
        items = tuple(self._column(key) for key in keys)
        self.keys, self.groups = keys, Groups(exp.Select(), inside, Grouping(items, whole=not keys))
        self.values: dict[Expr, Expr] = {}
        self._known: dict[exp.Expression, Expr] = {}

    def aggregate(
        self, node: exp.Window, order: exp.Order | None, name: str, read: Callable[[exp.Expression], Expr]
    ) -> Expr:
        """Returns an aggregate as a column of that name. `read` returns the column of the rows that has a value."""
        if node not in self._known:
            made = node.this.copy()
            lists = made.find(*_LISTS)
            if order is not None and lists is not None and made.find(exp.Order) is None:
                lists.set("this", exp.Order(this=lists.this.copy(), expressions=[o.copy() for o in order.expressions]))
            for part in list(_values(made)):
                part.replace(placed(self._column(read(part)), extent(part)))
            value = self.groups.value(made)
            self._known[node] = col(f"@{name}", value.type)
            self.values[self._known[node]] = value
        return self._known[node]

    def _column(self, column: Expr) -> exp.Column:
        """Returns a column of the rows as SQL names it."""
        name = column.value.removeprefix("@")
        known = {own.value: key for key, (_, own) in self.read.columns.items()}
        key = known.get(f"{_ROWS}.{name}") or f"c{len(known)}"
        self.read.columns[key] = (name, col(f"{_ROWS}.{name}", column.type))
        return exp.column(key, table=_ROWS)

    def relation(self, rows: Algebra) -> Group | Query:
        """Returns the partitions of rows, with their keys and aggregates."""
        table = Table(_ROWS, tuple(Column(one.name, one.type) for one in rows.columns))
        self.groups.scope.frame.sources.append(Source(_ROWS, table, input=rows))
        keys = [(key.value[1:], self.groups.value(self._column(key))) for key in self.keys]
        return self.groups.relation((*keys, *((name.value[1:], value) for name, value in self.values.items())), None)


def _values(node: exp.Expression, called: bool = False) -> Iterator[exp.Expression]:
    """Yields the values of rows that an aggregate reads, but for constants. `called`: the node is inside of the
    aggregate, else it may stand around it."""
    called = called or not isinstance(node, WRAPPERS)
    for part in node.iter_expressions():
        if isinstance(part, _AROUND) or (not called and part is node.this):
            yield from _values(part, called)
        elif any(isinstance(one, (exp.Column, exp.Query, exp.AggFunc)) for one in part.walk()):
            yield part
