"""Creates the stages that run a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from crown.stages.fixpoint import Fixpoint
from crown.stages.groups.group import Groups
from crown.stages.joins.bands import Bands
from crown.stages.joins.core import Join
from crown.stages.joins.cyclic import CyclicCount
from crown.stages.joins.single import Single
from crown.stages.linear import Linear, keeps_distinct
from crown.stages.over.stage import Over
from crown.stages.pointwise import Pointwise
from crown.stages.protocol import Part, Stage
from crown.stages.running.slices import Slices
from crown.stages.state.memory import ProgramMemory, parts_of
from crown.stages.tables.timed import Timed
from crown.stages.top import Top
from plans.programs.fixpoints import top_of, wires_of
from plans.programs.reads import feeds, key_of
from plans.programs.stages import (
    BandStage,
    FixpointStage,
    GroupStage,
    JoinStage,
    LinearStage,
    OverStage,
    PointwiseStage,
    SingleStage,
    SliceStage,
    TimedStage,
    TopStage,
)
from plans.programs.stages import Stage as Planned
from plans.programs.wiring import Wires, without_known
from plans.schema import Column
from plans.search.cells.shares import Grid

_BY_FEED: dict[type, Callable[..., Stage]] = {
    TopStage: Top, OverStage: Over, SliceStage: Slices, SingleStage: Single, TimedStage: Timed, BandStage: Bands
}  # fmt: skip


def over_feeds(stage: Planned, sources: Sequence[tuple[Column, ...]], part: Part, below: Stage | None) -> Stage:
    """Creates the stage that runs a planned stage in a part of the memory.

    ``sources``: the columns of the source of each feed. ``below``: the stage that the first feed reads, or None if it
    reads a relation.
    """
    if isinstance(stage, GroupStage):
        carried = below.carried if isinstance(below, (Join, Bands)) else []
        return Groups(stage, sources[0], part, carried, sources[1:])
    if isinstance(stage, PointwiseStage):
        return Pointwise(stage, sources, part)
    return _BY_FEED[type(stage)](stage, *sources, part)


def stage_of(
    stage: Planned, first: int, grid: Grid, wires: Wires, memory: ProgramMemory, before: Sequence[Stage],
    check: Callable[[], None],
) -> Stage:  # fmt: skip
    """Creates the stage that runs a planned stage, in the cells of a grid.

    ``first``: the number of its first part. ``before``: the stages before it. ``check``: raises to stop a batch.
    """
    may_repeat = wires[len(before)].may_repeat
    stage = without_known(stage, wires)
    if isinstance(stage, LinearStage):
        sources = [wires[key_of(term.source)].columns for term in stage.terms]
        net = not wires[key_of(stage.terms[0].source)].may_repeat if sources else False
        return Linear(stage, sources, memory.dictionary, may_repeat or (net and keeps_distinct(stage, sources[0])))
    if isinstance(stage, JoinStage):
        if stage.plan.count is not None:
            return CyclicCount(stage, wires, memory, first)
        return Join(stage, wires, memory, first, grid, may_repeat, check)
    if isinstance(stage, FixpointStage):
        return _fixpoint(stage, first, wires, memory, check)
    given = feeds(stage)
    source = given[0].source
    below = before[source] if isinstance(source, int) else None
    return over_feeds(stage, [wires[key_of(feed.source)].columns for feed in given], memory.part(first), below)


def _fixpoint(
    stage: FixpointStage, first: int, wires: Wires, memory: ProgramMemory, check: Callable[[], None]
) -> Fixpoint:
    """Creates the stage that runs a recursion. Its own part is the first one."""
    inside, part = wires_of(stage), memory.part(first)
    body: list[Stage] = []
    first += 1
    for planned in stage.stages:
        body.append(stage_of(planned, first, Grid(), inside, memory, body, check))
        first += parts_of(planned)
    sources = [wires[key_of(feed.source)].columns for feed in stage.feeds]
    tables = [inside[table.name.lower()].columns for table in stage.tables]
    top = top_of(stage)
    best = None if top is None else Top(top, body[-1].columns[:-1], memory.part(first))
    return Fixpoint(stage, sources, body, tables, best, part, check)
