"""The stages of an engine and the memory of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crown.engine.state import State
from crown.kernels.memory import arena as A
from crown.kernels.memory.geometry import table_total
from crown.programs.cells.engine import Engine
from crown.stages.joins.core import Join
from plans.programs.stages import JoinStage, Stage


@dataclass(frozen=True)
class StageParts:
    """A stage: its number and definition, its arenas, and the states of its join, one per cell."""

    number: int
    stage: Stage
    arenas: tuple[np.ndarray, ...]
    states: tuple[State, ...] = ()

    @property
    def bytes(self) -> int:
        """Returns the bytes in use, without the dictionary of a program."""
        return 8 * sum(int(part[A.H_LIVE]) for part in self.arenas)

    @property
    def headers(self) -> list[np.ndarray]:
        """Returns the headers with the counters of the stage, not copies; for a join, those of its states. A stage
        without memory has none, and neither has a cycle that is only counted.
        """
        if isinstance(self.stage, JoinStage):
            return [header(state) for state in self.states]
        return [arena[: A.H_TABLES] for arena in self.arenas]


def stages_of(engine: Engine) -> list[StageParts]:
    """Returns the stages of an engine in order. O(stages)."""
    found = []
    for number, stage in enumerate(engine.plan.stages):
        made = [cell.stages[number] for cell in engine.cells]
        states = tuple(state for one in made if isinstance(one, Join) for state in one.states)
        found.append(StageParts(number, stage, tuple(part for one in made for part in one.parts), states))
    return found


def header(state: State) -> np.ndarray:
    """Returns the header of a state, not a copy: its counters and the sizes of its tables."""
    return state.arena[: A.header_words(table_total(len(state.plan.nodes)))]
