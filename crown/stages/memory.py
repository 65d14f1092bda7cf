"""The memory of a program: one mapping, in equal parts: the dictionary's, the gate's, then those of each stage."""

from __future__ import annotations

import secrets

import numpy as np

from crown.engine.state import limits_of
from crown.errors import MemoryBudgetError
from crown.kernels import arena as A
from crown.kernels.tables import new_table, table_at
from crown.stages.protocol import Part
from crown.store.budget import Budget
from crown.store.dictionary import Dictionary
from crown.store.memory import reserve
from plans.program import JoinStage, LinearStage, Program, Stage

OWN_PARTS = 2  # the dictionary's and the gate's


def parts_of(stage: Stage) -> int:
    """Returns how many parts a stage takes: a join stage one and one per bag; a linear stage none."""
    if isinstance(stage, JoinStage):
        return 1 + sum(node.bag is not None for node in stage.plan.nodes)
    return 0 if isinstance(stage, LinearStage) else 1


def parts_of_program(program: Program) -> int:
    """Returns how many parts a program takes."""
    return OWN_PARTS + sum(map(parts_of, program.stages))


class ProgramMemory:
    """``parts`` arenas with one budget of ``words`` and one dictionary, which is in the first part."""

    def __init__(self, mapping: np.ndarray, parts: int, words: int) -> None:
        self.parts = np.split(mapping, parts)
        self.budget = Budget(self.parts, words)
        self.dictionary = Dictionary(self.parts[0], int(table_at(0)), self.budget)

    @classmethod
    def create(cls, parts: int, memory_budget: int | None = None, seed: int | None = None) -> ProgramMemory:
        """Makes empty parts. ``memory_budget``: bytes. Raises MemoryBudgetError if that is too little to begin with."""
        words, limit = limits_of(memory_budget)
        if words < parts * (A.header_words(2) + 1024):
            raise MemoryBudgetError(f"memory_budget={memory_budget} is too small to start with; give at least 64 KiB")
        made = cls(reserve(limit * parts), parts, words)
        chosen = secrets.randbits(62) if seed is None else seed
        A.format_arena(made.parts[0], 1, limit, chosen)
        new_table(made.parts[0], int(table_at(0)))
        return made

    def part(self, number: int) -> Part:
        """Returns a part; ``number`` 0 is the dictionary's."""
        return Part(self.parts[number], number, self.budget, self.dictionary)
