"""The body of a recursion, which is a program of its own."""

from __future__ import annotations

from plans.plan import passed
from plans.program import Program
from plans.programs.stages import Feed, FixpointStage, Stage, TopStage, outputs_of
from plans.programs.wiring import Wires, wiring


def wires_of(stage: FixpointStage) -> Wires:
    """Returns the wires of the body of a recursion. Its deletes always find their rows, and all rows of its tables are
    read."""
    return wiring(Program("", stage.tables, stage.stages), "trust", selecting=False)


def top_of(stage: FixpointStage) -> TopStage | None:
    """Returns the stage that selects the best of the derived rows, or None if all of them are in the fixed point."""
    if not stage.best:
        return None
    columns, ordered = outputs_of(stage), [one.column for one in stage.best]
    keys = tuple(column.name for column in columns if column.name not in ordered)
    return TopStage(Feed(stage.tables[-1].name, passed(columns)), keys, stage.best, 1)


def inner_of(stage: FixpointStage) -> tuple[Stage, ...]:
    """Returns the stages inside of a recursion: those of its body, and the one that selects the best rows."""
    top = top_of(stage)
    return stage.stages if top is None else (*stage.stages, top)


def with_inner(stage: Stage) -> tuple[Stage, ...]:
    """Returns a stage and, if it is a recursion, the stages inside of it and of the recursions in it."""
    inner = inner_of(stage) if isinstance(stage, FixpointStage) else ()
    return (stage, *(one for part in inner for one in with_inner(part)))
