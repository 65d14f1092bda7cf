"""The engine of a cell: created, attached from its file, or restored from a snapshot.

Rows that no stage reads are dropped before the shuffle. A cell of several stages stores every row that reaches it: the
relations of its program may be roles of one base relation, and each role must be able to find the rows. A cell of one
join drops rows that it does not read, because its relations are the base relations.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from crown.analysis.hot import HotKey, hottest
from crown.analysis.parts import stages_of
from crown.errors import SnapshotError
from crown.ingest.tables.columns import WEIGHT
from crown.programs import snapshot
from crown.programs.program import ProgramEngine
from plans.program import Program
from spark_jobs.cell import engines
from spark_jobs.cell.kept_plan import KeptPlan
from spark_jobs.errors import ANEW, BrokenChainError, DamagedStateError
from spark_jobs.log.state_log import BACKFILL, EMPTY, CellLog
from spark_jobs.storage.folder import Folder


def created(program: Program, path: Path | None, on_missing: str) -> ProgramEngine:
    """Returns a new, empty engine, in the file ``path`` or in memory."""
    return ProgramEngine.create(program, path, on_missing=on_missing, selecting=program.only_join is not None)


def attached(program: Program, path: Path, on_missing: str) -> ProgramEngine:
    """Returns the engine in the file ``path``. O(1).

    Raises ``SnapshotError`` or ``FileNotFoundError`` if there is none.
    """
    return ProgramEngine.attach(program, path, on_missing=on_missing, selecting=program.only_join is not None)


def loaded(source: Path, program: Program, path: Path | None, on_missing: str) -> tuple[ProgramEngine, dict[str, Any]]:
    """Returns the engine of a snapshot, in the file ``path`` or in memory, and the data that was saved with it.

    Raises ``SnapshotError`` if the snapshot is damaged or of another program.
    """
    engine, extra = snapshot.load(source, path)
    assert isinstance(engine, ProgramEngine), "the state of several cells is not kept in a file"
    if engine.fingerprint != program.fingerprint:
        raise SnapshotError(f"{source} holds the state of another query; use a fresh path for the changed query")
    for kept in engine.plan.tables:
        if [column.name for column in program.table(kept.name).columns] != [column.name for column in kept.columns]:
            order = ", ".join(column.name for column in kept.columns)
            raise SnapshotError(
                f"{source} stores the columns of relation {kept.name!r} in the order {order}; declare them in that "
                "order (schema=)"
            )
    if engine.on_missing != on_missing:
        raise SnapshotError(
            f'{source} was written with on_missing="{engine.on_missing}", which decides what is stored; use the same '
            f"on_missing, or {ANEW}"
        )
    return engine, extra


def restored(log: CellLog, kept: KeptPlan, batch: int, backfill: Folder | None) -> ProgramEngine:
    """Returns the engine of a cell after ``batch``. O(state), and the changes since the newest snapshot before it.

    ``backfill``: the folder of the operator's backfill, if there is one. Raises ``CheckpointError`` and its subclasses
    if the state after that batch cannot be rebuilt or verified.
    """
    return rebuilt(log, kept, batch, backfill)[0]


def rebuilt(log: CellLog, kept: KeptPlan, batch: int, backfill: Folder | None) -> tuple[ProgramEngine, str]:
    """Returns the engine as ``restored`` does, and the digest with which the cell's history ends."""
    engine, version, digest = _begun(log, kept, batch, backfill)
    for number in log.batches():
        if version < number <= batch:
            link = log.read(number)
            log.demand_next(link, version, digest)
            engine.update(link.changes)
            version, digest = number, link.digest
    if version < 0:
        raise BrokenChainError(
            f"cell {log.cell} has no batch up to {batch} in {log.folder}: give a batch that the state contains, or "
            "restore the files from a copy"
        )
    return engine, digest


def _begun(log: CellLog, kept: KeptPlan, batch: int, backfill: Folder | None) -> tuple[ProgramEngine, int, str]:
    """Returns the engine from which the replay starts, its version and the digest with which its history ends."""
    versions = [version for version in log.snapshots() if version <= batch]
    if versions:
        engine, digest = _loaded(log, versions[-1], kept)
        return engine, versions[-1], digest
    if backfill is not None:
        owner = log.owner
        base = CellLog(backfill / log.cell, owner.fingerprint, owner.format, owner.cut)
        if BACKFILL in base.snapshots():
            engine, digest = _loaded(base, BACKFILL, kept)
            return engine, BACKFILL, digest
    batches = log.batches()
    if batches and log.read(batches[0]).prev != EMPTY:
        raise BrokenChainError(
            f"cell {log.cell} cannot go back to batch {batch}: older files were deleted from {log.folder}. Read "
            "a later batch"
        )
    return engines.created(kept.program, None, kept.on_missing), EMPTY, ""


def _loaded(log: CellLog, version: int, kept: KeptPlan) -> tuple[ProgramEngine, str]:
    source = log.snapshot_path(version)
    try:
        with log.snapshot(version) as path:
            engine, extra = engines.loaded(path, kept.program, None, kept.on_missing)
            return engine, log.demand_mark(source, extra, version)
    except SnapshotError as error:
        raise DamagedStateError(
            f"cell {log.cell}: the snapshot {source} cannot be used ({error}). Restore it from a copy"
        ) from None


def hot_keys(engine: ProgramEngine, most: int) -> list[HotKey]:
    """Returns the keys of the engine's joins that occur in the most rows: a change of such a key touches all its rows.
    O(groups).
    """
    found = [
        key
        for part in stages_of(engine)
        for state in part.states
        for node in range(1, len(state.plan.nodes))
        for key in hottest(state, node, most)
    ]
    return sorted(found, key=lambda key: (-key.parents, -key.children))[:most]


def rows_of(engine: ProgramEngine) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the result, each repeated as often as it occurs. O(result)."""
    for rows in engine.results():
        if rows.schema.names[-1:] == [WEIGHT] and rows.num_columns > len(engine.plan.output):
            copies = np.repeat(np.arange(rows.num_rows), rows.column(rows.num_columns - 1).to_numpy())
            rows = rows.take(pa.array(copies)).drop_columns([WEIGHT])
        yield rows
