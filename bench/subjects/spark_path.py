"""This project on Spark: ``spark_jobs.maintain`` over change files, deltas into Spark's no-op sink, or another one.

The stream is staged as Parquet files of ``batch_rows`` updates, one micro-batch each, before time counts. It is
measured end to end from the end of the first micro-batch, which includes the start of JVM and Python workers, to the
end of the last. The engine *spark-identity* is the same without this project: rows to Python and back.
"""

from __future__ import annotations

import time
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from bench.cases.checksum import of_batch
from bench.cases.streams import Stream
from bench.cases.workloads import Loaded, load
from bench.spent import spent
from bench.subjects.peers.foreign import scratch
from bench.subjects.subject import Progress, SkipError
from crown.errors import CrownError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CORES = 2


def run(spec: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Measures a cell of mode *spark*."""
    result: dict[str, Any] = {"status": "ok", "check": {"status": "not asked for"}}
    try:
        spark = session(spec.get("cores", CORES))
        if spec.get("check"):
            result["check"] = _check(spark, spec)
            if result["check"]["status"] == "failed":
                return result | {"status": "wrong", "reason": result["check"]["reason"]}
        loaded = load(spec["workload"], spec.get("data"), spec.get("options"))
        result |= {"data": loaded.stream.title, "of": len(loaded.stream)}
        return result | _timed(spark, spec, loaded, progress)
    except SkipError as error:
        return result | {"status": "skipped", "reason": str(error)}
    except CrownError as error:
        return result | {"status": "failed", "reason": str(error).splitlines()[0]}


def session(cores: int) -> SparkSession:
    """Returns the session in which Spark is measured. Raises SkipError if Spark cannot start."""
    from spark_jobs import local_session

    try:
        return local_session("crown bench", cores=cores)
    except CrownError as error:
        raise SkipError(str(error)) from None


def _staged(stream: Stream, rows: int, folder: Path, empty: bool = False) -> dict[str, Path]:
    """Returns parquet files of ``rows`` updates per relation, named in stream order; with ``empty``, all files but the
    first are empty.
    """
    for name in stream.tables:
        (folder / name).mkdir(parents=True)
    for i, batch in enumerate(stream.batches(rows)):
        for name, table in batch.items():
            pq.write_table(table.slice(0, 0) if empty and i else table, folder / name / f"{i:06}.parquet")
    return {name: folder / name for name in stream.tables}


def _frames(spark: SparkSession, staged: dict[str, Path]) -> dict[str, DataFrame]:
    frames = {}
    for name, path in staged.items():
        shape = spark.read.parquet(str(path)).schema
        frames[name] = spark.readStream.schema(shape).option("maxFilesPerTrigger", 1).parquet(str(path))
    return frames


def _deltas(spark: SparkSession, loaded: Loaded, staged: dict[str, Path], checkpoint: Path) -> DataFrame:
    from spark_jobs import maintain

    return maintain(spark, loaded.sql, _frames(spark, staged), checkpoint=str(checkpoint), schema=loaded.schema)


def _started(spark: SparkSession, sink: str, loaded: Loaded, staged: dict[str, Path], folder: Path) -> StreamingQuery:
    """Starts the stream. ``sink``: ``noop`` or ``spark-parquet``, Spark's own; ``delta`` or ``parquet``, the cells'."""
    from spark_jobs import write_deltas

    state, out, now = folder / "state", str(folder / "deltas"), {"availableNow": True}
    if sink in ("delta", "parquet"):
        frames = _frames(spark, staged)
        return write_deltas(
            spark, loaded.sql, frames, out, checkpoint=str(state), format=sink, trigger=now, schema=loaded.schema
        )
    writer = _deltas(spark, loaded, staged, state).writeStream.option("checkpointLocation", str(state))
    writer = writer.trigger(**now)
    return writer.format("noop").start() if sink == "noop" else writer.format("parquet").start(out)


def _passed_through(spark: SparkSession, staged: dict[str, Path], folder: Path) -> StreamingQuery:
    """Starts a stream whose rows go to Python and return unchanged, to measure the cost of an empty batch."""
    from spark_jobs.session import quietly

    frame = reduce(lambda one, other: one.unionAll(other), _frames(spark, staged).values())
    with quietly():
        same = frame.coalesce(1).mapInArrow(lambda batches: batches, frame.schema)
    writer = same.writeStream.option("checkpointLocation", str(folder / "state")).trigger(availableNow=True)
    return writer.format("noop").start()


@spent("check")
def _check(spark: SparkSession, spec: dict[str, Any]) -> dict[str, Any]:
    """Compares count and checksum of the deltas of a short stream at its first checkpoint."""
    position, count, checksum = spec["check"]["expected"][0]
    loaded = load(spec["workload"], spec.get("data"), spec["check"]["options"]).head(position)
    totals = [0, 0]

    def follow(deltas: DataFrame, _: int) -> None:
        table = deltas.toArrow()
        weight = table.column(table.num_columns - 1).to_numpy()
        totals[0] += int(weight.sum())
        totals[1] += int((of_batch(table, table.num_columns - 1) * weight).sum())

    with scratch() as folder:
        staged = _staged(loaded.stream, max(position // 3, 1), Path(folder) / "changes")
        deltas = _deltas(spark, loaded, staged, Path(folder) / "state")
        writer = deltas.writeStream.foreachBatch(follow).option("checkpointLocation", f"{folder}/state")
        writer.trigger(availableNow=True).start().awaitTermination()
    if totals != [count, checksum]:
        reason = f"after {position:,} updates: rows and checksum {totals}; DuckDB has {[count, checksum]}"
        return {"status": "failed", "reason": reason}
    return {"status": "passed", "positions": [position], "rows": count}


@spent("timed")
def _timed(spark: SparkSession, spec: dict[str, Any], loaded: Loaded, progress: Progress) -> dict[str, Any]:
    rows, given = spec["batch_rows"], spec.get("arguments", {})
    with scratch() as folder:
        staged = _staged(loaded.stream, rows, Path(folder) / "changes", given.get("empty", False))
        sink = given.get("sink", "noop")
        if spec["engine"] == "spark-identity":
            query = _passed_through(spark, staged, Path(folder))
        else:
            query = _started(spark, sink, loaded, staged, Path(folder))
        started = time.monotonic()
        while query.isActive:
            time.sleep(0.2)
            last = query.lastProgress
            if last is not None:
                progress(min((int(last["batchId"]) + 1) * rows, len(loaded.stream)), len(loaded.stream))
            if time.monotonic() - started > 4 * spec["bound_s"]:
                query.stop()
        query.awaitTermination()
        done = [p for p in query.recentProgress if "addBatch" in p["durationMs"]]
    ends = [_seconds(p["timestamp"]) + int(p["durationMs"]["triggerExecution"]) / 1000 for p in done]
    if len(done) < 2:
        raise SkipError("the stream is too short: two micro-batches are needed to leave the start-up out")
    seconds = ends[-1] - ends[0]
    times = sorted(int(p["durationMs"]["triggerExecution"]) for p in done[1:])
    position = [min((i + 1) * rows, len(loaded.stream)) for i in range(len(done))]
    # Spark does not count the rows of files that the cells read themselves.
    warm, counted = (0, 0) if given.get("empty", False) else (position[0], position[-1] - position[0])
    out: dict[str, Any] = {
        "updates": counted,
        "repeats": 1,
        "seconds": [round(seconds, 3)],
        "updates_per_s": counted / seconds,
        "updates_per_s_median": counted / seconds,
        "updates_per_s_all": [counted / seconds],
        "warm_up_updates": warm,
        "cores": spec.get("cores", CORES),
        "latency_ms": {
            "p50": times[len(times) // 2],
            "p95": times[min(int(0.95 * len(times)), len(times) - 1)],
            "p99": times[-1],
            "max": times[-1],
            "first": int(done[0]["durationMs"]["triggerExecution"]),
        },
        "series": {
            "position": position,
            "latency_ms": [int(p["durationMs"]["triggerExecution"]) for p in done],
        },
    }
    if position[-1] < len(loaded.stream):
        out |= {"status": "timeout", "reason": f"stopped with {position[-1]:,} of {len(loaded.stream):,} updates done"}
    return out


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()
