"""Makes record batches of deltas with ranges: inserted rows, deleted rows, and ranges of rows that change alike.

the delta's columns, _weight       | _until
a row of the result, -1 or +1      | NULL
the first row of a range, 0        | the last row of the range: the columns that order it
the changes of its functions       |
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np
import pyarrow as pa

from crown.errors import CrownError
from crown.stages.running.shifts import Shifts
from crown.store.arrow_buffers import bits
from crown.store.dictionary import Dictionary
from crown.store.records import Records
from crown.store.zset import Zset
from plans.programs.running import Ranged
from plans.schema import UNTIL, Column
from plans.types import arrow_type


class RangedRows:
    """Makes record batches of deltas in ranges, for a result with these ``columns``.

    ``given``: the description of the ranges. ``delta_schema``: the schema of plain deltas.
    """

    def __init__(
        self, given: Ranged, columns: Sequence[Column], delta_schema: pa.Schema, dictionary: Dictionary
    ) -> None:
        windowed, told = given.windowed, len(given.ends)
        if UNTIL in (column.name.lower() for column in columns):
            raise CrownError(f"ranges add a column {UNTIL!r}, which the result has already: rename it in the query")
        self.number, self.told = windowed.number, told
        self._columns = np.array(windowed.columns, np.int64)
        self._shown = len(windowed.stage.shown)
        feed = [output.name for output in windowed.stage.feed.columns]
        self._places = [feed.index(name) for name in windowed.names[:told]]
        shown = [column.name for column in columns]
        self._ends_at = [shown.index(column.name) for column in given.ends]
        fields = [pa.field(column.name, arrow_type(column.type)) for column in given.ends]
        self._ends = len(fields)
        self._until = pa.struct(fields)
        self.schema: pa.Schema = delta_schema.append(pa.field(UNTIL, self._until))
        kinds = [*(end.type for end in given.ends), *(column.type for column in columns)]
        self._records = Records(pa.schema([*fields, *delta_schema]), kinds, dictionary)

    def batches(self, net: Zset, shifts: Shifts | None) -> Generator[pa.RecordBatch, None, None]:
        """Yields a delta: the ``net`` of the rows that change individually, and the ranges."""
        if shifts is None:
            return
        alone, n, m = net.columns(), len(net), len(shifts)
        codes = np.empty((self._ends + len(alone), n + m), np.int64)
        codes[: self._ends, :n], codes[self._ends :, :n] = alone[self._ends_at], alone
        codes[: self._ends, n:] = shifts.lasts[self._places]
        codes[self._ends :, n:] = np.concatenate([shifts.firsts[: self._shown], shifts.moved])[self._columns]
        weights = np.zeros(n + m, np.int64)
        weights[:n] = net.weights
        at = 0
        for batch in self._records.batches(Zset.of_columns(codes, weights)):
            columns, rows = batch.columns, len(batch)
            valid = bits(np.arange(at, at + rows) >= n)
            until = pa.Array.from_buffers(self._until, rows, [valid], children=columns[: self._ends])
            yield pa.RecordBatch.from_arrays([*columns[self._ends :], until], schema=self.schema)
            at += rows
