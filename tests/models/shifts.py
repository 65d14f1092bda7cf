"""Deltas of running functions by definition: ranges are applied row by row to a copy of the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cmp_to_key
from typing import Any

from plans.programs.frames import Order
from tests.models.aggregates import Row, rank

Bag = Counter[Row]


def _sum(left: Any, right: Any) -> Any:
    return _DIGITS.add(left, right) if isinstance(left, Decimal) else left + right


_DIGITS = Context(prec=80)


@dataclass
class Copy:
    """A result: its first ``shown`` columns are those of rows, and the others are the values of functions.

    ``keys``: the positions of the partition columns. ``order``: the columns that rows are compared by.
    """

    shown: int
    keys: Sequence[int]
    order: Sequence[tuple[int, Order]]
    rows: Bag

    def apply(self, delta: Bag, ranges: Sequence[tuple[Row, Row, Row]]) -> None:
        """Applies a batch. ``ranges``: the first row, the last row, and the changes of the values of each row."""
        moved: Bag = Counter()
        for row, copies in (self.rows - +Counter({row: -n for row, n in delta.items()})).items():
            shifts = [by for first, last, by in ranges if self._between(first, row, last)]
            assert len(shifts) < 2, "ranges overlap"
            values = row[self.shown :]
            for by in shifts:
                values = tuple(None if v is None else _sum(v, d) for v, d in zip(values, by, strict=True))
            moved[(*row[: self.shown], *values)] += copies
        moved.update(+delta)
        self.rows = moved

    def _between(self, first: Row, row: Row, last: Row) -> bool:
        same = [first[at] for at in self.keys] == [row[at] for at in self.keys]  # NaN is NaN in a list
        return same and self.compare(first, row) <= 0 and self.compare(row, last) <= 0

    def compare(self, one: Row, other: Row) -> int:
        """Compares two rows of a partition. Returns a number below, above or equal to 0."""
        for at, by in self.order:
            left, right = one[at], other[at]
            if left is None or right is None:
                side = (left is not None) - (right is not None)
                side = -side if by.nulls_last else side
            else:
                a, b = rank(left), rank(right)
                side = (a > b) - (a < b)
                side = -side if by.falling else side
            if side:
                return side
        return 0

    def sorted(self) -> list[Row]:
        """Returns the rows of all partitions in order. A row is repeated for each copy."""
        return sorted(self.rows.elements(), key=cmp_to_key(self.compare))
