"""Converts the deltas of a stream to other formats: a change data feed, Flink's RowKind, Debezium's envelopes.

The conversion is a stage after the cells. It reads the deltas of a partition and micro-batch, pairs the deleted and the
inserted rows of each key (``crown.changes``), and keeps no state. If a key's rows may come from several cells, they are
shuffled by the key first. The output is a function of the deltas alone, so a batch that is executed again gives the
same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from crown import changes
from crown.ingest.tables.columns import WEIGHT
from plans.expressions.columns.intervals import CARRIER
from plans.program import Program
from plans.programs.running import ranged
from plans.schema import CHANGE_TYPE, ROW_KIND, UNTIL
from plans.search.cells.shares import Grid
from plans.types import arrow_type
from spark_jobs.errors import SparkJobError
from spark_jobs.ingest.names import quoted
from spark_jobs.ingest.types import in_arrow, spark_type
from spark_jobs.session import quietly


def check(emit: str, key: Sequence[str] | None, plan: Program) -> None:
    """Raises :class:`SparkJobError` for an unknown format or a key that is not in the output, and PlanError for ranges
    of a query that has none.
    """
    wrong = changes.unfit(emit, key, [output.name for output in plan.output])
    if wrong is not None:
        raise SparkJobError(wrong)
    if emit == changes.RANGES:
        ranged(plan)


def emitted(deltas: DataFrame, emit: str, key: Sequence[str] | None, plan: Program, grid: Grid) -> DataFrame:
    """Returns the deltas in the format ``emit``, which ``check`` has accepted.

    ``cdc``, ``rowkind`` and ``ranges`` (which the cells compute) add ``_commit_version``, the number of the micro-batch
    (0 outside of a stream). With a key that no two rows of the result share, a key has one insert, delete or update per
    version. ``debezium`` has the number in ``source``. Memory: the deltas of a partition, gathered.
    """
    if emit == "weights":
        return deltas
    columns = [T.StructField(output.name, spark_type(output.type)) for output in plan.output]
    version = T.StructField(changes.VERSION, T.LongType())
    types = [(output.name, _arrow(output.type)) for output in plan.output]
    given = pa.schema([*types, (WEIGHT, pa.int64())])
    if emit == changes.RANGES:
        schema = T.StructType([*columns, T.StructField(WEIGHT, T.LongType()), until_of(plan), version])
        ends = [(output.name, _arrow(output.type)) for output in ranged(plan).ends]
        given = given.append(pa.field(UNTIL, pa.struct(ends)))
    elif emit == "cdc":
        schema = T.StructType([*columns, T.StructField(CHANGE_TYPE, T.StringType()), version])
    elif emit == "rowkind":
        schema = T.StructType([*columns, T.StructField(ROW_KIND, T.StringType()), version])
    else:
        images = [T.StructField(name, T.StructType(columns)) for name in ("before", "after")]
        source = T.StructField("source", T.StructType([T.StructField("batch", T.LongType())]))
        schema = T.StructType([*images, T.StructField("op", T.StringType()), source])
    if key and not _together(plan, grid, key):
        deltas = deltas.repartition(grid.cells, *(quoted(name) for name in key))
    with quietly():
        return in_arrow(deltas, _task(emit, list(key or ()), given), schema)


def _arrow(type_: str) -> pa.DataType:
    """Returns the Arrow type of a column between Spark and Python."""
    return CARRIER[type_] if type_ == "months" else arrow_type(type_)


def until_of(plan: Program) -> T.StructField:
    """Returns the column of deltas in ranges that contains the last row of a range."""
    ends = [T.StructField(output.name, spark_type(output.type)) for output in ranged(plan).ends]
    return T.StructField(UNTIL, T.StructType(ends))


def _together(plan: Program, grid: Grid, key: Sequence[str]) -> bool:
    """Returns True if rows with the same key come from one cell: the query has one cell, or is cut by columns of the
    key.
    """
    names = {name.lower() for name in key}
    plain = {output.expr.value for output in plan.output if output.expr.op == "col" and output.name.lower() in names}
    return grid.cells == 1 or (plan.plan is not None and set(grid.attributes) <= plain)


def _task(emit: str, key: list[str], schema: pa.Schema) -> Callable[[Iterable[pa.RecordBatch]], Any]:
    """Returns the function that is sent to the workers. It imports what it needs, so that a worker has one copy of
    it.
    """

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from spark_jobs import emitted as module

        return module.run(emit, key, schema, batches)

    return task


def run(emit: str, key: list[str], schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one partition of one micro-batch in the format ``emit``."""
    from pyspark import TaskContext

    from spark_jobs.cell.worker_input import complete

    context = TaskContext.get()
    batch = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    version = int(batch) if batch is not None else 0
    given = [pa.RecordBatch.from_arrays([c.cast(f.type) for c, f in zip(b.columns, schema, strict=True)], schema=schema)
             for b in complete(batches)]  # fmt: skip
    delta = pa.Table.from_batches(given, schema)
    yield from changes.emitted(delta, emit, key, version).to_batches()
