"""Compares the two sources of truth: Spark's offsets and commits, and the logs of the cells.

Spark's checkpoint has ``offsets/b``, written before batch ``b`` is executed, and ``commits/b``, written after. A cell
has ``b.delta`` of every batch that was executed: each batch runs a task per cell, also without rows, because nothing in
the operator's plan can be optimized away (``spark_jobs.dispatch.shuffle``). Therefore:

- If Spark committed a batch with new data and a cell does not have it, the batch was not applied to the cell, or its
  delta is lost.
- If a cell has a batch that Spark has not begun, offsets and commits are lost, or were set back.

The whole histories are compared when a stream is built and Spark's checkpoint is in the same folder (``reconcile``).
The cell itself compares every batch with the one before it (``check_next``), which reads Spark's files only if batches
are missing in between. Spark itself skips such batches if no source had new data; their offsets do not change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_jobs.errors import ANEW, BrokenChainError, CheckpointError, DamagedStateError
from spark_jobs.log.meta import read_meta
from spark_jobs.log.state_log import BACKFILL, EMPTY, CellLog, cell_folders
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.opening import folder_at

_BATCH = re.compile(r"0|[1-9][0-9]{0,17}")


class SparkHistory:
    """The batches in Spark's own checkpoint in ``folder``."""

    def __init__(self, folder: Folder | Path) -> None:
        self.folder = folder_at(folder)

    @staticmethod
    def of(folder: Folder | Path, stream: str) -> SparkHistory | None:
        """Returns the checkpoint in ``folder`` if it belongs to that stream. Returns None otherwise: Spark keeps the
        checkpoint in another folder.
        """
        return SparkHistory(folder) if stream_of(folder) == stream else None

    def committed(self) -> int:
        """Returns the newest batch that Spark committed; −1 if there is none."""
        return self._newest("commits")

    def begun(self) -> int:
        """Returns the newest batch that Spark has begun; −1 if there is none."""
        return self._newest("offsets")

    def had_data(self, batch: int) -> bool:
        """Returns False if the sources had no new data for the batch: its offsets equal those of the batch before.

        Also returns True if this is unknown, because Spark no longer has the offsets (see ``minBatchesToRetain``).
        """
        now, before = self.offsets(batch), self.offsets(batch - 1)
        if batch == 0:
            return now is None or any(line != "-" for line in now)
        return now is None or now != before

    def began(self, batch: int) -> int | None:
        """Returns the start time of a batch, in milliseconds since 1970; None if Spark does not have it (yet, or any
        longer).
        """
        try:
            return int(json.loads((self._lines(batch) or [])[1])["batchTimestampMs"])
        except (ValueError, KeyError, TypeError, IndexError):
            return None

    def _newest(self, kind: str) -> int:
        with _readable(self.folder):
            names = (self.folder / kind).files()
        return max((int(name) for name in names if _BATCH.fullmatch(name)), default=-1)

    def offsets(self, batch: int) -> list[str] | None:
        """Returns the lines of ``offsets/<batch>`` for the sources: all lines except the version and the batch's
        settings.
        """
        lines = self._lines(batch)
        return None if lines is None else lines[2:]

    def _lines(self, batch: int) -> list[str] | None:
        """Returns the lines of ``offsets/<batch>``; None if the file does not exist, or is not text."""
        with _readable(self.folder):
            try:
                return (self.folder / "offsets").read(str(batch)).decode().splitlines()
            except (FileNotFoundError, ValueError):
                return None


def stream_of(folder: Folder | Path) -> str | None:
    """Returns the id of the stream whose Spark checkpoint is in ``folder``; None if no checkpoint can be read."""
    folder = folder_at(folder)
    with _readable(folder):
        try:
            found = json.loads(folder.read("metadata"))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None
    return str(found["id"]) if isinstance(found, dict) and "id" in found else None


