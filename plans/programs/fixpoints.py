"""The body of a recursion, which is a program of its own."""

from __future__ import annotations

from plans.program import Program
from plans.programs.stages import FixpointStage, Stage
from plans.programs.wiring import Wires, wiring


def wires_of(stage: FixpointStage) -> Wires:
    """Returns the wires of the body of a recursion. Its deletes always find their rows, and all rows of its tables are
    read."""
    return wiring(Program("", stage.tables, stage.stages), "trust", selecting=False)


def with_inner(stage: Stage) -> tuple[Stage, ...]:
    """Returns a stage and, if it is a recursion, the stages of its body and of the recursions in it."""
    inner = stage.stages if isinstance(stage, FixpointStage) else ()
    return (stage, *(one for part in inner for one in with_inner(part)))
