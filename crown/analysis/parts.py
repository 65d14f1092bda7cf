"""The stages of an engine, whatever it is made of, with the memory that each of them has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crown.engine.cells import Cells
from crown.engine.engine import Engine
from crown.engine.state.arenas import State
from crown.kernels import arena as A
from crown.kernels.geometry import table_total
from crown.maintained import Queryable
from crown.programs.program import ProgramEngine
from crown.stages.cells import Joins
from crown.stages.join import Join
from plans.program import Program, Stage, program_of


@dataclass(frozen=True)
class StageParts:
    """A stage: its number and definition, the arenas that it has, and the states of its join, one per cell."""

    number: int
    stage: Stage
    arenas: tuple[np.ndarray, ...]
    states: tuple[State, ...] = ()

    @property
    def bytes(self) -> int:
        """Returns the bytes in use, without the dictionary of a program."""
        return 8 * sum(int(part[A.H_LIVE]) for part in self.arenas)


def stages_of(engine: Queryable) -> list[StageParts]:
    """Returns the stages of an engine in order; the engine of one join is one. O(stages)."""
    if isinstance(engine, ProgramEngine):
        found = []
        for number, (made, stage) in enumerate(zip(engine.stages, engine.plan.stages, strict=True)):
            joins = made.joins if isinstance(made, Joins) else [made] if isinstance(made, Join) else []
            found.append(StageParts(number, stage, made.parts, tuple(join.state for join in joins)))
        return found
    engines = engine.engines if isinstance(engine, Cells) else [engine]
    states = tuple(one.state for one in engines if isinstance(one, Engine))
    arenas = tuple(part for state in states for part in state.parts)
    return [StageParts(0, program(engine).stages[0], arenas, states)]


def program(engine: Queryable) -> Program:
    """Returns what an engine maintains as a program."""
    return engine.plan if isinstance(engine.plan, Program) else program_of(engine.plan)


def header(state: State) -> np.ndarray:
    """Returns the header of a state, not a copy: its counters and the sizes of its tables."""
    return state.arena[: A.header_words(table_total(len(state.plan.nodes)))]
