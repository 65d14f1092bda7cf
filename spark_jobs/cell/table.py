"""Batch tables at a cell: inserts are applied while rows arrive, and the result is read at the end.

So a batch job holds the state and one part of its input (and what ``worker_input.ahead`` has read), not the input as
a whole; and the first result leaves when the last row has come. Deletions wait until all insertions are in: what is
left is the net of both.
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
"""So many rows a part has at least, and, of what enters a join, at most."""
SHARE = 8
JOIN_SHARE = 2
"""A part of a program's input, or a join's, may have as many bytes as its state divided by this."""


def by_parts(engine: ProgramEngine) -> bool:
    """Returns True if rows may enter batch by batch with the same result as in one batch.

    Not so with a window, where a row of a later batch can be late; nor where rows are looked up by key: an
    insert can come after the delete of its key that was made later.
    """
    return not engine.plan.windows and not any(table.by_key for table in engine.plan.tables)


def enter(
    engine: ProgramEngine, envelope: Envelope, batches: Iterable[pa.RecordBatch], aside: bool = False
) -> list[str]:
    """Enters all rows into an empty engine. Returns the quarantined ones; with ``aside`` those that the engine finds
    to be bad are among them. Memory: that of one part of the rows, of the deletions and of the state.

    A part has ``PART_ROWS`` rows at least. Each part goes through all that a join has, so parts grow with its state, up
    to ``MOST_ROWS``. A later part can even change what a program has made of all former ones (the count of every group
    that is joined with its rows), so the parts of a program grow with its state for ever: there are O(log n) of them,
    beyond those that are small beside it.
    """
    bad: list[str] = []
    gone: dict[str, list[pa.Table]] = {}
    most = MOST_ROWS if engine.plan.only_join is not None else sys.maxsize
    for part in _parts(batches, lambda: _room(engine), most):
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
        prepared = engine.prepare(come, strict=not aside)
        bad += noted(prepared.bad)
        engine.run(prepared, deltas=False).close()
    prepared = engine.prepare({name: pa.concat_tables(tables) for name, tables in gone.items()}, strict=not aside)
    bad += noted(prepared.bad)
    for _ in engine.run(prepared):
        pass  # deltas are asked for, so that the live views are there when a stream begins
    return sorted(bad)


def whole(engine: ProgramEngine) -> Iterator[pa.RecordBatch]:
    """Yields the result as deltas of an empty one."""
    yield from engine.deltas_from_nothing()


def _room(engine: ProgramEngine) -> int:
    """Returns the bytes that a part has at least."""
    return int(engine.stats()["live_bytes"]) // (SHARE if engine.plan.only_join is None else JOIN_SHARE)


def _parts(batches: Iterable[pa.RecordBatch], room: Callable[[], int], most: int) -> Iterator[list[pa.RecordBatch]]:
    part: list[pa.RecordBatch] = []
    rows = size = 0
    wanted = room()
    for batch in batches:
        part.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= PART_ROWS and (size >= wanted or rows >= most):
            yield part
            part, rows, size, wanted = [], 0, 0, room()
    yield part
