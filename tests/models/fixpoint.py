"""The recursion of ``crown.stages.fixpoint``, readable: all derivations are made from scratch in every round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Row = tuple[Any, ...]
Derive = Callable[[Any, Mapping[Row, int]], Iterable[tuple[Row, int]]]
"""From tables, and rows with their stamps, to derived rows, each with the greatest stamp of the rows that it needs."""


class ReferenceFixpoint:
    """The rows of a recursion with UNION, with their stamps."""

    def __init__(self, derive: Derive) -> None:
        self.derive = derive
        self.stamps: dict[Row, int] = {}
        self.clock = 0

    def counts(self, tables: Any) -> tuple[Counter[Row], Counter[Row]]:
        """The derivations of each row, and those of each row that is there that need older rows only."""
        every, founded = Counter[Row](), Counter[Row]()
        for row, stamp in self.derive(tables, self.stamps):
            every[row] += 1
            founded[row] += stamp < self.stamps.get(row, 0)
        return every, founded

    def update(self, tables: Any) -> None:
        """Brings the rows up to date with changed tables."""
        while True:
            every, founded = self.counts(tables)
            unfounded = [row for row in self.stamps if not founded[row]]
            new = [row for row in every if row not in self.stamps]
            if unfounded:
                for row in unfounded:
                    del self.stamps[row]
            elif new:
                self.clock += 1
                self.stamps |= dict.fromkeys(new, self.clock)
            else:
                return
