"""Grouping twice: the groups of every cell first, then, where the cells meet, the groups of those.

A count is the sum of the cells' counts, a sum that of their sums, a minimum that of their minima. So a cell need not
send its rows: it keeps groups of its own, and sends what changes of them, at most an old and a new row per group and
batch. A group is there as long as some cell has it. What cannot be put together exactly out of such parts (a mean, a
variance, a sum of doubles, which is rounded once, a number of distinct values) travels as rows.
"""

from __future__ import annotations

from dataclasses import replace

from plans.algebra import unused
from plans.expressions.build import col
from plans.plan import Output
from plans.program import Aggregate, Feed, GroupStage
from plans.schema import WEIGHT, Column


def partial(stage: GroupStage) -> GroupStage | None:
    """Returns the stage that groups the rows of one cell: its keys, then its aggregates. None if parts of some
    aggregate cannot be put together."""
    if stage.values or not all(_in_parts(aggregate) for aggregate in stage.aggregates):
        return None
    types = {column.name: column.type for column in stage.feed.columns}
    names: list[str] = []
    for name in (*stage.keys, *(aggregate.name for aggregate in stage.aggregates)):
        names.append(unused(name, [*names, WEIGHT]))
    whats = [*((key, types[key]) for key in stage.keys), *((a.name, a.type) for a in stage.aggregates)]
    outputs = tuple(Output(name, type_, col(what, type_)) for name, (what, type_) in zip(names, whats, strict=True))
    return replace(stage, outputs=outputs, having=None)


def merged(stage: GroupStage, relation: str, columns: tuple[Column, ...]) -> GroupStage:
    """Returns the stage that groups the rows of `partial(stage)`, which are a `relation` with these columns."""
    k = len(stage.keys)
    inner = [*stage.keys, *(f"{column.name} part" for column in columns[k:])]
    feed = Feed(relation, tuple(Output(n, c.type, col(c.name, c.type)) for n, c in zip(inner, columns, strict=True)))
    aggregates = tuple(
        Aggregate(aggregate.name, aggregate.type, "sum" if aggregate.function == "count" else aggregate.function, (n,))
        for aggregate, n in zip(stage.aggregates, inner[k:], strict=True)
    )
    return GroupStage(feed, stage.keys, aggregates, stage.outputs, stage.having, stage.whole)


def _in_parts(aggregate: Aggregate) -> bool:
    if aggregate.function in ("min", "max"):
        return True
    return not aggregate.distinct and (
        aggregate.function == "count" or (aggregate.function == "sum" and aggregate.type != "float64")
    )
