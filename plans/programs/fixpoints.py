"""The body of a recursion as a program of its own."""

from __future__ import annotations

from plans.program import Program
from plans.programs.stages import FixpointStage, Stage
from plans.programs.wiring import Wires, wiring


def body_of(stage: FixpointStage) -> Program:
    """Returns the program that derives rows. Its last table has the rows of the recursion."""
    return Program("", stage.tables, stage.stages)


def wires_of(body: Program) -> Wires:
    """Returns the wires of a body. All changes of its tables are those of rows that are there."""
    return wiring(body, "trust", selecting=False)


def with_inner(stage: Stage) -> tuple[Stage, ...]:
    """Returns a stage, and the stages of its body, at any depth, if it is a recursion."""
    inner = stage.stages if isinstance(stage, FixpointStage) else ()
    return (stage, *(one for part in inner for one in with_inner(part)))
