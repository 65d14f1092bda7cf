"""The recursion of ``crown.stages.fixpoint``, readable: all derivations are made from scratch in every round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Row = tuple[Any, ...]
Derive = Callable[[Any, Mapping[Row, int]], Iterable[tuple[Row, int]]]
"""From tables, and rows with their stamps, to derived rows, each with the greatest stamp of the rows that it needs."""


class ReferenceFixpoint:
    """The rows of a recursion with UNION, with their stamps. ``sign``: 1 for the least last value of the rows that
    agree in the other columns, -1 for the greatest, 0 for all rows. ``picked``: columns after that value, which are
    those of its row, the least ones."""

    def __init__(self, derive: Derive, sign: int = 0, picked: int = 0) -> None:
        self.derive = derive
        self.sign = sign
        self.value = -1 - picked
        self.stamps: dict[Row, int] = {}
        self.clock = 0

    def counts(self, tables: Any) -> tuple[Counter[Row], Counter[Row]]:
        """The derivations of each row, and those of each row that is there that need older rows only."""
        every, founded = Counter[Row](), Counter[Row]()
        for row, stamp in self.derive(tables, self.stamps):
            every[row] += 1
            founded[row] += stamp < self.stamps.get(row, 0)
        return every, founded

    def best(self, rows: Iterable[Row]) -> set[Row]:
        """The rows that can be there, of those that are derived."""
        if not self.sign:
            return set(rows)
        found: dict[Row, Row] = {}
        for row in sorted(rows, key=lambda row: (self.sign * row[self.value], row)):
            found.setdefault(row[: self.value], row)
        return set(found.values())

    def update(self, tables: Any) -> None:
        """Brings the rows up to date with changed tables."""
        while True:
            every, founded = self.counts(tables)
            best = self.best(every)
            lost = [row for row in self.stamps if not founded[row] or row not in best]
            new = [row for row in best if row not in self.stamps]
            if lost:
                for row in lost:
                    del self.stamps[row]
            elif new:
                self.clock += 1
                self.stamps |= dict.fromkeys(new, self.clock)
            else:
                return
