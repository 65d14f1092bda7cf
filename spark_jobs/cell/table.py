"""Batch tables at a cell: inserts are applied while rows arrive, and the result is read at the end.

So a batch job holds the state and one part of its input (and the rows that ``worker_input.read_ahead`` has read), not
the whole input. The first result is yielded after the last row has arrived. Deletions are applied after all
insertions, so the result is the net of both.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from crown.programs.program import ProgramEngine
from spark_jobs.cell.quarantine import noted
from spark_jobs.dispatch.envelope import WEIGHT, Envelope

PART_ROWS = 1 << 20
MOST_ROWS = 1 << 22
"""The least number of rows of a part, and the greatest for input of a join."""
SHARE = 8
JOIN_SHARE = 2
"""A part of the input of a program, or of a join, may have as many bytes as the state divided by this number."""


def by_parts(engine: ProgramEngine) -> bool:
    """Returns True if rows may enter batch by batch with the same result as in one batch.

    This is False with a window, where a row of a later batch can be late, and where rows are looked up by key, because
    a delete can arrive before an older insert of its key.
    """
    return not engine.plan.windows and not any(table.by_key for table in engine.plan.tables)


def enter(
    engine: ProgramEngine, envelope: Envelope, batches: Iterable[pa.RecordBatch], aside: bool = False
) -> list[str]:
    """Enters all rows into an empty engine. Returns the quarantined rows; with ``aside`` they include rows that the
    engine rejects. Memory: one part of the rows, the deletions and the state.

    A part has at least ``PART_ROWS`` rows. Each part is joined with the whole state, so parts of a join grow with its
    state, up to ``MOST_ROWS``. In a program, a later part can change everything that earlier parts produced (such as
    the count of every group that is joined with its rows). So parts of a program grow with its state without a bound:
    beyond the smallest parts there are O(log n) of them.
    """
    bad: list[str] = []
    deletes: dict[str, list[pa.Table]] = {}
    most = MOST_ROWS if engine.plan.only_join is not None else sys.maxsize
    for part in _parts(batches, lambda: _room(engine), most):
        changes, refused = envelope.split(part)
        bad += refused
        inserts = {}
        for name, table in changes.items():
            weights = table.column(WEIGHT)
            least = pc.min(weights).as_py()
            if least is not None and least < 0:
                deletes.setdefault(name, []).append(table.filter(pc.less(weights, 0)))
                table = table.filter(pc.greater(weights, 0))
            inserts[name] = table
        prepared = engine.prepare(inserts, strict=not aside)
        bad += noted(prepared.bad)
        engine.run(prepared, deltas=False).close()
    prepared = engine.prepare({name: pa.concat_tables(tables) for name, tables in deletes.items()}, strict=not aside)
    bad += noted(prepared.bad)
    for _ in engine.run(prepared):
        pass  # deltas are computed, so that the live views exist when a stream begins
    return sorted(bad)


def full_result(engine: ProgramEngine) -> Iterator[pa.RecordBatch]:
    """Yields the whole result as deltas of an empty result."""
    yield from engine.deltas_from_nothing()


def _room(engine: ProgramEngine) -> int:
    """Returns the least number of bytes of a part."""
    return int(engine.stats()["live_bytes"]) // (SHARE if engine.plan.only_join is None else JOIN_SHARE)


def _parts(batches: Iterable[pa.RecordBatch], room: Callable[[], int], most: int) -> Iterator[list[pa.RecordBatch]]:
    part: list[pa.RecordBatch] = []
    rows = size = 0
    required = room()
    for batch in batches:
        part.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= PART_ROWS and (size >= required or rows >= most):
            yield part
            part, rows, size, required = [], 0, 0, room()
    yield part
