"""Aggregates that pick the value of one row of a group, for all query languages: MAX_BY, MIN_BY and MODE.

The groups are joined with the first row of each group in an order. Ties are broken by the least value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from plans.expressions.build import Expr, call, col
from plans.frontends.rewrites import PICKED, AggregateCall
from plans.programs.frames import Order
from plans.programs.stages import Aggregate
from plans.queries.algebra import Group, Query, Source, Top
from plans.schema import Column, Table

VALUE = "value"
"""The column of the source that has the value of the aggregate."""


def pick(
    aggregate: AggregateCall,
    alias: str,
    rows: Callable[[tuple[tuple[str, Expr], ...]], Query],
    keys: Sequence[tuple[Expr, Expr]],
) -> Source:
    """Returns a source that is joined with the groups, and has for each group the row with the value of an aggregate.

    `rows` makes a query of the grouped rows. `keys` are the grouping keys, over the rows and over the groups.
    """
    function, value, by = aggregate.function, aggregate.values[0], aggregate.values[-1]
    names = {f"k{index}": key for index, (key, _) in enumerate(keys)}
    where = (*aggregate.where, call("not", call("isnull", by)))
    columns = names | {VALUE: value} | ({} if function == "mode" else {"by": by})
    query = rows(tuple(columns.items()))
    found: Query | Group = replace(query, conditions=(*query.conditions, *where))
    if function == "mode":
        outputs = tuple((name, col(name, expr.type)) for name, expr in columns.items())
        counted = Aggregate("by", "int64", "count")
        found = Group(found, tuple(columns), (counted,), (*outputs, ("by", col("by", "int64"))))
    top = Top(found, tuple(names), (Order("by", PICKED[function][1], True),), 1)
    source = Source(alias, Table(alias, tuple(Column(c.name, c.type) for c in top.columns)), input=top, join="left")
    pairs = zip(names, (key for _, key in keys), strict=True)
    return replace(source, on=tuple(call("nseq", source.qualified(one), other) for one, other in pairs))
