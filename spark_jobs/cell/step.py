"""The step of a worker process: takes the rows of one cell and micro-batch, returns its deltas.

The task's context identifies the micro-batch, the streaming query (both stable over restarts) and the cell (the
partition). Outside a stream there is no batch number and no state: the rows are one batch on an empty engine.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from crown.analysis.amplified import Amplification
from crown.errors import BadRowError, ChangeError, LateRowError
from crown.store.display import rows_shown
from plans.expressions.functions.user import UserFunction
from plans.program import Program
from plans.search.cells.shares import Grid
from spark_jobs.cell import engines, table
from spark_jobs.cell.cell import Cell, Report
from spark_jobs.cell.files import AHEAD, Filed, Reader
from spark_jobs.cell.kept_plan import keep_plan
from spark_jobs.cell.quarantine import Refused, noted
from spark_jobs.cell.spill import NONE, Limits
from spark_jobs.cell.warm import warm_up
from spark_jobs.cell.worker_input import complete, read_ahead
from spark_jobs.dispatch.envelope import CELL, Envelope, stamp
from spark_jobs.errors import BrokenChainError, CheckpointError
from spark_jobs.log.delta_file import format_of
from spark_jobs.log.history import SparkHistory, foreign_rows_error
from spark_jobs.log.meta import check_meta, read_meta
from spark_jobs.log.state_log import BACKFILL, CellLog, cell_folders
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.opening import folder_at

_program = lru_cache(maxsize=32)(Program.from_json)  # cached, because every task brings the text of its step


@dataclass(frozen=True)
class Step:
    """Everything a task must know. Travels in the closure of the operator; never stored.

    ``program``: JSON of what the cell runs; ``fingerprint``: of the whole query's plan; ``root``: where the state is,
    None for a batch job; ``options``: of its object store, never shown; ``checkpoint``: where Spark's own checkpoint
    would be, by default the folder that contains ``root``; ``scratch``: where live engines are; ``sample``: how many
    deltas to note for the driver to show; ``amplified``: how many deltas of one change are worth a note; ``limits``: of
    each cell; ``backfill``: True in the batch job that fills the state; ``whole``: JSON of the program that was cut
    into the cells, in the first round; ``aside``: rows that only the state shows to be bad go to the ``quarantine``,
    too; ``first``: the partition of the stage that belongs to the first cell, where the cells are part of a union;
    ``filed``: the relations that the cells read from files; ``functions``: user functions that the query calls, which
    the plan names; ``ranges``: the deltas are ranges.
    """

    program: str
    query: str
    fingerprint: str
    grid: Grid
    envelope: Envelope
    operator: str
    root: str | None
    scratch: str | None
    consolidate: bool | None
    on_missing: str
    keep: int
    quarantine: str | None
    run: str
    sample: int = 0
    amplified: int | None = None
    limits: Limits = NONE
    backfill: bool = False
    checkpoint: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    whole: str | None = None
    aside: bool = False
    first: int = 0
    filed: tuple[Filed, ...] = ()
    functions: tuple[UserFunction, ...] = ()
    ranges: bool = False

    def state(self) -> Folder:
        """Returns the folder of the state."""
        return folder_at(str(self.root), "state", self.options, self.scratch)

    def live(self, query_id: str) -> Path:
        """Returns the folder of this host for the live engines of a stream. A copy of the checkpoint is the same stream
        with another history, so it gets another folder.
        """
        place = hashlib.blake2b(str(self.root).encode(), digest_size=8).hexdigest()
        return Path(str(self.scratch)) / f"{query_id}-{place}" / self.operator

    def spark(self) -> Folder:
        """Returns the folder where Spark's own checkpoint would be."""
        if self.checkpoint is None:
            return self.state().parent
        return folder_at(self.checkpoint, "checkpoint", self.options)

    @property
    def meta(self) -> dict[str, Any]:
        """Returns the contents that ``meta.json`` of the operator must have."""
        return {
            "format": format_of(self.grid.cells),
            "fingerprint": self.fingerprint,
            "cells": self.grid.cells,
            "grid": self.grid.to_json(),
            "query": self.query,
        }


