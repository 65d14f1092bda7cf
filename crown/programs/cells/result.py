"""The result of a program in several cells: the disjoint rows of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from crown.programs.result import ResultReader
from crown.results.factorized import FactorizedHead
from crown.results.ranged import RangedRows
from crown.results.result import counted


class CellsResultReader:
    """Reads the results of cells as one. See ``ResultReader``."""

    def __init__(self, cells: Sequence[ResultReader]) -> None:
        self._cells = cells
        self._first = cells[0]
        self.columns, self.bag = self._first.columns, self._first.bag
        self.delta_schema, self.result_schema = self._first.delta_schema, self._first.result_schema

    def results(self, factorized: bool = False) -> Iterator[pa.RecordBatch]:
        """Returns the full result, in record batches. See ``ResultReader.results``."""
        return chain.from_iterable([cell.results(factorized) for cell in self._cells])

    def deltas_from_nothing(self) -> Iterator[pa.RecordBatch]:
        """Returns the full result as a delta of inserts. See ``ResultReader.deltas_from_nothing``."""
        return chain.from_iterable([cell.deltas_from_nothing() for cell in self._cells])

    @property
    def factorized(self) -> FactorizedHead:
        """Returns what makes factorized rows of the first cell. See ``ResultReader.factorized``."""
        return self._first.factorized

    @property
    def ranged(self) -> RangedRows:
        """Returns what makes deltas of ranges of the first cell. See ``ResultReader.ranged``."""
        return self._first.ranged

    def count(self) -> int:
        """Returns the number of result rows. See ``ResultReader.count``."""
        return counted(sum(cell.count() for cell in self._cells))

    def contains(self, values: Mapping[str, Any]) -> bool:
        """Returns True iff an output row is in the result. See ``multiplicity``."""
        return self.multiplicity(values) > 0

    def multiplicity(self, values: Mapping[str, Any]) -> int:
        """Returns how often an output row is in the result. See ``ResultReader.multiplicity``."""
        return sum(cell.multiplicity(values) for cell in self._cells)

    def get(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the result row with a key, or None. See ``ResultReader.get``."""
        return next((row for row in (cell.get(key) for cell in self._cells) if row is not None), None)

    def page(self, offset: int, limit: int, of: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """Returns some rows of a window's partition, which is in one cell. See ``ResultReader.page``."""
        return chain.from_iterable([cell.page(offset, limit, of) for cell in self._cells])

    def check_invariants(self) -> None:
        """Raises AssertionError if ``count`` is not the number of rows."""
        for cell in self._cells:
            cell.check_invariants()
