"""The stages of a program, as they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from crown.stages.joins.core import Join
from crown.stages.joins.cyclic import CyclicCount
from crown.stages.linear import Linear, keeps_distinct
from crown.stages.over.feeds import over_feeds
from crown.stages.protocol import Stage
from crown.stages.state.memory import ProgramMemory
from plans.programs.reads import feeds, key_of
from plans.programs.stages import JoinStage, LinearStage
from plans.programs.stages import Stage as Planned
from plans.programs.wiring import Wires, without_known
from plans.search.cells.shares import Grid


def stage_of(
    stage: Planned, first: int, grid: Grid, wires: Wires, memory: ProgramMemory, before: Sequence[Stage],
    check: Callable[[], None],
) -> Stage:  # fmt: skip
    """Returns a stage as it runs behind those ``before`` it, in the cells of a grid; its parts begin with number
    ``first``. ``check`` raises what is to stop a batch."""
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
    given = feeds(stage)
    source = given[0].source
    below = before[source] if isinstance(source, int) else None
    return over_feeds(stage, [wires[key_of(feed.source)].columns for feed in given], memory.part(first), below)
