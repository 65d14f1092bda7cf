"""A whole job: inputs → ``maintain`` → sink, with progress, a summary and, if asked, a check against a recompute."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import plans
from plans.schema import Column, Schema, Table
from spark_jobs import edges, sinks
from spark_jobs.errors import SourceError, SparkJobError
from spark_jobs.operator import maintain
from spark_jobs.progress import Summary, Watcher
from spark_jobs.session import local_session
from spark_jobs.sources import Input, changes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# An exception of ours in a worker's traceback, up to where Spark's own text goes on; and what raise_error reports.
_OUR_ERROR = re.compile(
    r"^\s*(?:crown|plans|spark_jobs)\.\w+\.\w+: (.+?)(?=\n\s*(?:at |Driver stack)|\n\s*\n|\Z)", re.M | re.S
)
_BAD_ROW = re.compile(r"USER_RAISED_EXCEPTION\] (.+?)(?= SQLSTATE|\n|\Z)")
POLL_SECONDS = 0.2
OPERATOR = "crown"


@dataclass(frozen=True)
class Job:
    """What to run; the fields are the options of ``crown submit``."""

    query: str
    inputs: tuple[Input, ...]
    output: str
    checkpoint: Path | None = None
    format: str = "parquet"
    trigger: str | None = None
    schema: Schema = field(default_factory=Schema)
    dialect: str = "spark"
    window: str | None = None
    batch_rows: int = 100_000
    change: str | None = None
    cells: int | None = None
    rates: Mapping[str, float] = field(default_factory=dict)
    on_bad_row: str = "fail"
    quarantine: str | None = None
    on_missing: str = "ignore"
    cores: int | None = None
    memory: str = "2g"
    conf: Mapping[str, str] = field(default_factory=dict)
    scratch: str | None = None
    sample: int = 0
    verify: bool = False


@dataclass(frozen=True)
class Outcome:
    """What came of it. ``verified`` is None unless a check was asked for."""

    summary: Summary
    verified: bool | None


def run(job: Job, say: Callable[[str], None] = print) -> Outcome:
    """Run a job to its end, or, with a trigger, until interrupted. ``say`` gets every line meant for people.

    Raises ``SparkJobError``, ``CrownError`` or ``PlanError``, each with one sentence for the user, whether the mistake
    shows here or in a worker process.
    """
    _check(job)
    spark = local_session("crown submit", cores=job.cores, memory=job.memory, conf=job.conf)
    kept = job.checkpoint is not None
    checkpoint = job.checkpoint if job.checkpoint is not None else Path(tempfile.mkdtemp(prefix="crown-"))
    try:
        schema = _schema(job)
        frames = {given.name: _frame(spark, given, schema, job, checkpoint, True) for given in job.inputs}
        sample = max(job.sample, sinks.CONSOLE_ROWS if job.output == sinks.CONSOLE else 0)
        deltas = maintain(
            spark,
            job.query,
            frames,
            checkpoint=str(checkpoint),
            schema=schema,
            dialect=job.dialect,
            cells=job.cells,
            rates=job.rates or None,
            change=job.change,
            on_bad_row=job.on_bad_row,
            quarantine=job.quarantine,
            on_missing=job.on_missing,
            scratch=job.scratch,
            sample=sample,
        )
        summary = _follow(job, deltas, checkpoint, sample, say)
        for line in summary.lines():
            say(line)
        return Outcome(summary, _verified(spark, job, schema, checkpoint, summary, say) if job.verify else None)
    finally:
        if not kept:
            shutil.rmtree(checkpoint, ignore_errors=True)


def failure(error: Exception) -> SparkJobError | None:
    """The sentence for the user inside Spark's report of a failed stream; None if it is not of our making."""
    for pattern in (_OUR_ERROR, _BAD_ROW):
        found = pattern.search(str(error))
        if found is not None:
            return SparkJobError(found[1].strip())
    return None


