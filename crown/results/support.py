"""Support counts: how many enumerated rows stand behind each output row, where the mapping can merge rows.

A delta leaves only when a count leaves zero or reaches it. The counts are a table of the engine's arena; a record is
the output tuple and its count.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crown.errors import MemoryBudgetError, UnusableStateError
from crown.kernels import batches
from crown.store.budget import Budget
from crown.store.zset import Zset


class Support:
    """The counts in table ``table`` (a header word) of ``arena``, of tuples of ``width`` words."""

    def __init__(self, arena: np.ndarray, table: int, width: int, budget: Budget) -> None:
        self.table = table
        self.width = width
        self._arena = arena
        self._budget = budget
        self._identity = np.arange(max(width, 1), dtype=np.int64)
        self._added: Zset | None = None
        self._known = True  # False while, or if, `_added` does not say what was added

    def __len__(self) -> int:
        return int(batches.table_count(self._arena, self.table))

    def add(self, net: Zset) -> Zset:
        """Adds net weights to the counts of distinct tuples.

        Returns the tuples that appeared or vanished, with +1 or -1. Raises MemoryBudgetError where the budget is used
        up; call ``take_back`` then, and whenever else the batch is taken back. Expected O(n).
        """
        values, weights = net.flat(), net.weights
        signs = np.empty_like(weights)
        self._budget.allow(0)
        added = 0
        while added < len(net):
            rest = (values[added * self.width :], weights[added:], signs[added:])
            self._known = False
            try:
                added += int(batches.support_batch(self._arena, self._identity, self.table, self.width, *rest))
            except MemoryError as error:
                raise MemoryBudgetError(f"{error}: the batch was applied in part") from error
            self._added = net[:added]
            self._known = True
            if added < len(net) and not self._budget.extend(0):
                raise self._budget.refusal()
        keep = signs != 0
        return Zset(net.rows[keep], signs[keep])

    def take_back(self) -> None:
        """Undoes what ``add`` did since ``settle``, beyond any budget. UnusableStateError if that is not known."""
        if not self._known:
            raise UnusableStateError("which results were counted is not known")
        if self._added is not None:
            added, self._added = self._added, None
            with self._budget.lifted():
                self.add(added.negated())
            self._added = None

    def settle(self) -> None:
        """Lets the batch stand: nothing of it will be taken back."""
        self._added = None

    def has(self, codes: np.ndarray) -> bool:
        """Returns True iff the output tuple ``codes`` (int64[width]) has support. Expected O(1)."""
        return bool(batches.support_has(self._arena, self._identity, self.table, self.width, codes))

    def scan(self, out: np.ndarray) -> Iterator[Zset]:
        """Yields the output tuples, each with weight 1, in blocks that lie in ``out`` (int64[width, capacity])."""
        slot = 0
        while slot >= 0:
            slot, n = batches.support_scan(self._arena, self.table, self.width, slot, out)
            if n:
                yield Zset.of_columns(out[:, :n], np.ones(n, np.int64))
