"""``read_view``: reads the current result of a running or stopped stream from its checkpoint as a DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from plans.expressions.functions.user import UserFunction
from plans.programs.reads import functions_of
from spark_jobs.cell.kept_plan import kept_plan
from spark_jobs.dispatch.chain import MERGE
from spark_jobs.errors import CheckpointError
from spark_jobs.ingest.types import in_arrow, numbered, spark_type
from spark_jobs.log.history import SparkHistory, reconcile, stream_of
from spark_jobs.log.meta import read_meta
from spark_jobs.log.state_location import Whereabouts, located
from spark_jobs.log.state_log import CellLog, cell_folders
from spark_jobs.session import quietly
from spark_jobs.storage.folder import Folder


@dataclass(frozen=True)
class Place:
    """The state that is read: the folder of the operator whose cells have the result, its ``meta.json``, and the
    batch.
    """

    operator: Folder
    meta: dict[str, Any]
    batch: int


def read_view(
    spark: SparkSession,
    checkpoint: str,
    *,
    state: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    operator: str = "crown",
    batch: int | None = None,
    batch_column: str | None = None,
) -> DataFrame:
    """Returns the result of a maintained query after a micro-batch, as a batch DataFrame with a partition per cell.

    ``checkpoint``: of ``maintain`` or ``write_deltas``, of a running or stopped stream. ``batch``: by default the
    newest that Spark has committed, which ``view_batch`` returns; an older one, if the state still has it. ``state``
    and ``storage_options`` as for ``maintain``; the checkpoint contains the place of its state. ``batch_column``: the
    name of a column with the number of the batch, e.g. ``"_batch"``. Every row is repeated as often as it is in the
    result.

    Each cell is rebuilt in a worker's memory, from its newest snapshot and the changes since, whenever the DataFrame is
    executed: O(state + result). Use ``persist()`` if it is read more than once. The live engines are not read. Raises
    ``CheckpointError`` or a subclass if there is no state, or if it cannot be verified.
    """
    place = place_of(located(checkpoint, state, storage_options), operator, batch)
    plan = kept_plan(place.operator, place.meta["fingerprint"]).program
    names = [output.name for output in plan.output]
    if batch_column is not None and batch_column.lower() in map(str.lower, names):
        raise CheckpointError(f"batch_column={batch_column!r}: the result has a column of that name; give another one")
    fields = [T.StructField(output.name, spark_type(output.type)) for output in plan.output]
    fields += [T.StructField(batch_column, T.LongType())] if batch_column is not None else []
    cells = place.meta["cells"]
    with quietly():
        task = _task(place, batch_column, functions_of(plan))
        return in_arrow(spark.range(0, cells, 1, cells), task, T.StructType(fields))


def view_batch(
    checkpoint: str,
    *,
    state: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    operator: str = "crown",
) -> int:
    """Returns the batch that ``read_view`` would read now. Raises the same errors."""
    return place_of(located(checkpoint, state, storage_options), operator, None).batch


def place_of(where: Whereabouts, operator: str, batch: int | None) -> Place:
    """Returns the state from which the result of an operator is read.

    If Spark's own checkpoint is in the same folder, it determines the committed batches, and the state is compared with
    it. Otherwise the newest batch is the newest that every cell has.
    """
    folder = where.checkpoint
    stream = stream_of(folder)
    state = where.root / stream / operator if stream is not None else _only_state(where, operator)
    if read_meta(state) is None:
        raise CheckpointError(f"{folder} holds no state of the operator {operator!r}: give the checkpoint of a stream")
    merged = state.parent / (operator + MERGE)
    last = merged if read_meta(merged) is not None else state
    meta = read_meta(last)
    assert meta is not None, "looked at above"
    if stream is None:
        newest = min(CellLog(cell, "").newest() for cell in cell_folders(last))
    else:
        newest = SparkHistory(folder).committed()
        for name in {state.name, last.name}:
            reconcile(folder, stream, name, where.root)
    if newest < 0:
        raise CheckpointError(f"the stream of {folder} has not committed a batch yet: wait for the first one")
    if batch is not None and not 0 <= batch <= newest:
        raise CheckpointError(f"batch={batch}: the stream of {folder} is at batch {newest}; give that, or an older one")
    return Place(last, meta, newest if batch is None else batch)


def _only_state(where: Whereabouts, operator: str) -> Folder:
    streams = [state for state in where.states(operator) if state.parent.name != "backfill"]
    if len(streams) != 1:
        how_many = f"the state of {len(streams)} streams" if streams else "no state of a stream"
        raise CheckpointError(
            f"{where.checkpoint} holds {how_many}: give the checkpoint of one stream, whose state it has"
        )
    return streams[0]


def _task(
    place: Place, batch_column: str | None, functions: Sequence[UserFunction]
) -> Callable[[Iterable[pa.RecordBatch]], Any]:
    """Returns the function that is sent to the workers. It imports what it needs there."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from plans.expressions.functions.user import known
        from spark_jobs.tables import view as module

        for function in functions:
            known(function)
        for cells in batches:
            for cell in cells.column(0).to_pylist():
                yield from module.cell_rows(place, cell, batch_column)

    return task


def cell_rows(place: Place, cell: int, batch_column: str | None) -> Iterator[pa.RecordBatch]:
    """Yields the rows of the result that one cell has."""
    from spark_jobs.cell.engines import restored, rows_of
    from spark_jobs.cell.warm import warm_up

    kept = kept_plan(place.operator, place.meta["fingerprint"])
    warm_up(kept.program)
    backfill = place.operator.parent.parent / "backfill" / place.operator.name
    log = CellLog.of(place.operator / str(cell), place.meta)
    for rows in rows_of(restored(log, kept, place.batch, backfill if cell_folders(backfill) else None)):
        arrays, names = list(rows.columns), list(rows.schema.names)
        if batch_column is not None:
            arrays.append(pa.repeat(pa.scalar(place.batch, pa.int64()), rows.num_rows))
            names.append(batch_column)
        yield numbered(pa.RecordBatch.from_arrays(arrays, names=names))