def _check(job: Job) -> None:
    names = [given.name.lower() for given in job.inputs]
    if len(set(names)) < len(names):
        raise SourceError("two inputs have the same name: a relation has one input; merge the folders")
    if job.window is not None and not any(given.format == "edges" for given in job.inputs):
        raise SourceError(
            "--window turns an edge list into a sliding window, but no input is an edge list (format=edges)"
        )
    if job.verify and job.output in (sinks.CONSOLE, sinks.NOOP):
        raise SparkJobError("--verify compares the written output: give a folder as --output")
    if job.checkpoint is None and job.output not in (sinks.CONSOLE, sinks.NOOP):
        raise SparkJobError("--output to files needs --checkpoint DIR, where the job's state is kept for its next run")


def _schema(job: Job) -> Schema:
    """The declared relations, and for each undeclared edge list the columns src and dst."""
    tables = [job.schema[name] for name in job.schema]
    for given in job.inputs:
        if given.format == "edges" and given.name not in job.schema:
            tables.append(Table(given.name, (Column("src", "int64"), Column("dst", "int64"))))
    return Schema(tuple(tables))


def _frame(spark: SparkSession, given: Input, schema: Schema, job: Job, checkpoint: Path, streaming: bool) -> DataFrame:
    """The changes of one input; an edge list is first staged as change files in the checkpoint."""
    table = schema.get(given.name)
    if given.format != "edges":
        return changes(spark, given, table, job.change, streaming)
    if table is None:
        raise SourceError(f"relation {given.name!r} is not declared")
    folder = checkpoint / "staging" / given.name
    edges.stage(given.path, table, folder, batch_rows=job.batch_rows, span=job.window)
    return changes(spark, Input(given.name, folder, "parquet", {}, given.files or 1), table, None, streaming)


def _follow(job: Job, deltas: DataFrame, checkpoint: Path, sample: int, say: Callable[[str], None]) -> Summary:
    """Start the stream and report every micro-batch until it ends."""
    summary = Summary()
    query = sinks.start(deltas, job.output, job.format, checkpoint, job.trigger)
    watcher = Watcher(query, checkpoint / "crown", OPERATOR)

    def report() -> None:
        for progress in watcher.new():
            summary.batches.append(progress)
            say(progress.line())
            for line in sinks.sample_lines(progress, deltas.columns[:-1], sample):
                say(line)

    try:
        while not _ended(query):
            report()
        report()
    except KeyboardInterrupt:
        query.stop()
        report()
    return summary


def _ended(query: StreamingQuery) -> bool:
    """Wait a moment; True if the stream is over. Raises what it died of, in our words if it was one of our errors."""
    from pyspark.errors import StreamingQueryException

    if query.isActive:
        time.sleep(POLL_SECONDS)
        return False
    try:
        query.awaitTermination()
        return True
    except StreamingQueryException as error:
        ours = failure(error)
        if ours is None:
            raise
        raise ours from None


def _verified(
    spark: SparkSession, job: Job, schema: Schema, checkpoint: Path, summary: Summary, say: Callable[[str], None]
) -> bool:
    """Compare the accumulated output with a recompute from scratch, and say how it came out."""
    from spark_jobs import verify

    if summary.totals()["absent_deletes"]:
        raise SparkJobError(
            "--verify: some deletes found nothing to delete, so the net input is not what was maintained"
        )
    frames = {given.name: _frame(spark, given, schema, job, checkpoint, False) for given in job.inputs}
    plan = plans.plan(job.query, schema, dialect=job.dialect)
    columns = [output.name for output in plan.output]
    say("recomputing the query from scratch with Spark ...")
    maintained = verify.digest(
        verify.accumulated(spark.read.format(job.format).load(str(Path(job.output).resolve())), columns)
    )
    expected = verify.digest(verify.recomputed(spark, plan, frames, job.change))
    say(f"maintained  {maintained}")
    say(f"recomputed  {expected}")
    say("equal" if maintained == expected else "DIFFERENT")
    return maintained == expected
