"""Runs the count of a cyclic join as a stage: a row of constants whose multiplicity is the count."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from typing_extensions import override

from crown.bags.counts import CountSpec, open_count
from crown.errors import ChangeError, MemoryBudgetError, UnusableStateError
from crown.ingest.batch import JoinInputs
from crown.kernels.memory import arena as A
from crown.results.head import OutputHead
from crown.stages.protocol import Stage
from crown.stages.state.memory import ProgramMemory
from crown.store.codec import uses_dictionary
from crown.store.zset import Zset
from plans.programs.stages import JoinStage
from plans.programs.wiring import Wires
from plans.schema import Column

_SLICE = 1 << 13  # rows between two checks of the budget


class CyclicCount(Stage):
    """Runs a join stage whose plan is a count.

    Arguments as for ``Join``. Its part in ``memory`` has number ``first``.
    """

    def __init__(
        self,
        stage: JoinStage,
        wires: Wires,
        memory: ProgramMemory,
        first: int,
    ) -> None:
        dictionary = memory.dictionary
        self._join_inputs = JoinInputs(stage.plan, wires, dictionary.extern)
        plan, self.inputs = self._join_inputs.plan, self._join_inputs.inputs
        assert plan.count is not None
        self._part = memory.part(first)
        arena = self._part.arena
        self.parts: tuple[np.ndarray, ...] = (arena,)
        self.columns = tuple(Column(output.name, output.type) for output in plan.output)
        self._types = {name: attribute.type for name, attribute in plan.attributes.items()}
        reserved = int(arena[A.H_LIMIT])
        self._count = open_count(plan.count.method, CountSpec.of_bag(plan.count), arena)
        arena[A.H_LIMIT] = memory.budget.reach(self._part.number, reserved)
        once = Zset(np.empty((1, 0), np.int64), np.ones(1, np.int64))
        self._row = OutputHead(plan, dictionary).codes(once).rows

    def apply(self, nets: Sequence[Zset]) -> Zset:
        """Applies a batch. Amortized O(√N) per change for triangles.

        Raises ChangeError if the number could leave 64 bits, and MemoryBudgetError.
        """
        rows, before, done = self._changed_rows(nets), self._count.total, 0
        try:
            while done < len(rows):
                self._apply_rows(rows[done : done + _SLICE])
                done = min(done + _SLICE, len(rows))
        except (ChangeError, MemoryBudgetError):
            self._undo_rows(rows[:done])
            raise
        return self._row_with_weight(self._count.total - before)

    def _changed_rows(self, nets: Sequence[Zset]) -> np.ndarray:
        """Returns the deleted rows of atoms, then the inserted ones."""
        changes = self._join_inputs.changes(nets)
        return np.concatenate(
            [
                self._count.rows({alias.atom: rows for change in changes for alias, rows in change.of_aliases(sign)})
                for sign in (-1, 1)
            ]
        )

    def _undo_rows(self, rows: np.ndarray) -> None:
        """Undoes applied rows, the last ones first."""
        inverse = rows[::-1] * np.array([1, 1, 1, -1])
        with self._part.budget.lifted():
            for start in range(0, len(inverse), _SLICE):
                self._apply_rows(inverse[start : start + _SLICE])

    def _apply_rows(self, rows: np.ndarray) -> None:
        """Applies rows in one call. Raises MemoryBudgetError, with nothing changed, if there is no room for them."""
        part, arena = self._part, self._part.arena
        expected = self._count.words(len(rows))
        part.budget.allow(part.number, expected)
        if arena[A.H_LIVE] > arena[A.H_BUDGET] and not part.budget.extend(part.number, expected):
            raise part.budget.refusal()
        try:
            self._count.apply(rows)
        except MemoryBudgetError as error:
            raise UnusableStateError(f"{error}: the batch was applied in part") from error

    def _row_with_weight(self, copies: int) -> Zset:
        """Returns the row of constants with ``copies`` as its weight."""
        if not copies:
            return Zset.empty(len(self.columns))
        return Zset(self._row.copy(), np.array([copies], np.int64))

    def scan(self, sources: Sequence[Iterable[Zset]] = ()) -> Iterator[Zset]:
        """Yields the rows. O(1)."""
        yield self._row_with_weight(self._count.total)

    def multiplicity(self, row: np.ndarray, sources: Sequence[Iterable[Zset]] = ()) -> int:
        """Returns the multiplicity of a row. O(1)."""
        return self._count.total if (self._row[0] == row).all() else 0

    def mark_values(self) -> None:
        """Marks the values of the relations, and the constants of the result, which no relation contains."""
        for column, code in zip(self.columns, self._row[0], strict=True):
            if uses_dictionary(column.type):
                self._part.dictionary.mark_codes(code.reshape(1))
        for name in self._count.spec.attributes:
            if uses_dictionary(self._types[name]):
                self._part.dictionary.mark_codes(self._count.values(name))

    @override
    def check_invariants(self) -> None:
        self._count.check_invariants()

    @override
    def stats(self) -> dict[str, Any]:
        return self._count.stats()
