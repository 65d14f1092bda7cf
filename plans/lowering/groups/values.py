"""MIN, MAX and DISTINCT over a join, beside sums: out of one feed, or each out of a feed of its own.

Sums need no more than the groups. MIN, MAX and DISTINCT need the values: a join that says them has them as output, and
then the sums come per group and value, for every combination of the values of several. So there are two ways: one join
for all, or one for the sums and for each argument a join of the groups with its values, each once. The first keeps the
rows of the relations once; the second is not driven by products. What a change is expected to cost decides
(`plans.search.counted.work`), and EXPLAIN says both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from plans.lowering.joins.cores import feed
from plans.lowering.stages import Stages
from plans.payloads.sums import ONCE
from plans.plan import Plan
from plans.program import Aggregate, Feed, GroupStage, JoinStage
from plans.queries.algebra import Group, Query
from plans.search.counted.work import work

Grouped = Callable[[Group, Query], GroupStage]
"""Makes the stage of a group over a join core, with one feed."""


def with_values(group: Group, rows: Query, stages: Stages, grouped: Grouped) -> GroupStage:
    """Returns the stage of a group over a join core whose feeds are those that are expected to cost least."""
    valued = [call for call in group.aggregates if call.distinct or call.function in ONCE]
    wanted = dict.fromkeys(read for call in valued if (read := call.read) and not set(read) <= set(group.keys))
    summed = tuple(call for call in group.aggregates if call not in valued)
    if stages.together or not wanted or (len(wanted) == 1 and not summed):
        return grouped(group, rows)
    begun = len(stages.made)
    grouped(group, rows)
    one = work(_joins(stages, begun))
    stages.forget(begun)
    apart = _apart(group, rows, stages, grouped, list(wanted), summed)
    several = work(_joins(stages, begun))
    if several < one:
        return _noted(apart, f"{_named(valued)}: feeds of their own", several, one, stages)
    stages.forget(begun)
    return _noted(grouped(group, rows), f"{_named(valued)}: from the feed of the sums", one, several, stages)


def _apart(
    group: Group,
    rows: Query,
    stages: Stages,
    grouped: Grouped,
    wanted: list[tuple[str, ...]],
    summed: tuple[Aggregate, ...],
) -> GroupStage:
    """Returns the stage with a feed for the sums, or for the first values if there are none, and one for each of the
    others."""
    first = summed
    if not summed:
        first = tuple(call for call in group.aggregates if set(call.read) <= {*group.keys, *wanted[0]})
    read = {*group.keys, *(name for call in first for name in call.read)}
    main = grouped(replace(group, aggregates=first), _narrowed(rows, read))
    come = {column.name for column in main.feed.columns}
    values = tuple(_values(group, rows, stages, read) for read in wanted if not set(read) <= come)
    return replace(main, aggregates=group.aggregates, values=values)


def _values(group: Group, rows: Query, stages: Stages, read: tuple[str, ...]) -> Feed:
    """Returns the keys with these columns, each combination once."""
    return feed(replace(_narrowed(rows, {*group.keys, *read}), distinct=True), stages)


def _narrowed(rows: Query, read: set[str]) -> Query:
    return replace(rows, outputs=tuple((name, expr) for name, expr in rows.outputs if name in read))


def _joins(stages: Stages, begun: int) -> list[Plan]:
    return [stage.plan for stage in stages.made[begun:] if isinstance(stage, JoinStage)]


def _named(calls: list[Aggregate]) -> str:
    def written(call: Aggregate) -> str:
        return f"{call.function.upper()}({'DISTINCT ' if call.distinct else ''}{', '.join(call.arguments)})"

    return ", ".join(dict.fromkeys(written(call) for call in calls))


def _noted(made: GroupStage, chosen: str, cost: float, other: float, stages: Stages) -> GroupStage:
    """Returns the stage; the join that it reads first notes the choice."""
    number = made.feed.source
    stage = stages.made[number] if isinstance(number, int) else None
    if isinstance(stage, JoinStage) and isinstance(number, int):
        note = f"{chosen}; a change of every relation costs about {cost:.0f} rows so, {other:.0f} the other way"
        stages.made[number] = replace(stage, plan=replace(stage.plan, notes=(*stage.plan.notes, note)))
    return made
