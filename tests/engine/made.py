"""Engines and cores of one plan, and what is asked of them, for tests."""

from __future__ import annotations

from typing import Any

from crown.engine.core import Core
from crown.engine.state import State
from crown.programs.program import ProgramEngine
from crown.stages.joins.core import Join
from crown.stages.state.memory import OWN_PARTS, ProgramMemory, parts_of
from plans.plan import Plan
from plans.program import Program, program_of
from plans.programs.stages import JoinStage


def engine_of(plan: Plan, mode: str = "set", **options: Any) -> ProgramEngine:
    """Returns a new engine of a program of one join."""
    program = program_of(plan) if mode == "set" else Program(plan.query, plan.tables, (JoinStage(plan, mode),))
    return ProgramEngine.create(program, **options)


def memory_of(plan: Plan) -> ProgramMemory:
    """Returns new memory with room for a core of a plan."""
    return ProgramMemory.create(OWN_PARTS + parts_of(JoinStage(plan)))


def state_of(plan: Plan, memory: ProgramMemory | None = None, seed: int | None = None) -> State:
    """Returns a new, empty state of a plan; cores in one ``memory`` share their dictionary."""
    own = memory_of(plan)
    state = State(plan, own.parts[OWN_PARTS:], (memory or own).dictionary, own.budget, OWN_PARTS)
    state.format(own.budget.words, seed)
    return state


def core_of(plan: Plan, memory: ProgramMemory | None = None) -> Core:
    """Returns a new core of a plan."""
    return Core(state_of(plan, memory, 3))


def join_of(engine: Any) -> Join:
    """Returns the join of an engine, or of the engine of a view, that has no other stage but perhaps DISTINCT."""
    join = getattr(engine, "_engine", engine).stages[0]
    assert isinstance(join, Join)
    return join


def join_stats(engine: Any) -> dict[str, Any]:
    """Returns what the only join of an engine or view says of itself."""
    found: dict[str, Any] = engine.stats()["stages"][0]
    return found


def distinct_rows(engine: Any) -> int:
    """Returns how many rows the DISTINCT behind the only join of an engine or view keeps; 0 if there is none."""
    return sum(stage["rows"] for stage in engine.stats()["stages"][1:])