def run(step: Step, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs the step on the batches of a task, inside the function that is passed to ``mapInArrow``."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise RuntimeError("a step runs inside a Spark task only")
    partition = context.partitionId()
    query_id = context.getLocalProperty("sql.streaming.queryId")
    batch = context.getLocalProperty("streaming.sql.batchId")
    warm_up(_program(step.program))
    if step.root is None:
        return one_shot(step, partition, _reader(step).rows(complete(read_ahead(batches, AHEAD))))
    cell = _cell(step, partition)
    batches = _of_cell(batches, cell, step.grid.cells)
    if step.backfill:
        return one_shot(step, cell, _reader(step).rows(complete(read_ahead(batches, AHEAD))))
    if query_id is None or batch is None:  # without them the rows would be taken for a batch job's, on an empty engine
        raise CheckpointError(
            "a micro-batch was read in a thread that does not know its number. In foreachBatch, start threads as "
            "pyspark.InheritableThread, or wrap the functions of a pool in pyspark.inheritable_thread_target. With "
            "Spark Connect, no thread of foreachBatch knows it: write to one of Spark's sinks there, such as parquet "
            "or delta"
        )
    return micro_batch(step, query_id, int(batch), cell, complete(batches))


def _reader(step: Step) -> Reader:
    """Returns the reader of the files that some rows name."""
    return Reader(step.filed, step.envelope, step.grid, _program(step.program))


def _cell(step: Step, partition: int) -> int:
    """Returns the cell whose rows are in a partition of the stage. Raises :class:`CheckpointError` if it has none."""
    cells = step.grid.cells
    # A single cell ignores the partition number, because Spark may put several single cells into one partition.
    cell = partition - step.first if cells > 1 else 0
    if not 0 <= cell < cells:
        raise _elsewhere(cell)
    return cell


def _of_cell(batches: Iterable[pa.RecordBatch], cell: int, cells: int) -> Iterator[pa.RecordBatch]:
    """Yields the same batches. Raises :class:`CheckpointError` if the first row of one is for another cell."""
    for batch in batches:
        if batch.num_rows and batch.column(CELL)[0].as_py() % cells != cell:
            raise _elsewhere(cell)
        yield batch


def _elsewhere(cell: int) -> CheckpointError:
    return CheckpointError(
        f"cell {cell}: the partitions of the deltas do not have the numbers of their cells, because Spark put other "
        "partitions before them (a union in which they are not the first part): write the deltas with a query of "
        "their own, or call repartition() on them first"
    )


def one_shot(step: Step, cell: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs a batch job: all rows enter an empty engine in memory, part by part where that gives the same result.

    A backfill saves the engine as a snapshot, unless a stream has already started from an earlier one.
    """
    engine = engines.created(_program(step.program), None, step.on_missing)
    engine.begin()
    if table.by_parts(engine) and not step.ranges:
        _quarantine(step, step.run, 0, cell, table.enter(engine, step.envelope, batches, step.aside))
        yield from table.full_result(engine)
    else:
        changes, bad = step.envelope.split(batches)
        with _naming_rows(changes):
            prepared = engine.prepare(changes, strict=not step.aside)
        _quarantine(step, step.run, 0, cell, [*bad, *noted(prepared.bad)])
        yield from engine.run(prepared, consolidate=step.consolidate, ranges=step.ranges)
    engine.commit(0)
    if step.backfill and step.root is not None:
        folder = step.state() / "backfill" / step.operator
        check_meta(folder, step.meta)
        refuse_streams(step.state(), step.operator)
        log = CellLog.of(folder / str(cell), step.meta)
        mark = log.mark(BACKFILL, uuid.uuid4().hex)  # the history of a stream begins with this backfill and no other
        log.write_snapshot(BACKFILL, lambda path: engine.save(path, mark))


def refuse_streams(root: Folder | Path, operator: str) -> None:
    """Raises :class:`CheckpointError` if a stream has state of that operator under ``root`` already."""
    root = folder_at(root)
    try:
        streams = root.folders()
    except OSError as error:
        raise CheckpointError(f"cannot read the state in {root}: {error.strerror}") from None
    for stream in streams:
        if any(CellLog(cell, "").batches() for cell in cell_folders(root / stream / operator)):
            raise CheckpointError(
                f"a stream already runs from {root.parent}: a backfill needs a checkpoint without one"
            )


def micro_batch(
    step: Step, query_id: str, batch: int, cell: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Applies one micro-batch of a stream to one cell, exactly once. Reads the input to its end before it touches any
    state.
    """
    if step.root is None or step.scratch is None:
        raise RuntimeError("a micro-batch needs a state directory and a scratch directory")
    stamps: list[int] = []
    reader = _reader(step)
    changes, bad = step.envelope.split(reader.rows(_noting(batches, stamps)))
    _check_stamps(step, query_id, batch, cell, stamps)
    started = time.perf_counter()
    operator = step.state() / query_id / step.operator
    check_meta(operator, step.meta)
    keep_plan(
        operator,
        fingerprint=step.fingerprint,
        program=step.program,
        on_missing=step.on_missing,
        whole=step.whole,
    )
    place = f"{query_id}/{step.operator}"
    _quarantine(step, place, batch, cell, bad)

    def aside(refused: Refused) -> None:
        bad.extend(noted(refused))
        _quarantine(step, place, batch, cell, bad)

    log = CellLog.of(operator / str(cell), step.meta)
    state = Cell(
        _program(step.program),
        log,
        step.live(query_id) / str(cell),
        base=lambda: _backfill(step, cell),
        keep=step.keep,
        spark=step.spark(),
        on_missing=step.on_missing,
        limits=step.limits,
        aside=aside if step.aside else None,
    )
    report, sample, watch = Report(), _Sample(step.sample), Amplification(step.amplified)
    with _naming_rows(changes):
        for deltas in state.apply(batch, changes, report, step.consolidate, step.ranges):
            sample.add(deltas)
            watch.add(deltas)
            yield deltas
    found = watch.found(changes.values())
    total_ms = 1000.0 * (time.perf_counter() - started)
    note = asdict(report) | {"bad": len(bad), "total_ms": total_ms, "sample": sample.rows, "state": state.stats()}
    note["batch"] = state.segments
    note["filed"] = reader.read
    note["amplified"] = None if found is None else found.line()
    log.write_note(batch, note)


@contextmanager
def _naming_rows(changes: Mapping[str, pa.Table]) -> Iterator[None]:
    """Adds the row to the error of a rejected row, as the checks before the cells do. A position within a batch does
    not help the reader of a stream.
    """
    try:
        yield
    except LateRowError:
        raise
    except BadRowError as error:
        (row,) = rows_shown(changes[error.relation].slice(error.row, 1))
        raise ChangeError(
            f"bad row in relation {error.relation!r}: {error.reason}; row: {json.dumps(row, default=str)}"
        ) from None


def _noting(batches: Iterable[pa.RecordBatch], stamps: list[int]) -> Iterator[pa.RecordBatch]:
    """Yields the same batches; notes the ``_cell`` of the first row of each."""
    for batch in batches:
        if batch.num_rows:
            stamps.append(batch.column(CELL)[0].as_py())
        yield batch


def _check_stamps(step: Step, query_id: str, batch: int, cell: int, stamps: list[int]) -> None:
    """Raises :class:`BrokenChainError` if rows were read for another batch than the one that Spark's checkpoint
    describes.

    O(1): reads one file of Spark's checkpoint, if the checkpoint is in the same folder.
    """
    spark, cells = SparkHistory.of(step.spark(), query_id), step.grid.cells
    began = spark.began(batch) if spark is not None else None
    if began is not None and any(stamped // cells != stamp(began, cells) for stamped in stamps):
        raise foreign_rows_error(cell, batch)


class _Sample:
    """Some deltas of a batch, as text, for the progress display; half of them deletions, if there are any."""

    def __init__(self, wanted: int) -> None:
        self.rows: list[list[str]] = []
        self._room = {-1: wanted // 2, 1: wanted - wanted // 2}

    def add(self, deltas: pa.RecordBatch) -> None:
        """Notes rows of a batch until there are enough."""
        for sign, room in self._room.items():
            if room:
                weight = deltas.column(deltas.num_columns - 1)
                some = rows_shown(deltas.filter(pc.equal(pc.sign(weight), sign)).slice(0, room))
                self.rows += [[str(value) for value in row.values()] for row in some]
                self._room[sign] -= len(some)


def _backfill(step: Step, cell: int) -> Folder | None:
    """Returns the folder in which a backfill left the snapshot of this cell; None if there was no backfill."""
    folder = step.state() / "backfill" / step.operator
    if read_meta(folder) is None and not cell_folders(folder):
        return None
    check_meta(folder, step.meta)
    base = folder / str(cell)
    if base not in cell_folders(folder) or BACKFILL not in CellLog(base, "").snapshots():
        raise BrokenChainError(
            f"cell {cell} has no backfill, though {folder} has one: run bulk_load() again until it completes"
        )
    return base


def _quarantine(step: Step, place: str, batch: int, cell: int, bad: list[str]) -> None:
    """Writes the bad rows of a cell and batch to a file that is named after both: writing it again changes nothing."""
    if step.quarantine is None or not bad:
        return
    folder = folder_at(step.quarantine, "quarantine", step.options) / place
    lines = [json.dumps({"batch": batch, **json.loads(text)}) + "\n" for text in bad]
    try:
        folder.make()
        folder.replace(f"{batch}.{cell}.jsonl", "".join(lines).encode())
    except OSError as error:
        raise CheckpointError(f"bad rows cannot be written to {folder}: {error.strerror}") from None
