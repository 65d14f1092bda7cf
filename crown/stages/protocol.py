"""The protocol of stages: what each stage does, and where it stores its state.

A stage consumes the nets of its inputs, one per batch, and produces the net of its own rows. Law: the sum of its
outputs over all batches is its definition, applied to the sums of its inputs. Stages exchange codes.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from crown.errors import (
    ChangeError,
    FunctionError,
    MemoryBudgetError,
    MissingDeleteError,
    SnapshotError,
    UnusableStateError,
)
from crown.kernels.memory import arena as A
from crown.kernels.memory.tables import new_table, table_at
from crown.stages.kernels.retained import block
from crown.store.budget import Budget
from crown.store.codec import named_values, uses_dictionary
from crown.store.dictionary import Dictionary
from crown.store.zset import Zset
from plans.schema import Column

Result = TypeVar("Result")
REFUSALS = (ChangeError, MemoryBudgetError, FunctionError, pa.ArrowException)
"""The errors after which a stage is unchanged. The last two are raised by expressions."""


@dataclass(frozen=True)
class Part:
    """The memory of a stage: ``arena``, number ``number`` of the ``budget``; and the program's ``dictionary``."""

    arena: np.ndarray
    number: int
    budget: Budget
    dictionary: Dictionary

    def open(self, tables: int, seed: int | None = None) -> bool:
        """Returns True if the arena was empty; it is then formatted with ``tables`` empty tables. Otherwise returns
        False.

        Raises SnapshotError if the arena does not hold a state.
        """
        arena = self.arena
        if arena[A.H_MAGIC] == 0:
            limit = int(arena[A.H_LIMIT]) or len(arena)  # in a file, the words that have disk blocks
            A.format_arena(arena, tables, limit, secrets.randbits(62) if seed is None else seed)
            for table in range(tables):
                new_table(arena, int(table_at(table)))
            return True
        if not A.is_arena(arena):
            raise SnapshotError("the state of a stage is incomplete")
        return False

    def run_rows(self, n: int, step: Callable[[int], int], undo: Callable[[int], object], done: int = 0) -> None:
        """Calls the kernel ``step`` until all ``n`` rows are done. It receives the number of done rows and returns the
        new one.

        If an error stops it, ``undo`` is called with the number of done rows, to undo them. Raises the errors of
        ``run_until_done``.
        """

        def work() -> bool:
            nonlocal done
            done = int(step(done))
            return done == n

        try:
            self.run_until_done(work)
        except BaseException:
            with self.budget.lifted():
                undo(done)
            raise

    def run_until_done(self, step: Callable[[], bool], expected: int = 0) -> None:
        """Calls ``step``, a kernel that stops when the budget is used up, until it returns True.

        ``expected``: words that the kernel may use before it checks its budget. Raises MemoryBudgetError if the budget
        allows no more, and UnusableStateError if the arena was full within a tuple.
        """
        if not self.budget.fixed:
            self.budget.allow(self.number, expected)
        while True:
            try:
                if step():
                    return
            except MemoryError as error:
                raise self.overflow(error) from error
            if not self.budget.extend(self.number, expected):
                raise self.budget.refusal()

    @staticmethod
    def overflow(error: MemoryError) -> UnusableStateError:
        """Returns the error of a kernel that found the arena full within a tuple."""
        return UnusableStateError(f"{error}: the batch was applied in part")

    def run_atomically(
        self,
        net: Zset,
        work: Callable[[Zset, np.ndarray], Result],
        undo: Callable[[Zset, np.ndarray], object],
    ) -> Result:
        """Returns the result of ``work`` on a net. If ``work`` raises, ``undo`` undoes the rows that it has changed.

        Both receive a zeroed int64[2], and write the number of changed rows of the net to its first word.
        """
        done = np.zeros(2, np.int64)
        try:
            return work(net, done)
        except BaseException:
            with self.budget.lifted():
                undo(net[: int(done[0])].negated(), np.zeros(2, np.int64))
            raise

    def record(self, at: int, words: int) -> tuple[int, bool]:
        """Returns the handle of the record whose handle is in word ``at``, and True if this call created the record,
        with all words 0."""
        created = not self.arena[at]
        if created:
            self.arena[at] = block(self.arena, words)
        return int(self.arena[at]), created

    def mark_words(self, table: int, columns: Sequence[Column]) -> None:
        """Marks the values that the first words of a table's records reference, for the next sweep of the dictionary.
        O(table)."""
        for word, column in enumerate(columns):
            if uses_dictionary(column.type):
                self.dictionary.mark_column(self.arena, table, word)

    def missing_delete(
        self, relation: str, columns: Sequence[Column], row: np.ndarray, copies: int
    ) -> MissingDeleteError:
        """Returns the error for a batch that deletes more copies of a row (int64[columns], codes) than are present."""
        values = named_values(row, columns, self.dictionary.extern)
        deleted = "1 copy" if copies == 1 else f"{copies} copies"
        return MissingDeleteError(
            f"relation {relation!r}: the batch deletes {deleted} of {values}, more than there are; nothing was "
            "applied. Delete the row with the values that were inserted, or use "
            'on_missing="ignore" to count such deletes'
        )


class Stage(Protocol):
    """A stage of a program.

    ``inputs``: per feed, the relation's name, or the number of the stage that it reads. ``columns``: the columns of its
    rows. The last batch that a stage has applied can be undone, even if later stages have not applied it.
    """

    inputs: tuple[str | int, ...]
    columns: tuple[Column, ...]
    parts: tuple[np.ndarray, ...]

    def apply(self, nets: Sequence[Zset]) -> Zset:
        """Applies the nets of its inputs. Returns the net of its own rows. If it raises, the stage is unchanged."""

    def undo(self, nets: Sequence[Zset]) -> Zset:
        """Undoes the last batch, which had these nets. Returns the net of its own rows. The caller lifts the budget."""
        return self.apply([net.negated() for net in nets])

    def scan(self, sources: Sequence[Iterable[Zset]] = ()) -> Iterator[Zset]:
        """Yields the stage's rows with their multiplicities. ``sources``: the rows of its inputs, if the stage needs
        them."""

    def multiplicity(self, row: np.ndarray, sources: Sequence[Iterable[Zset]] = ()) -> int:
        """Returns the multiplicity of a row (int64[columns], codes). As costly as ``scan``, unless it is
        looked up."""
        return sum(int(net.weights[(net.rows == row).all(axis=1)].sum()) for net in self.scan(sources))

    def mark_values(self) -> None:
        """Marks every value in the dictionary that the stage references. O(state)."""

    def check_invariants(self) -> None:
        """Recomputes derived state and compares. Raises AssertionError. O(state)."""

    def stats(self) -> dict[str, Any]:
        """Returns sizes and counters."""
