"""A stream of change files through ``maintain``, and what DuckDB says each batch should have changed."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import LongType, StructField, StructType

from plans.schema import Schema
from plans.types import arrow_type
from spark_jobs import maintain
from spark_jobs.ingest.types import spark_type
from tests.oracles.expectation import Expectation, by_duckdb


class ChangeFiles:
    """Folders of change files, one per relation, each batch one file per relation."""

    def __init__(self, folder: Path, schema):
        self.folder = folder
        self.schema = Schema.of(schema)
        self.batches = 0
        for name in self.schema:
            (folder / name).mkdir(parents=True)

    def add(self, changes):
        """``changes``: rows with their weight last, by relation; a relation left out gets an empty file."""
        for name in self.schema:
            columns = self.schema[name].columns
            fields = [(c.name, arrow_type(c.type)) for c in columns] + [("_weight", pa.int64())]
            rows = [dict(zip([f[0] for f in fields], row, strict=True)) for row in changes.get(name, ())]
            path = self.folder / name / f"{self.batches:04d}.parquet"
            pq.write_table(pa.Table.from_pylist(rows, pa.schema(fields)), path)
            os.utime(path, (1e9 + self.batches, 1e9 + self.batches))
        self.batches += 1

    def frames(self, spark):
        """One file of every relation per micro-batch."""
        found = {}
        for name in self.schema:
            columns = [StructField(c.name, spark_type(c.type)) for c in self.schema[name].columns]
            reader = spark.readStream.schema(StructType([*columns, StructField("_weight", LongType())]))
            found[name] = reader.option("maxFilesPerTrigger", 1).parquet(str(self.folder / name))
        return found


class Result:
    """The deltas of each batch as a foreachBatch sink receives them; a batch written again replaces itself."""

    def __init__(self):
        self.deltas = {}

    def write(self, frame, batch):
        """The sink."""
        self.deltas[batch] = rows_of(frame)

    def state(self, batch=None):
        """The result up to and including a batch."""
        out = Counter()
        for number, rows in self.deltas.items():
            if batch is None or number <= batch:
                out.update(rows)
        return Counter({row: weight for row, weight in out.items() if weight})


def rows_of(frame):
    """A frame of deltas as summed weights by row."""
    out = Counter()
    for *row, weight in (tuple(row) for row in frame.collect()):
        out[tuple(row)] += weight
    return out


def run(spark, query, files, folder, *, sink=None, consume=None, behind=None, **options):
    """Run the stream over all files there are, from the checkpoint in ``folder``, with a stage ``behind`` the operator;
    returns the sink."""
    sink = sink or Result()
    options.setdefault("scratch", str(folder / "scratch"))
    deltas = maintain(spark, query, files.frames(spark), checkpoint=str(folder), **options)
    if behind is not None:
        deltas = deltas.mapInArrow(behind, deltas.schema)
    writer = deltas.writeStream.foreachBatch(consume or sink.write)
    stream = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    try:
        stream.awaitTermination()
    finally:
        stream.stop()
    return sink


def oracle_of(schema, sql):
    """What the result of a DISTINCT query ought to be after any batches."""
    return Expectation(schema, by_duckdb(sql))


def batch_of(changes):
    """Rows with their weight last, by relation, as a batch of the oracle's."""
    return {name: [(tuple(row), weight) for *row, weight in rows] for name, rows in changes.items()}


def assassin(scratch, marks, batches, operator="crown"):
    """A stage behind the operator that kills the operator's worker, once per batch named, at its first deltas."""

    def stage(deltas):
        import os
        import signal
        from pathlib import Path

        from pyspark import TaskContext

        context = TaskContext.get()
        batch, cell = context.getLocalProperty("streaming.sql.batchId"), context.partitionId()
        for rows in deltas:
            mark = Path(marks) / f"{batch}.{cell}"
            if int(batch) in batches and cell == 0 and not mark.exists():
                mark.touch()
                lock = next(Path(scratch).glob(f"*/*/{operator}/{cell}/lock"))
                os.kill(int(lock.read_text()), signal.SIGKILL)
            yield rows

    return stage
