"""The limits of a cell: its state, and the memory for it.

Two numbers that have nothing to do with each other. The *budget* bounds the state, wherever it lies: a batch that would
pass it is refused. The *memory* bounds what of the state is in memory, however large it is: the rest is on the disk.
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
    """The limits of each cell, in bytes. None: the state up to what can be addressed, the memory up to the system."""

    budget: int | None = None
    memory: int | None = None

    @staticmethod
    def of(budget: Size | None, memory: Size | None, names: tuple[str, str] = ("cell_budget", "cell_memory")) -> Limits:
        """Returns the limits that a user has given, who calls them by those names.

        Raises ``CrownError`` for what is no size.
        """
        return Limits(
            None if budget is None else size_of(budget, names[0], _LEAST_STATE),
            None if memory is None else size_of(memory, names[1], _LEAST_MEMORY),
        )

    @property
    def words(self) -> int | None:
        """Returns the budget as engines count it."""
        return None if self.budget is None else min(self.budget // 8, ADDRESSABLE)

    def refusal(self, cell: str, batch: int, engine: ProgramEngine, error: MemoryBudgetError) -> MemoryBudgetError:
        """Returns what the user is told of a batch for which there was no room; ``error`` is what the engine said."""
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
