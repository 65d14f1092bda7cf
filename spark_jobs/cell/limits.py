"""The limits of a cell: for its state, and for its memory.

The two numbers are independent. The *budget* bounds the state, in memory or on disk: a batch that would exceed it is
refused. The *memory* bounds the part of the state that is in memory: the rest is on disk.
"""

from __future__ import annotations

from dataclasses import dataclass

from crown.errors import MemoryBudgetError
from crown.guards.arguments import Size, size_of
from crown.programs.program import ProgramEngine
from crown.store.memory import ADDRESSABLE

_LEAST_STATE = 1 << 20
_LEAST_MEMORY = 16 << 20


@dataclass(frozen=True)
class Limits:
    """The limits of each cell, in bytes. None: the state is bounded by the address range, the memory by the system."""

    budget: int | None = None
    memory: int | None = None

    @staticmethod
    def of(budget: Size | None, memory: Size | None, names: tuple[str, str] = ("cell_budget", "cell_memory")) -> Limits:
        """Returns the limits that a user has given as the parameters ``names``.

        Raises ``CrownError`` for a value that is not a size.
        """
        return Limits(
            None if budget is None else size_of(budget, names[0], _LEAST_STATE),
            None if memory is None else size_of(memory, names[1], _LEAST_MEMORY),
        )

    @property
    def words(self) -> int | None:
        """Returns the budget in words, as engines count it."""
        return None if self.budget is None else min(self.budget // 8, ADDRESSABLE)

    def refusal(self, cell: str, batch: int, engine: ProgramEngine, error: MemoryBudgetError) -> MemoryBudgetError:
        """Returns the error for a batch that did not fit; ``error`` is the error of the engine."""
        if engine.memory.budget.full_disk:
            return MemoryBudgetError(f"cell {cell}, batch {batch}: {error}")
        if engine.memory.budget.short_of_addresses:
            return MemoryBudgetError(
                f"cell {cell}, batch {batch}: {error}. Or cut the state into more cells before (crown state CHECKPOINT "
                "--recell N), and start the job again"
            )
        has = f"cell {cell} has {_mebibytes(8 * engine.memory.budget.used)} of state"
        if self.budget is None:
            allowed = f"the {8 * ADDRESSABLE >> 30} GiB that a cell can have"
            remedy = "cut the state into more cells (crown state CHECKPOINT --recell N), and start the job again"
        else:
            allowed = f"cell_budget={_mebibytes(self.budget)}"
            remedy = (
                "start the job again with more (cell_budget=, --cell-budget), or cut the state into more cells before "
                "(crown state CHECKPOINT --recell N)"
            )
        return MemoryBudgetError(
            f"{has}, and batch {batch} needs more than {allowed}: nothing of it was applied; {remedy}"
        )


NONE = Limits()


def _mebibytes(count: int) -> str:
    return f"{count / (1 << 20):,.1f} MiB"
