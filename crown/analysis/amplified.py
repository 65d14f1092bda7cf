"""Finds amplified changes: a few changed rows that caused very many deltas, and the value that they share.

A change of a hub in a join gives as many deltas as the hub has partners, and all of them hold its key. So the value
that most deltas have, and few of the changed rows, names the change. It is looked for in a batch that has more deltas
than a threshold, in a sample of them, and in the changed rows. Other batches cost O(1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from crown.ingest.columns import WEIGHT
from crown.store.display import shown

BEYOND = 100_000
"""More deltas per change than this make a view warn, by default."""
_OF_BLOCK, _SAMPLE = 4_096, 65_536  # rows that can be looked at
_LEAST = 4_096  # rows that are looked at, if there are as many
_SURE = 256  # rows that a value which is to be told has among those, more or less


@dataclass(frozen=True)
class Amplified:
    """``rows`` changed rows have ``value``; so have some ``deltas`` deltas, of all ``of``, in their ``column``.

    ``column`` is empty if no value names the change: then ``rows`` are all of the batch.
    """

    column: str
    value: Any
    rows: int
    deltas: int
    of: int

    def line(self) -> str:
        """Returns it as a sentence."""
        some = f"{self.rows:,} changed row{'s' if self.rows != 1 else ''}"
        key = f" with {self.column} = {self.value!r:.100}" if self.column else ""
        return f"{some}{key} gave {'about ' if self.deltas < self.of else ''}{self.deltas:,} of {self.of:,} deltas"


class Amplification:
    """Looks at the deltas of one batch as they come; ``beyond``: deltas per changed row that are told, None: none.

    ``told``: what was said of the batch.
    """

    def __init__(self, beyond: int | None) -> None:
        self._beyond = beyond
        self.told = ""
        self._deltas = self._sampled = 0
        self._sample: list[pa.RecordBatch] = []

    def add(self, deltas: pa.RecordBatch) -> None:
        """Takes note of some deltas. O(1)."""
        self._deltas += deltas.num_rows
        if self._beyond is not None and self._sampled < _SAMPLE and deltas.num_rows:
            self._sample.append(deltas)
            self._sampled += min(deltas.num_rows, _OF_BLOCK)

    @property
    def beyond(self) -> bool:
        """Returns True if there are more deltas than one changed row may give."""
        return self._beyond is not None and self._deltas > self._beyond

    def found(self, changes: Iterable[Mapping[str, Any] | pa.Table]) -> Amplified | None:
        """Returns the change that was amplified most, if it was beyond the threshold; ``changes``: columns by name, of
        each relation. O(sample + changed rows)."""
        if self._beyond is None or not self.beyond:
            return None
        given = [{name: one[name] for name in _names(one) if name != WEIGHT} for one in changes]
        rows = sum(len(next(iter(columns.values()))) for columns in given if columns)
        worst = Amplified("", None, max(rows, 1), self._deltas, self._deltas)
        wanted = max(_LEAST, _SURE * self._deltas // max(self._beyond, 1))
        each = min(-(-wanted // len(self._sample)), _OF_BLOCK)
        blocks = [block.slice(0, each) for block in self._sample]
        sample = pa.Table.from_batches(blocks).flatten()  # the elements of a motif are structs
        for name in sample.column_names:
            if name == WEIGHT:
                continue
            counted = pc.value_counts(sample.column(name).drop_null())
            if not len(counted):
                continue
            top = counted[pc.index(counted.field("counts"), pc.max(counted.field("counts"))).as_py()]
            having = sum(_having(column, top["values"]) for columns in given for column in columns.values())
            deltas = top["counts"].as_py() * self._deltas // sample.num_rows
            named, least = bool(worst.column), worst.deltas * having
            if having and (deltas * worst.rows > least or (not named and deltas * worst.rows == least)):
                worst = Amplified(name, shown(top["values"]), having, deltas, self._deltas)
        return worst if worst.deltas > self._beyond * worst.rows else None


def _names(columns: Mapping[str, Any] | pa.Table) -> Iterable[str]:
    return columns.column_names if isinstance(columns, pa.Table) else columns


def _having(column: Any, value: pa.Scalar) -> int:
    """Returns how many rows have the value in a column; none if it is of another type."""
    if column.type != value.type:
        return 0
    return pc.sum(pc.equal(column, value)).as_py() or 0
