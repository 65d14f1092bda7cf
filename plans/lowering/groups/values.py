"""MIN, MAX and DISTINCT beside sums over a join: from one feed, or from a feed for each argument.

Sums need only the groups. MIN, MAX and DISTINCT need the values: if the join outputs the values, the sums are formed
per group and value, for every combination of the values of several arguments. So there are two ways: one join for
everything, or one join for the sums and, for each argument, a join that yields the distinct values of each group. The
first way keeps the rows of the relations once. The second is not driven by products. The expected cost of a change
decides (`plans.search.counted.work`), and EXPLAIN shows both costs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from plans.lowering.joins.cores import feed
from plans.lowering.stages import Stages
from plans.payloads.sums import ONCE, ORDERED
from plans.plan import Plan
from plans.programs.reads import each_once
from plans.programs.stages import Aggregate, Feed, GroupStage, JoinStage, outputs_of
from plans.queries.algebra import Group, Query
from plans.search.counted.work import work

Grouped = Callable[[Group, Query], GroupStage]
"""Builds the stage of a group over a join core, with one feed."""


def with_values(group: Group, rows: Query, stages: Stages, grouped: Grouped) -> GroupStage:
    """Returns the stage of a group over a join core with the feeds of least expected cost."""
    valued = [call for call in group.aggregates if call.distinct or call.function in ONCE]
    value_columns = dict.fromkeys(read for call in valued if (read := call.read) and not set(read) <= set(group.keys))
    summed = tuple(call for call in group.aggregates if call not in valued)
    if stages.together or not value_columns or (len(value_columns) == 1 and not summed):
        return grouped(group, rows)
    start = len(stages.made)
    grouped(group, rows)
    single = work(_joins(stages, start))
    stages.forget(start)
    separate = _separate_feeds(group, rows, stages, grouped, list(value_columns), summed)
    several = work(_joins(stages, start))
    if several < single:
        return _noted(separate, f"{_named(valued)}: separate feeds", several, single, stages)
    stages.forget(start)
    return _noted(grouped(group, rows), f"{_named(valued)}: from the feed of the sums", single, several, stages)


def distinct_already(group: GroupStage, stages: Stages) -> GroupStage:
    """Drops the DISTINCT of aggregates that read each value once.

    The rows of the feed are distinct, and consist of the keys and of what the aggregate reads.
    """
    source = group.feed.source
    if not isinstance(source, int) or not each_once(stages.made[source]) or group.feed.weight != 1:
        return group
    columns = {column.expr.value for column in group.feed.columns if column.expr.op == "col"}
    if not columns >= {output.name for output in outputs_of(stages.made[source])}:
        return group
    names = {column.name for column in group.feed.columns}

    def once(call: Aggregate) -> bool:
        return call.distinct and call.function not in ORDERED and names <= {*group.keys, *call.read}

    aggregates = tuple(replace(call, distinct=False) if once(call) else call for call in group.aggregates)
    return replace(group, aggregates=aggregates)


def _separate_feeds(
    group: Group,
    rows: Query,
    stages: Stages,
    grouped: Grouped,
    value_columns: list[tuple[str, ...]],
    summed: tuple[Aggregate, ...],
) -> GroupStage:
    """Returns the stage with a feed for the sums (or for the first values if there are no sums), and a feed for each of
    the other values."""
    first = summed
    if not summed:
        first = tuple(call for call in group.aggregates if set(call.read) <= {*group.keys, *value_columns[0]})
    read = {*group.keys, *(name for call in first for name in call.read)}
    main = grouped(replace(group, aggregates=first), _narrowed(rows, read))
    present = {column.name for column in main.feed.columns}
    values = tuple(_values(group, rows, stages, read) for read in value_columns if not set(read) <= present)
    return replace(main, aggregates=group.aggregates, values=values)


def _values(group: Group, rows: Query, stages: Stages, read: tuple[str, ...]) -> Feed:
    """Returns the distinct combinations of the keys with these columns."""
    return feed(replace(_narrowed(rows, {*group.keys, *read}), distinct=True), stages)


def _narrowed(rows: Query, read: set[str]) -> Query:
    return replace(rows, outputs=tuple((name, expr) for name, expr in rows.outputs if name in read))


def _joins(stages: Stages, start: int) -> list[Plan]:
    return [stage.plan for stage in stages.made[start:] if isinstance(stage, JoinStage)]


def _named(calls: list[Aggregate]) -> str:
    def written(call: Aggregate) -> str:
        return f"{call.function.upper()}({'DISTINCT ' if call.distinct else ''}{', '.join(call.arguments)})"

    return ", ".join(dict.fromkeys(written(call) for call in calls))


def _noted(group: GroupStage, chosen: str, cost: float, other: float, stages: Stages) -> GroupStage:
    """Returns the stage. Adds a note on the choice to the first join that it reads."""
    number = group.feed.source
    stage = stages.made[number] if isinstance(number, int) else None
    if isinstance(stage, JoinStage) and isinstance(number, int):
        note = f"{chosen}; a change of every relation costs about {cost:.0f} rows this way, {other:.0f} the other way"
        stages.made[number] = replace(stage, plan=replace(stage.plan, notes=(*stage.plan.notes, note)))
    return group
