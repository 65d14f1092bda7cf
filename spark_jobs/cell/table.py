"""A table at a cell: insertions enter while the rest is still on its way, and the result is read at the end.

So a batch job holds the state and one part of its input, not the input as a whole; and the first result leaves when the
last row has come. Deletions wait until all insertions are in: what is left is the net of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crown.engine.engine import Engine
from spark_jobs.dispatch.envelope import WEIGHT, Envelope

PART_ROWS = 1 << 20


def enter(engine: Engine, envelope: Envelope, batches: Iterable[pa.RecordBatch]) -> list[str]:
    """Enters all rows into an empty engine. Returns the quarantined ones. Memory: that of ``PART_ROWS`` rows, of the
    deletions and of the state."""
    bad: list[str] = []
    gone: dict[str, list[pa.Table]] = {}
    for part in _parts(batches):
        changes, refused = envelope.split(part)
        bad += refused
        come = {}
        for name, table in changes.items():
            weights = table.column(WEIGHT)
            least = pc.min(weights).as_py()
            if least is not None and least < 0:
                gone.setdefault(name, []).append(table.filter(pc.less(weights, 0)))
                table = table.filter(pc.greater(weights, 0))
            come[name] = table
        engine.run(engine.prepare(come), deltas=False).close()
    for _ in engine.run(engine.prepare({name: pa.concat_tables(tables) for name, tables in gone.items()})):
        pass  # deltas are asked for, so that the live views are there when a stream begins
    return sorted(bad)


def whole(engine: Engine) -> Iterator[pa.RecordBatch]:
    """Yields the result as deltas of an empty one."""
    for batch in engine.results():
        if engine.plan.payload is not None:
            yield batch
        else:
            once = pa.array(np.ones(batch.num_rows, np.int64))
            yield pa.RecordBatch.from_arrays([*batch.columns, once], schema=engine.delta_schema)


def _parts(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    part: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        part.append(batch)
        rows += batch.num_rows
        if rows >= PART_ROWS:
            yield part
            part, rows = [], 0
    yield part