@contextmanager
def _readable(folder: Folder) -> Iterator[None]:
    """Turns the storage's errors into :class:`CheckpointError`, so that an unreadable file does not count as absent."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"cannot read Spark's checkpoint {folder}: {error.strerror}") from None


# -- when a stream is built -------------------------------------------------------------------------------------------


def reconcile(folder: Folder | Path, stream: str, operator: str, root: Folder | None = None) -> None:
    """Compares Spark's checkpoint in ``folder`` with every cell of an operator of the same stream, before the stream
    continues. Then compares, in each cell, every delta since the newest snapshot with the delta before it.

    ``root``: the folder of the state, by default ``crown/`` in the folder.

    Raises :class:`BrokenChainError` that names both, or :class:`DamagedStateError`. Cost: listings of Spark's folders
    and of the cells', and the headers of those deltas.
    """
    spark = SparkHistory(folder)
    state = (spark.folder / "crown" if root is None else root) / stream / operator
    committed = spark.committed()  # in this order, so that a stream that is running meanwhile causes no contradiction
    newest = {path.name: CellLog(path, "").newest() for path in cell_folders(state)}
    meta = read_meta(state)
    cells = range(meta["cells"]) if meta is not None else range(1)
    begun = spark.begun()
    for cell in map(str, cells):
        version = newest.get(cell, EMPTY)
        if version > begun:
            raise unstarted_batch_error(spark.folder, begun + 1, version, cell, state)
        lost = [b for b in _after(version, committed + 1) if spark.had_data(b)]
        if lost:
            others = [name for name, has in newest.items() if has >= lost[0]]
            raise missing_batch_error(spark.folder, lost[0], cell, state, committed, bool(others))
        if meta is not None and cell in newest:
            for trouble in CellLog.of(state / cell, meta).troubles(complete=False):
                raise trouble


def _after(version: int, stop: int) -> range:
    """Returns the batches after a version and before ``stop``."""
    return range(max(version + 1, 0), stop)


# -- when a cell receives a batch -------------------------------------------------------------------------------------


def check_next(log: CellLog, before: int, batch: int, spark_folder: Folder | None) -> None:
    """Raises unless the cell, whose newest version before ``batch`` is ``before``, may apply that batch now.

    ``spark_folder``: the folder where Spark's checkpoint of the stream would be; if there is none, every gap is an
    error. Costs nothing when the batches are consecutive.
    """
    missing = _after(before, batch)
    if not missing and before not in (EMPTY, BACKFILL):
        return
    state = log.folder.parent
    spark = SparkHistory.of(spark_folder, state.parent.name) if spark_folder is not None else None
    if before in (EMPTY, BACKFILL) and spark is not None:
        _no_other_stream(state, spark.folder)
    for number in missing:
        if _siblings_have(log, number):
            raise missing_batch_error(spark_folder, number, log.cell, state, batch - 1, True)
        if spark is None:
            raise BrokenChainError(
                f"cell {log.cell}: Spark executes batch {batch}, but the newest in {log.folder} is {_name(before)}; "
                "the batches in between may have had data, but Spark's checkpoint of this stream is in another folder. "
                "foreachBatch did not read its batch, or the state was lost. Give checkpoint= the stream's own "
                f"checkpointLocation, which tells whether they had data, and {ANEW}"
            )
        if spark.had_data(number):
            raise missing_batch_error(spark.folder, number, log.cell, state, batch - 1, False)


def _no_other_stream(state: Folder, spark: Folder) -> None:
    """Raises if another stream has left state of the same operator in the checkpoint of one stream."""
    root, operator = state.parent.parent, state.name
    with _readable(root):
        streams = [name for name in root.folders() if name not in (state.parent.name, "backfill")]
    for stream in sorted(streams):
        other = root / stream / operator
        newest = max((CellLog(cell, "").newest() for cell in cell_folders(other)), default=EMPTY)
        if newest > EMPTY:
            raise BrokenChainError(
                f"Spark began the new stream {state.parent.name} in {spark}, but {other} has the state of stream "
                f"{stream} up to batch {newest}: Spark's metadata, offsets and commits were lost. Restore them from a "
                "copy; or, to start again from the first row with an empty output, delete "
                f"{root} and {spark.at('metadata')}"
            )


def _siblings_have(log: CellLog, batch: int) -> bool:
    """Returns True if another cell of the operator has that batch."""
    folders = cell_folders(log.folder.parent)
    return any(CellLog(folder, "").has(batch) for folder in folders if folder != log.folder)


# -- errors -----------------------------------------------------------------------------------------------------------


def missing_batch_error(
    folder: Folder | None, batch: int, cell: str, state: Folder, committed: int, partial: bool
) -> BrokenChainError:
    """Returns the error for a batch that Spark committed with data and that a cell does not have; ``partial``: other
    cells have it.
    """
    where = folder / "offsets" if folder is not None else "Spark"
    repair = (
        f"To repair, stop the query, and run `crown state {folder or 'CHECKPOINT'} --rollback-to {batch - 1}`, with "
        "--into for every table that it writes"
    )
    if partial:
        return BrokenChainError(
            f"cell {cell} does not have batch {batch}, which other cells applied: foreachBatch read only part of the "
            "batch (limit, show, head, isEmpty), or the delta file of the batch was lost. Run such actions on the "
            f"written output instead. {repair}"
        )
    return BrokenChainError(
        f"Spark committed batch {committed} ({where}), but no cell has batch {batch} ({state}), which had new data: "
        "foreachBatch did not read it, or the state was lost. Restore lost files from a copy, and make foreachBatch "
        f"read every batch. {repair}; or {ANEW}"
    )


def unstarted_batch_error(
    folder: Folder | None, batch: int, version: int, cell: str, state: Folder
) -> BrokenChainError:
    """Returns the error for a cell with a batch that Spark has not begun."""
    where = f" ({folder / 'offsets'})" if folder is not None else ""
    return BrokenChainError(
        f"Spark's next batch is {batch}{where}, but cell {cell} already has batch {version} ({state}): offsets and "
        "commits of Spark's checkpoint were lost or set back, or a second job writes to this state. Restore them from "
        f"a copy; or, to execute the batches from {batch} on again, run `crown state "
        f"{folder or 'CHECKPOINT'} --rollback-to {batch - 1}`, with --into for every table that the query writes; or "
        f"{ANEW}"
    )


def lost_log_error(log: CellLog, version: int) -> BrokenChainError:
    """Returns the error for a live engine at a version that is no longer in its log."""
    return BrokenChainError(
        f"cell {log.cell} has applied batch {version}, but {log.folder} does not have it: files of the state were "
        "lost or deleted, or the checkpoint was replaced by an older copy. Restore the files from a copy; or, to "
        "continue from the older copy, start the stream in a new session (a new Spark application), with an output "
        f"that has no later batches either; or {ANEW}"
    )


def replaced_delta_error(log: CellLog, version: int) -> DamagedStateError:
    """Returns the error for a newest delta that differs from the one that the live engine has applied."""
    return DamagedStateError(
        f"cell {log.cell} has applied another batch {version} than the one in {log.delta_path(version)}: the file was "
        "replaced, and the changes that the cell would undo are not those that it has applied. Restore the original "
        f"file from a copy, or {ANEW}"
    )


def foreign_rows_error(cell: int, batch: int) -> BrokenChainError:
    """Returns the error for rows that were read for another batch than the one being executed."""
    return BrokenChainError(
        f"cell {cell}: the rows that were read in batch {batch} belong to another batch: foreachBatch kept the frame "
        "of an earlier batch and read it again. Read each frame only in the call that receives it; to keep its rows, "
        "write a table or use collect()"
    )


def _name(version: int) -> str:
    return f"batch {version}" if version >= 0 else "nothing"
